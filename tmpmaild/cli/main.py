"""The command ``tmpmaild``: what it lists under which heading, and ``serve``, which starts the service."""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import anyio
import click
from click.core import ParameterSource

from tmpmaild import __version__
from tmpmaild.cli import configured, console, operator, user
from tmpmaild.cli.configured import EXIT_CONFIG, NoOutput, clear_errors, config_option, fail
from tmpmaild.cli.doctor import doctor
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import DEFAULT_PATH, Config
from tmpmaild.docstrings import docstring
from tmpmaild.errors import CommandError, DatabaseRefused
from tmpmaild.host.logs import is_journal, logging_to_stderr
from tmpmaild.host.process import drop_to_owner
from tmpmaild.host.sockets import reachable
from tmpmaild.storage.sqlite.database import temporary

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


class _Sections(click.Group):
    """A group whose help lists its commands below the headings of ``SECTIONS``."""

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the headings, and below each a line for each of its commands."""
        columns = formatter.width - 6 - max(map(len, self.commands))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(one.name or "", one.get_short_help_str(columns)) for one in commands])


@click.group(cls=_Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--instance",
    metavar="N",
    expose_value=True,
    callback=configured.choose_instance,
    help="Of several daemons, that of tmpmaild@N.service: tmpmaild --instance 2 status.",
)
@click.version_option(__version__, "-V", "--version", message="tmpmaild %(version)s")
def main(instance: str | None) -> None:
    """Disposable e-mail addresses: created over HTTP, filled over SMTP, gone after an hour."""


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
    "--temporary",
    "is_temporary",
    is_flag=True,
    help="Delete the database at the end, and its folder if that is empty then. Refused if it is there already.",
)
@config_option
@clear_errors
def serve(config_path: Path | None, *, is_for_tests: bool, stop_with_stdin: bool, is_temporary: bool) -> None:
    """Run the service until SIGTERM or ctrl-C.

    With no configuration at all: HTTP on 127.0.0.1:8025, SMTP on 127.0.0.1:1025, the domain mail.example.com, and
    tmpmaild.db in the current folder.
    """
    with ExitStack() as until_end:
        if is_for_tests or is_temporary:
            _clean_up_early(until_end)
        read: ReadConfig = partial(configfile.load, config_path, os.environ)
        if is_for_tests:
            read = until_end.enter_context(_for_tests(config_path))
        config = read()
        configured.expect_folder(config)
        drop_to_owner(Path(config.storage.path))
        from tmpmaild import daemon  # noqa: PLC0415 - takes longer to load than all other commands to run

        if sys.stderr is not None:  # the stacks of a crash, and of a loop that systemd's watchdog finds stuck (SIGABRT)
            faulthandler.enable()
        is_by_option = click.get_current_context().get_parameter_source("is_for_tests") is ParameterSource.COMMANDLINE
        if stop_with_stdin or is_by_option:  # in a container standard input may be at its end from the beginning
            threading.Thread(target=_stop_with_stdin, daemon=True).start()
        until_end.enter_context(logging_to_stderr(config.log.level, config.log.format))
        if is_temporary or (is_for_tests and not config.storage.url):
            until_end.enter_context(_temporary(config))
        for line in configfile.variables_without_effect(os.environ):
            log.warning("%s", line)
        announce = _announce_as_json if is_for_tests else _announcer(config)
        try:
            anyio.run(daemon.run, config, announce, read, backend_options={"use_uvloop": _has_uvloop()})
        except DatabaseRefused as error:
            fail(error, EXIT_CONFIG)


def _clean_up_early(until_end: ExitStack) -> None:
    """Let a signal that comes before the daemon waits for signals delete what was made for it, then end the process."""

    def end(*_: object) -> None:
        until_end.close()
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


@contextmanager
def _for_tests(config_path: Path | None) -> Iterator["ReadConfig"]:
    """Yield what reads the configuration over ``FOR_TESTS``: of the machine's own places none is looked at.

    If nothing names a database, it is in a folder that is deleted afterwards. Raises ``ConfigError``.
    """
    path = config_path or Path(os.environ.get(f"{configfile.PREFIX}CONFIG") or os.devnull)
    read = partial(configfile.load, path, os.environ)
    storage = read(FOR_TESTS).storage
    if storage.url or storage.path != DEFAULT_PATH:
        yield partial(read, FOR_TESTS)
        return
    with TemporaryDirectory(prefix="tmpmaild-") as folder:
        yield partial(read, {**FOR_TESTS, "storage.path": str(Path(folder, DEFAULT_PATH))})


def _temporary(config: Config) -> AbstractContextManager[None]:
    """Return the context of a database that is made for this run. Raises ``CommandError``."""
    if config.storage.url:
        raise CommandError("--temporary is for a database in a file, and storage.url is set")
    return temporary(Path(config.storage.path))


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - not on every platform
    except ImportError:
        return False
    return True


def _stop_with_stdin() -> None:
    """Wait for the end of standard input, which the system closes however the program at its other end was ended."""
    try:
        while os.read(0, 1024):
            pass
    except OSError:
        pass  # there is none
    os.kill(os.getpid(), signal.SIGTERM)


def _announcer(config: Config) -> "Announce":
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        if config.log.format == "json" or is_journal(1):
            return  # the log says it
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
        except OSError as error:  # the log says it too
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


SECTIONS: Final[dict[str, tuple[click.Command, ...]]] = {
    "Mail for people and tests": user.COMMANDS,
    "Running the service": (serve, doctor, *operator.COMMANDS),
}
for _command in chain.from_iterable(SECTIONS.values()):
    main.add_command(_command)
for _command in (main, *main.commands.values()):
    if _command.help is None and _command.callback is not None:
        _command.help = docstring(_command.callback)
