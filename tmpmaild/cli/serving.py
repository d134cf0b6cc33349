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
from tmpmaild.config.file import Option
from tmpmaild.config.settings import DEFAULT_PATH, Config
from tmpmaild.errors import CannotListen, CommandError, DatabaseRefused, StartError
from tmpmaild.host.logs import is_journal, logging_to_stderr
from tmpmaild.host.process import drop_to_owner
from tmpmaild.host.sockets import reachable
from tmpmaild.hostnames import LOOPBACK_HOSTS
from tmpmaild.model import Purpose
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

_LOOPBACK: Final = "127.0.0.1"

CATCH_ALL: Final[dict[str, object]] = {
    "smtp.auth": "none",
    "addresses.max_messages": 0,
    "addresses.lifetime_seconds": 315_360_000,
    "http.allowed_hosts": list(LOOPBACK_HOSTS),
}
"""The settings that ``--catch-all`` changes: nothing expires by default, and other sites may not send requests."""

CATCH: Final[dict[str, object]] = {
    **FOR_TESTS,
    **CATCH_ALL,
    "http.listen": ["127.0.0.1:8025"],
    "smtp.listen": ["127.0.0.1:1025"],
}
"""The defaults of ``catch``."""

_host_option = partial(click.option, "--host", "hosts", multiple=True, metavar="NAME")
_auth_option = partial(click.option, "--auth", "offers_auth", is_flag=True)


@click.command()
@click.option(
    "--for-tests",
    "is_for_tests",
    is_flag=True,
    envvar="TMPMAILD_FOR_TESTS",
    help="Use free ports, a temporary database and no limits that tests would reach; print the addresses as one line "
    "of JSON. Stops when standard input ends, unless $TMPMAILD_FOR_TESTS is used instead of this option.",
)
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input ends, for example if its writer exits.")
@click.option(
    "--stay", "stays", is_flag=True, help="With --for-tests: run until a signal arrives, even without standard input."
)
@click.option(
    "--catch-all",
    "catches_all",
    is_flag=True,
    envvar="TMPMAILD_CATCH_ALL",
    help="With --for-tests: accept every recipient at every domain, and list all messages at /api/v1/messages.",
)
@_host_option(help="With --catch-all: a host name other than localhost that browsers and tests use.")
@_auth_option(help="With --catch-all: offer AUTH, and accept any credentials.")
@click.option(
    "--temporary",
    "is_temporary",
    is_flag=True,
    help="Delete the database on exit, and its folder if it is empty. This is refused if the database already exists.",
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

    The defaults are HTTP on 127.0.0.1:8025, SMTP on 127.0.0.1:1025, the domain mail.example.com, and the database
    tmpmaild.db in the current directory. To change them, write a configuration file, or set variables such as
    TMPMAILD_HTTP__LISTEN.
    """
    if catches_all and not is_for_tests:
        raise CommandError("--catch-all needs --for-tests; for interactive use, run tmpmaild catch")
    if (hosts or offers_auth) and not catches_all:
        raise CommandError("--host and --auth need --catch-all")
    purpose = Purpose.CATCHING if catches_all else Purpose.TESTS if is_for_tests else Purpose.MAIL
    is_by_option = click.get_current_context().get_parameter_source("is_for_tests") is ParameterSource.COMMANDLINE
    with ExitStack() as until_end:
        if is_for_tests or is_temporary:
            _clean_up_early(until_end, purpose)
        # Set the handlers first, because the end of standard input may immediately cause a SIGTERM.
        if stop_with_stdin or (is_by_option and not stays):
            _watch_stdin(is_for_tests=is_by_option)
        read: ReadConfig = partial(configfile.load, config_path, os.environ)
        if is_for_tests:
            defaults = {**FOR_TESTS, **(CATCH_ALL if catches_all else {})}
            path = config_path or Path(os.environ.get(f"{configfile.PREFIX}CONFIG") or os.devnull)
            options = _options(hosts, offers_auth=offers_auth)
            read = until_end.enter_context(_with_temporary_storage(path, defaults, options))
        config = read()
        announce = _announce_as_json if is_for_tests else _announcer(config)
        is_temporary = is_temporary or (is_for_tests and not config.storage.url)
        _serve(config, read, announce, until_end, purpose, is_temporary=is_temporary)


@click.command()
@click.option("--smtp", "smtp_listen", metavar="[HOST:]PORT", help="The address for SMTP. Default: 127.0.0.1:1025.")
@click.option(
    "--http", "http_listen", metavar="[HOST:]PORT", help="The address of the page and the API. Default: 127.0.0.1:8025."
)
@click.option(
    "--keep",
    "database",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the messages in this database. Without this option, the messages are deleted on exit.",
)
@click.option("--open", "opens_page", is_flag=True, help="Open the page in a browser.")
@_host_option(help="A host name other than localhost that browsers and tests use for the page and the API.")
@_auth_option(help="Offer AUTH, and accept any credentials. Without this option, a client that requires a login fails.")
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
    """Catch all mail that an application sends, to any recipient, and list it in one place.

    Runs until ctrl-C. Configure the application to send mail to SMTP on 127.0.0.1:1025. The messages are listed on the
    page and at http://127.0.0.1:8025/api/v1/messages.
    """
    options = _options(hosts, offers_auth=offers_auth)
    if smtp_listen is not None:
        options["smtp.listen"] = Option("--smtp", _places(smtp_listen))
    if http_listen is not None:
        options["http.listen"] = Option("--http", _places(http_listen))
    if database is not None:
        options["storage.path"] = Option("--keep", str(database))
    with ExitStack() as until_end:
        _clean_up_early(until_end, Purpose.CATCHING)
        read = until_end.enter_context(_with_temporary_storage(Path(os.devnull), CATCH, options))
        config = read()
        announce = _catch_announcer(config, opens_page=opens_page)
        try:
            _serve(config, read, announce, until_end, Purpose.CATCHING)
        except CannotListen as error:
            raise StartError(f"{error}; choose a different port with --smtp or --http") from error


def _options(hosts: Sequence[str], *, offers_auth: bool) -> dict[str, Option]:
    """Return the settings that ``--host`` and ``--auth`` imply, by key."""
    options = {}
    if hosts:
        options["http.allowed_hosts"] = Option("--host", [*LOOPBACK_HOSTS, *hosts])
    if offers_auth:
        options["smtp.auth"] = Option("--auth", "any")
    return options


def _places(text: str) -> list[str]:
    """Return the listening addresses that an option specifies; a port without a host means loopback."""
    return [f"{_LOOPBACK}:{place}" if place.isdecimal() else place for place in map(str.strip, text.split(","))]


def _serve(
    config: Config,
    read: "ReadConfig",
    announce: "Announce",
    until_end: ExitStack,
    purpose: Purpose,
    *,
    is_temporary: bool = False,
) -> None:
    """Run the daemon. Raises ``CommandError`` and ``StartError``."""
    configured.expect_folder(config)
    drop_to_owner(Path(config.storage.path))
    from tmpmaild import daemon  # noqa: PLC0415 - loading it would slow down other commands

    if sys.stderr is not None:  # print stacks on a crash, and if systemd's watchdog aborts a stuck loop (SIGABRT)
        faulthandler.enable()
    until_end.enter_context(logging_to_stderr(config.log.level, config.log.format))
    if is_temporary:
        if config.storage.url:
            raise CommandError("--temporary is for a database in a file, but storage.url is set")
        until_end.enter_context(temporary(Path(config.storage.path)))
    for line in configfile.variables_without_effect(os.environ):
        log.warning("%s", line)
    run = partial(daemon.run, config, announce, read, purpose=purpose)
    try:
        anyio.run(run, backend_options={"use_uvloop": _has_uvloop()})
    except DatabaseRefused as error:
        fail(error, EXIT_CONFIG)


def _clean_up_early(until_end: ExitStack, purpose: Purpose) -> None:
    """If a signal arrives before the daemon handles signals, delete the temporary files and exit."""

    def end(*_: object) -> None:
        until_end.close()
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if purpose is not Purpose.MAIL and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)


@contextmanager
def _with_temporary_storage(
    path: Path, defaults: Mapping[str, object], options: Mapping[str, Option]
) -> Iterator["ReadConfig"]:
    """Yield a function that loads the configuration with these defaults and options.

    If no database is configured, a database is created in a folder that is deleted afterwards. Raises ``ConfigError``,
    and ``StartError`` if this folder cannot be created.
    """
    load = partial(configfile.load, path, os.environ, options=options)
    storage = load(defaults).storage
    if storage.url or storage.path != DEFAULT_PATH:
        yield partial(load, defaults)
        return
    try:
        temporary_folder = TemporaryDirectory(prefix="tmpmaild-")
    except OSError as error:  # for example, in a container with a read-only file system
        reason = f"there is no folder for a temporary database: {error.strerror or error}"
        raise StartError(f"{reason}; set TMPDIR, or name a file: {configfile.PREFIX}STORAGE__PATH") from error
    with temporary_folder as folder:
        yield partial(load, {**defaults, "storage.path": str(Path(folder, DEFAULT_PATH))})


def _watch_stdin(*, is_for_tests: bool) -> None:
    """Stop the process when standard input ends. Raises ``CommandError`` if standard input is required but has ended.

    A terminal is not watched: reading from it would suspend a background process, and ctrl-C stops a foreground process
    anyway.
    """
    if os.isatty(0):
        return
    if _has_ended_stdin() and is_for_tests:
        raise CommandError(
            "standard input has already ended (</dev/null, or & in a script), and --for-tests stops when it ends: "
            "keep it open, pass --stay, or set TMPMAILD_FOR_TESTS=true instead of the option"
        )
    threading.Thread(target=_stop_with_stdin, daemon=True).start()


def _has_ended_stdin() -> bool:
    try:
        readable, _, _ = select.select([0], [], [], 0)
        return bool(readable) and not os.read(0, 1)
    except OSError:
        return True  # standard input is closed


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - not available on every platform
    except ImportError:
        return False
    return True


def _stop_with_stdin() -> None:
    """Wait for the end of standard input, which the system closes however the other program exits."""
    try:
        while os.read(0, 1024):
            pass
    except OSError:
        pass  # standard input is closed
    os.kill(os.getpid(), signal.SIGTERM)


def _announcer(config: Config) -> "Announce":
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        if config.log.format == "json" or is_journal(1):
            return  # the log contains the addresses
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
                f"Open {config.http.public_url or here}/ in a browser, or try this in another terminal:",
                f"  address=$(curl -sX POST {api} | grep -o '[^\"]*@[^\"]*')",
                f'  {_this_program()} send{server} "$address"',
                f'  curl -s "{api}/$address/messages"',
            ]
        try:
            click.echo("\n".join(lines))
        except OSError as error:  # the addresses are also in the log
            log.warning("cannot write to standard output: %s", error.strerror or error)
            console.forget_output()

    return announce


def _catch_announcer(config: Config, *, opens_page: bool) -> "Announce":
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        over_tcp = [place for place in http if not place.startswith("unix:")]
        here = config.http.public_url or (f"http://{reachable(over_tcp[0])}" if over_tcp else "")
        if opens_page and here:
            threading.Thread(target=_open_page, args=[f"{here}/"], daemon=True).start()
        shown = f"{here}/ in a browser, {here}/api/v1/messages as JSON" if here else f"HTTP on {', '.join(http)}"
        within_tls = f", within TLS on {', '.join(map(reachable, smtps))}" if smtps else ""
        smtp_places = ", ".join(map(reachable, smtp))
        try:
            click.echo(
                f"tmpmaild {__version__} catches all mail: send it to SMTP on {smtp_places}{within_tls}\n"
                f"  {shown}; ctrl-C stops it"
            )
        except OSError as error:
            log.warning("cannot write to standard output: %s", error.strerror or error)
            console.forget_output()

    return announce


def _open_page(url: str) -> None:
    if not webbrowser.open(url):
        log.warning("no browser was found to open %s", url)


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
        raise NoOutput(f"cannot write to standard output: {error.strerror or error}") from error
