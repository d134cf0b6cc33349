"""The commands that run the service: ``serve``, and ``catch``, which catches all mail of an application."""

import faulthandler
import json
import logging
import os
import select
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import anyio
import click
from click.core import ParameterSource

from tmpmaild import __version__
from tmpmaild.cli import configured, console
from tmpmaild.cli.configured import EXIT_CONFIG, NoOutput, clear_errors, config_option, fail
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import DEFAULT_PATH, Config
from tmpmaild.errors import CommandError, DatabaseRefused
from tmpmaild.host.logs import is_journal, logging_to_stderr
from tmpmaild.host.process import drop_to_owner
from tmpmaild.host.sockets import reachable
from tmpmaild.storage.sqlite.opening import temporary

if TYPE_CHECKING:
    from tmpmaild.daemon import Announce, ReadConfig

log = logging.getLogger(__name__)

FOR_TESTS: Final[dict[str, object]] = {
    "http.listen": ["127.0.0.1:0"],
    "smtp.listen": ["127.0.0.1:0"],
    "smtp.auth": "any",
    "smtp.faults": True,
    "smtp.keep_refusals": True,
    "smtp.max_message_bytes": 104_857_600,
    "smtp.max_inflight_bytes": 536_870_912,
    "addresses.max_messages": 10_000,
    "addresses.max_bytes": 10_737_418_240,
    "addresses.max_share_per_client": 1.0,
    "addresses.max_lifetime_seconds": 315_360_000,
    "rate_limit.requests_per_minute": 0,
    "limits.exempt": ["0.0.0.0/0", "::/0"],
    "log.level": "warning",
    "control.listen": "off",
}
"""The defaults of ``serve --for-tests``: the application under test is trusted, and is not slowed down."""

_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

CATCH_ALL: Final[dict[str, object]] = {
    "smtp.auth": "none",
    "addresses.max_messages": 0,
    "addresses.lifetime_seconds": 315_360_000,
    "http.allowed_hosts": list(_LOOPBACK_HOSTS),
}
"""What ``--catch-all`` changes of ``FOR_TESTS``: nothing expires by itself, and pages of other sites reach nothing."""

CATCH: Final[dict[str, object]] = {
    **FOR_TESTS,
    **CATCH_ALL,
    "http.listen": ["127.0.0.1:8025"],
    "smtp.listen": ["127.0.0.1:1025"],
}
"""The defaults of ``catch``."""

_host_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With all mail caught: another name by which browsers and tests reach the API, besides localhost.",
)
_auth_option = click.option(
    "--auth", "offers_auth", is_flag=True, help="With all mail caught: offer AUTH, and accept any credentials."
)


@click.command()
@click.option(
    "--for-tests",
    "is_for_tests",
    is_flag=True,
    envvar="TMPMAILD_FOR_TESTS",
    help="Free ports, no limits that a test meets, a temporary database; where it listens is one line of JSON. Stops "
    "when standard input ends, unless $TMPMAILD_FOR_TESTS asks for it.",
)
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input ends: its writer is gone.")
@click.option(
    "--stay", "stays", is_flag=True, help="With --for-tests: run until a signal, even without standard input."
)
@click.option(
    "--catch-all",
    "catches_all",
    is_flag=True,
    envvar="TMPMAILD_CATCH_ALL",
    help="With --for-tests: accept every recipient at every domain, and list all messages at /api/v1/messages.",
)
@_host_option
@_auth_option
@click.option(
    "--temporary",
    "is_temporary",
    is_flag=True,
    help="Delete the database at the end, and its folder if that is empty then. Refused if it is there already.",
)
@config_option
@clear_errors
def serve(
    config_path: Path | None,
    *,
    is_for_tests: bool,
    stop_with_stdin: bool,
    stays: bool,
    catches_all: bool,
    hosts: Sequence[str],
    offers_auth: bool,
    is_temporary: bool,
) -> None:
    """Run the service until SIGTERM or ctrl-C.

    With no configuration at all: HTTP on 127.0.0.1:8025, SMTP on 127.0.0.1:1025, the domain mail.example.com, and
    tmpmaild.db in the current folder.
    """
    if catches_all and not is_for_tests:
        raise CommandError("--catch-all needs --for-tests; at your desk use tmpmaild catch")
    is_by_option = click.get_current_context().get_parameter_source("is_for_tests") is ParameterSource.COMMANDLINE
    with ExitStack() as until_end:
        if is_for_tests or is_temporary:
            _clean_up_early(until_end)
        # After the handlers are set: in a container standard input may be at its end, and then SIGTERM comes at once.
        if stop_with_stdin or (is_by_option and not stays):
            _watch_stdin(is_for_tests=is_by_option)
        read: ReadConfig = partial(configfile.load, config_path, os.environ)
        if is_for_tests:
            defaults = {**FOR_TESTS, **(CATCH_ALL if catches_all else {})}
            environment = _environment(hosts, offers_auth=offers_auth) if catches_all else os.environ
            path = config_path or Path(os.environ.get(f"{configfile.PREFIX}CONFIG") or os.devnull)
            read = until_end.enter_context(_with_temporary_storage(path, environment, defaults))
        config = read()
        announce = _announce_as_json if is_for_tests else _announcer(config)
        is_temporary = is_temporary or (is_for_tests and not config.storage.url)
        _serve(config, read, announce, until_end, is_temporary=is_temporary, catches_all=catches_all)


@click.command()
@click.option("--smtp", "smtp_listen", metavar="HOST:PORT", help="Where to accept mail; 127.0.0.1:1025 by default.")
@click.option("--http", "http_listen", metavar="HOST:PORT", help="Where the page and the API are; 127.0.0.1:8025.")
@click.option(
    "--keep",
    "database",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the messages in this database. Without it they are deleted at the end.",
)
@click.option("--open", "opens_page", is_flag=True, help="Open the page in a browser.")
@_host_option
@_auth_option
@clear_errors
def catch(
    *,
    smtp_listen: str | None,
    http_listen: str | None,
    database: Path | None,
    opens_page: bool,
    hosts: Sequence[str],
    offers_auth: bool,
) -> None:
    """Catch all mail that an application sends, whoever it is for, and list it in one place.

    Until ctrl-C. Point the application to SMTP on 127.0.0.1:1025; the messages are on the page, and at
    http://127.0.0.1:8025/api/v1/messages.
    """
    environment = _environment(hosts, offers_auth=offers_auth)
    chosen = {"SMTP__LISTEN": smtp_listen, "HTTP__LISTEN": http_listen, "STORAGE__PATH": database and str(database)}
    environment |= {f"{configfile.PREFIX}{name}": value for name, value in chosen.items() if value}
    with ExitStack() as until_end:
        _clean_up_early(until_end)
        read = until_end.enter_context(_with_temporary_storage(Path(os.devnull), environment, CATCH))
        config = read()
        announce = _catch_announcer(config, opens_page=opens_page)
        is_temporary = database is None and not config.storage.url
        _serve(config, read, announce, until_end, is_temporary=is_temporary, catches_all=True)


def _environment(hosts: Sequence[str], *, offers_auth: bool) -> dict[str, str]:
    """Return the environment with the settings that the options of ``catch`` imply."""
    environment = dict(os.environ)
    if hosts:
        environment[f"{configfile.PREFIX}HTTP__ALLOWED_HOSTS"] = ",".join((*_LOOPBACK_HOSTS, *hosts))
    if offers_auth:
        environment[f"{configfile.PREFIX}SMTP__AUTH"] = "any"
    return environment


def _serve(
    config: Config,
    read: "ReadConfig",
    announce: "Announce",
    until_end: ExitStack,
    *,
    is_temporary: bool,
    catches_all: bool,
) -> None:
    """Run the daemon. Raises ``CommandError`` and ``StartError``."""
    configured.expect_folder(config)
    drop_to_owner(Path(config.storage.path))
    from tmpmaild import daemon  # noqa: PLC0415 - loading it takes longer than running any other command

    if sys.stderr is not None:  # print stacks on a crash, and if systemd's watchdog finds the loop stuck (SIGABRT)
        faulthandler.enable()
    until_end.enter_context(logging_to_stderr(config.log.level, config.log.format))
    if is_temporary:
        if config.storage.url:
            raise CommandError("--temporary is for a database in a file, and storage.url is set")
        until_end.enter_context(temporary(Path(config.storage.path)))
    for line in configfile.variables_without_effect(os.environ):
        log.warning("%s", line)
    run = partial(daemon.run, config, announce, read, catch_all=catches_all)
    try:
        anyio.run(run, backend_options={"use_uvloop": _has_uvloop()})
    except DatabaseRefused as error:
        fail(error, EXIT_CONFIG)


def _clean_up_early(until_end: ExitStack) -> None:
    """On a signal that arrives before the daemon handles signals, delete its temporary files and exit."""

    def end(*_: object) -> None:
        until_end.close()
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


@contextmanager
def _with_temporary_storage(
    path: Path, environ: Mapping[str, str], defaults: Mapping[str, object]
) -> Iterator["ReadConfig"]:
    """Yield a function that reads the configuration over ``defaults``, and only from this file.

    If no database is configured, it is created in a folder that is deleted afterwards. Raises ``ConfigError``.
    """
    storage = configfile.load(path, environ, defaults).storage
    if storage.url or storage.path != DEFAULT_PATH:
        yield partial(configfile.load, path, environ, defaults)
        return
    with TemporaryDirectory(prefix="tmpmaild-") as folder:
        yield partial(configfile.load, path, environ, {**defaults, "storage.path": str(Path(folder, DEFAULT_PATH))})


def _watch_stdin(*, is_for_tests: bool) -> None:
    """Stop the process when standard input ends. Raises ``CommandError`` if it has already ended and must not.

    A terminal is not watched: reading it would suspend a background process, and a foreground process can be stopped
    with ctrl-C.
    """
    if os.isatty(0):
        return
    if _has_ended_stdin() and is_for_tests:
        raise CommandError(
            "standard input has ended already (</dev/null, or & in a script), and --for-tests stops with it: "
            "keep it open, or pass --stay, or set TMPMAILD_FOR_TESTS=true instead of the option"
        )
    threading.Thread(target=_stop_with_stdin, daemon=True).start()


def _has_ended_stdin() -> bool:
    try:
        readable, _, _ = select.select([0], [], [], 0)
        return bool(readable) and not os.read(0, 1)
    except OSError:
        return True  # there is none


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - not on every platform
    except ImportError:
        return False
    return True


def _stop_with_stdin() -> None:
    """Wait for the end of standard input, which the system closes however the program at its other end exits."""
    try:
        while os.read(0, 1024):
            pass
    except OSError:
        pass  # there is none
    os.kill(os.getpid(), signal.SIGTERM)


def _announcer(config: Config) -> "Announce":
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        if config.log.format == "json" or is_journal(1):
            return  # it is in the log
        here = f"http://{reachable(http[0])}"
        api = f"{here}/api/v1/addresses"
        server = "" if smtp[0] in Config().smtp.listen else f" --server {reachable(smtp[0])}"
        lines = [
            f"tmpmaild {__version__} serves {', '.join(config.domains)}",
            f"  HTTP on {', '.join(http)}",
            f"  SMTP on {', '.join(smtp)}",
        ]
        lines += [f"  SMTPS on {', '.join(smtps)}"] if smtps else []
        if not http[0].startswith("unix:"):
            lines += [
                f"Open {config.http.public_url or here}/ in a browser, or try it in another terminal:",
                f"  address=$(curl -sX POST {api} | grep -o '[^\"]*@[^\"]*')",
                f'  {_this_program()} send{server} "$address"',
                f'  curl -s "{api}/$address/messages"',
            ]
        try:
            click.echo("\n".join(lines))
        except OSError as error:  # it is also in the log
            log.warning("standard output cannot be written: %s", error.strerror or error)
            console.forget_output()

    return announce


def _catch_announcer(config: Config, *, opens_page: bool) -> "Announce":
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        here = config.http.public_url or f"http://{reachable(http[0])}"
        if opens_page:
            threading.Thread(target=webbrowser.open, args=[f"{here}/"], daemon=True).start()
        del smtps
        try:
            click.echo(
                f"tmpmaild {__version__} catches all mail: send it to SMTP on {', '.join(map(reachable, smtp))}\n"
                f"  {here}/ in a browser, {here}/api/v1/messages as JSON; ctrl-C ends it"
            )
        except OSError as error:
            log.warning("standard output cannot be written: %s", error.strerror or error)
            console.forget_output()

    return announce


def _this_program() -> str:
    return f"{sys.executable} -m tmpmaild" if sys.argv[0].endswith("__main__.py") else sys.argv[0]


def _announce_as_json(http: list[str], smtp: list[str], smtps: list[str]) -> None:
    over_tcp = [place for place in http if not place.startswith("unix:")]
    places = {
        "http": f"http://{reachable(over_tcp[0])}" if over_tcp else http[0],
        "smtp": reachable(smtp[0]),
        "smtps": reachable(smtps[0]) if smtps else None,
    }
    try:
        console.expect_output()
        click.echo(json.dumps(places))
    except OSError as error:
        console.forget_output()
        raise NoOutput(f"standard output cannot be written: {error.strerror or error}") from error
