"""Shared parts of commands: the ``--config`` option, error output, and the validation of other options."""

import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from ipaddress import ip_address
from math import ceil
from pathlib import Path
from typing import IO, Any, NoReturn, ParamSpec

import click

from tmpmaild.cli import console
from tmpmaild.cli.control import NotRunning, of_running_service
from tmpmaild.clients import LOCAL, client_name
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.config.validators import parse_endpoint
from tmpmaild.errors import CommandError, ConfigError, StartError
from tmpmaild.host import logs
from tmpmaild.host.process import drop_to_owner

EXIT_FAILED = 1
EXIT_NOT_RUNNING = 4
NO_OUTPUT = 4
EXIT_CONFIG = os.EX_CONFIG  # systemd does not restart the service after this exit code
_EXIT_CTRL_C = 128 + signal.SIGINT
_A_YEAR_SECONDS = 31_536_000
_ADDRESS = re.compile(r"[^\s@<>/,;:]+@[^\s@<>/,;:]+")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(s|m|h|d|)", re.ASCII)
_INSTANCE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, readable=False),  # load() reports unreadable files
    help="Configuration file. Default: $TMPMAILD_CONFIG, ./tmpmaild.toml or /etc/tmpmaild/config.toml, if any exists.",
)


P = ParamSpec("P")


class NoOutput(StartError):
    """Standard output cannot be written to, although a program is waiting for the output."""


def clear_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turn errors that an operator can fix into plain lines and an exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (StartError, CommandError) as error:
            fail(error, _exit_code(error))
        except KeyboardInterrupt:
            sys.exit(_EXIT_CTRL_C)

    return wrapped


def fail(error: StartError | CommandError, exit_code: int) -> NoReturn:
    """Print the lines of an error and exit."""
    text = "\n".join(f"tmpmaild: {line}" for line in str(error).splitlines())
    click.echo(logs.with_priority(text, "ERROR") if logs.is_journal(2) else text, err=True)
    sys.exit(exit_code)


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the configuration selected by ``--config`` to a command as ``config``; includes ``clear_errors``."""

    @clear_errors
    @wraps(command)
    def wrapped(config_path: Path | None, **kwargs: object) -> None:
        command(config=read(config_path), **kwargs)

    return config_option(wrapped)


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Like ``with_config``, for a command that needs only the running service.

    Errors in the configuration are listed; if a service responds despite them, the command continues.
    """

    @clear_errors
    @wraps(command)
    def wrapped(config_path: Path | None, **kwargs: object) -> None:
        try:
            config = read(config_path)
        except ConfigError as error:
            running = of_running_service(configfile.load_valid(config_path, os.environ))
            if running is None:
                raise
            for line in (*error.mistakes, "the service continues to run with its previous configuration"):
                console.print_to_stderr(line)
            config = running
        command(config=config, **kwargs)

    return config_option(wrapped)


def _exit_code(error: StartError | CommandError) -> int:
    match error:
        case ConfigError():
            return EXIT_CONFIG
        case NotRunning():
            return EXIT_NOT_RUNNING
        case NoOutput():
            return NO_OUTPUT
        case _:
            return EXIT_FAILED


def read(config_path: Path | None) -> Config:
    """Read the configuration, and report its path on standard error unless it was given on the command line.

    If standard error is not a terminal, only a file in the current directory, or an inaccessible directory, is
    reported.
    """
    if config_path is None:
        if obstacle := configfile.current_folder_obstacle():
            console.print_to_stderr(obstacle)
        source = configfile.find(None, os.environ)
        if source == configfile.IN_CURRENT_FOLDER or console.is_stderr_visible():
            console.print_to_stderr(f"configuration: {source or 'defaults'}")
    config = configfile.load(config_path, os.environ)
    expect_folder(config)
    return config


def expect_folder(config: Config) -> None:
    """Raise ``CommandError`` if the path of the database is relative and the current directory no longer exists.

    Otherwise, Python's path functions would fail later in various places.
    """
    path = Path(config.storage.path)
    if path.is_absolute() or (config.storage.url and config.control.listen):
        return
    try:
        Path.cwd()
    except OSError as error:
        raise CommandError(f"storage.path: {path} is in the current directory: {error.strerror or error}") from error


def load(config_path: Path | None) -> Config:
    """Read the configuration, which may be readable only by root, and then drop root's privileges."""
    config = read(config_path)
    drop_to_owner(Path(config.storage.path))
    return config


def say(line: str) -> None:
    """Write a line to standard output."""
    with console.output(EXIT_FAILED):
        click.echo(line)


def expect_address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Reject text that cannot be an address; the usual cause is a shell variable that is not set."""
    if value is not None and not (_ADDRESS.fullmatch(value) and value.isprintable()):
        raise click.BadParameter(f"expected an address such as name@domain, not {value!r}")
    return value


def expect_sender(context: click.Context, parameter: click.Parameter, value: str) -> str | None:
    """Reject text that cannot be an envelope sender; empty text is allowed."""
    return expect_address(context, parameter, value) if value else value


def expect_host_and_port(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Reject text that is not HOST:PORT."""
    try:
        if value is None or parse_endpoint(value).port:
            return value
    except ValueError as error:
        reason = str(error)
    else:
        reason = "no port"
    raise click.BadParameter(f"expected HOST:PORT, such as 127.0.0.1:1025, not {value!r} ({reason})")


def expect_client(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the client to which limits apply: an IPv4 address, or the /64 network of an IPv6 address."""
    if value is None or value == LOCAL:
        return value
    address, _, length = value.partition("/")
    with suppress(ValueError):
        if length in ("", "64" if ":" in address else "32"):
            return client_name(str(ip_address(address)))
    raise click.BadParameter(f"expected an IP address (for IPv6, the client is its /64 network), not {value!r}")


def expect_ip_and_port(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Reject text that is not IP:PORT."""
    with suppress(ValueError):
        if value is None or (parse_endpoint(value).port and ip_address(parse_endpoint(value).host)):
            return value
    raise click.BadParameter(f"expected IP:PORT, such as 9.9.9.9:53, not {value!r}")


def choose_instance(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Set the variables that commands use to find a daemon of tmpmaild@.service, unless they are already set."""
    if value is None:
        return None
    if not _INSTANCE.fullmatch(value):
        raise click.BadParameter(f"expected the N of tmpmaild@N.service, not {value!r}")
    os.environ.setdefault("TMPMAILD_CONTROL__LISTEN", f"unix:/run/tmpmaild-{value}/control.sock")
    password = Path(f"/run/credentials/tmpmaild@{value}.service/postgresql")
    if os.access(password, os.R_OK):
        os.environ.setdefault("TMPMAILD_STORAGE__PASSWORD_FILE", str(password))
    return value


def limit_seconds(seconds: float | None) -> int | None:
    """Round a time limit up to whole seconds for the service; return None for 0, which means no limit."""
    return ceil(seconds or 0) or None


class Input(click.File):
    """A parameter type for an input file: its path, or ``-`` for standard input."""

    def convert(
        self, value: str | os.PathLike[str] | IO[Any], parameter: click.Parameter | None, context: click.Context | None
    ) -> IO[Any]:
        """Return the open file."""
        try:
            return super().convert(value, parameter, context)
        except RuntimeError:  # click's error if standard input is closed
            self.fail("standard input is closed", parameter, context)


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.4
    """A duration of at most a year, in seconds or with a unit, such as ``1.5``, ``30s``, ``5m``, ``1h`` or ``1d``."""

    name = "duration"

    def convert(self, value: str | float, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the duration in seconds."""
        match = _DURATION.fullmatch(str(value))
        seconds = float(match[1]) * _SECONDS[match[2]] if match else -1
        if not 0 <= seconds <= _A_YEAR_SECONDS:
            self.fail(
                f"expected a time of at most a year, such as 30, 30s, 5m or 1h, not {value!r}", parameter, context
            )
        return seconds
