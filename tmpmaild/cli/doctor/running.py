"""Whether the service runs, and what it says of itself on its control socket."""

import msgspec
from msgspec import Struct

from tmpmaild import __version__
from tmpmaild.cli import control
from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.host.status import Status

_CHECK = "service"


class Running(Struct, frozen=True):
    """A running service: its process and its status."""

    pid: int
    status: Status


def find(config: Config) -> Running | None:
    """Return the running service, None if none answers. Raises ``CommandError``."""
    try:
        with control.asked(config, "status") as answer:
            (found,) = answer.lines()
            return Running(answer.pid, msgspec.convert(found, Status))
    except control.NotRunning:
        return None
    except (msgspec.ValidationError, ValueError) as error:
        raise CommandError("what answers on the control socket is another version of tmpmaild") from error


def look(config: Config) -> tuple[Running | None, Finding]:
    """Return the running service, if there is one, and what is to be said of it."""
    try:
        service = find(config)
    except CommandError as error:
        return None, problem(_CHECK, str(error), "run this command as root, with the configuration of the service")
    if service is None:
        where = "control.listen is off" if config.control.listen == "off" else "nothing answers on its control socket"
        return None, warning(_CHECK, f"not running, as far as can be told: {where}", "systemctl start tmpmaild")
    return service, _judged(service, config)


def _judged(service: Running, config: Config) -> Finding:
    status = service.status
    if not status.ready:
        return problem(_CHECK, f"runs as process {service.pid}, but is not ready: {status.reason}", "see its log")
    if status.version != __version__:
        return warning(
            _CHECK, f"version {status.version} runs, {__version__} is installed", "systemctl restart tmpmaild"
        )
    if set(status.served.domains) != set(config.domains):
        return warning(_CHECK, f"runs with other domains: {', '.join(status.served.domains)}", _RELOAD)
    return ok(_CHECK, f"runs as process {service.pid} and is ready")


_RELOAD = "systemctl reload tmpmaild, or restart it"
