"""Whether the service runs, what it says of itself on its control socket, and with which certificate it answers."""

import smtplib
import ssl
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from tmpmaild import __version__
from tmpmaild.cli import control
from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.clients import belongs
from tmpmaild.config.kinds import Endpoint, parse_endpoint
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.host.sockets import reachable
from tmpmaild.host.status import Status

_CHECK, _SMTP = "service", "SMTP answers"
_SECONDS = 5.0
_START = "systemctl start tmpmaild; if it has failed, journalctl -u tmpmaild says why"
_RELOAD, _SEE_LOG = "systemctl reload tmpmaild", "journalctl -u tmpmaild"


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


def look(config: Config) -> tuple[Running | None, Result]:
    """Return the running service, if there is one, and what is to be said of it."""
    try:
        service = find(config)
    except CommandError as error:
        return None, problem(_CHECK, str(error), "run this command as root, with the configuration of the service")
    if service is None:
        where = "control.listen is off" if config.control.listen == "off" else "nothing answers on its control socket"
        return None, warning(_CHECK, f"not running, as far as can be told: {where}", _START)
    return service, _judged(service, config)


def as_served(config: Config, service: Running | None) -> Config:
    """Return a configuration with the places where the service listens: systemd may have passed others."""
    if service is None:
        return config
    served, replace = service.status.served, msgspec.structs.replace
    smtp, http = tuple(served.smtp), tuple(served.http)
    return replace(config, smtp=replace(config.smtp, listen=smtp), http=replace(config.http, listen=http))


def _judged(service: Running, config: Config) -> Result:
    status = service.status
    if not status.ready:
        return problem(_CHECK, f"runs as process {service.pid}, but is not ready: {status.reason}", _SEE_LOG)
    if status.version != __version__:
        text = f"version {status.version} runs, {__version__} is installed"
        return warning(_CHECK, text, "systemctl restart tmpmaild")
    if set(status.served.domains) != set(config.domains):
        return warning(_CHECK, f"runs with other domains: {', '.join(status.served.domains)}", _RELOAD)
    return ok(_CHECK, f"runs as process {service.pid} and is ready")


def answers(config: Config, service: Running, leaf: bytes | None) -> Iterator[Result]:
    """Connect to SMTP as a sender on this machine does. ``leaf`` is the certificate in the file as DER, if any."""
    served = service.status.served
    for name, tls_first in [(one, False) for one in served.smtp[:1]] + [(one, True) for one in served.smtps[:1]]:
        place = parse_endpoint(reachable(name))
        if belongs(place.host, config.smtp.trusted_proxies):
            continue  # who connects from this machine must send the header of a proxy first
        try:
            yield _answer(name, _connected(place, tls_first=tls_first), leaf)
        except (OSError, smtplib.SMTPException) as error:
            yield problem(_SMTP, f"{name}: {error or 'no answer'}", _SEE_LOG)


def _connected(place: Endpoint, *, tls_first: bool) -> smtplib.SMTP:
    if tls_first:
        return smtplib.SMTP_SSL(place.host, place.port, "localhost", timeout=_SECONDS, context=_any_certificate())
    return smtplib.SMTP(place.host, place.port, "localhost", timeout=_SECONDS)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # what it shows is looked at, not trusted
    return context


def _answer(name: str, connection: smtplib.SMTP, leaf: bytes | None) -> Result:
    """Compare the certificate in use with that of the file."""
    with connection as client:
        client.ehlo()
        if client.has_extn("starttls"):
            client.starttls(context=_any_certificate())
        if not isinstance(client.sock, ssl.SSLSocket):
            if leaf is None:
                return ok(_SMTP, f"{name}: greeting and EHLO, without TLS")
            return warning(_SMTP, f"{name}: offers no STARTTLS, although a certificate is set", _RELOAD)
        if leaf is not None and client.sock.getpeercert(binary_form=True) != leaf:
            return warning(_SMTP, f"{name}: shows another certificate than the file's", _RELOAD)
    return ok(_SMTP, f"{name}: greeting, EHLO and TLS")
