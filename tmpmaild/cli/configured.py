"""What the operator's commands share: the option ``--config``, reading it, and errors as plain lines."""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tmpmaild.cli import console
from tmpmaild.cli.control import NotRunning
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError, ConfigError, StartError
from tmpmaild.host import logs, privileges

EXIT_FAILED = 1
EXIT_NOT_RUNNING = 4
_EXIT_CONFIG = os.EX_CONFIG  # systemd does not try again after it
_EXIT_CTRL_C = 128 + signal.SIGINT

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, readable=False),  # load() says what is wrong with it
    help="Configuration file. Without it: $TMPMAILD_CONFIG, ./tmpmaild.toml, /etc/tmpmaild/config.toml, the defaults.",
)


def clear_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors that an operator can fix into plain lines and an exit code."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (StartError, CommandError) as error:
            text = "\n".join(f"tmpmaild: {line}" for line in str(error).splitlines())
            click.echo(logs.with_priority(text, "ERROR") if logs.is_journal(2) else text, err=True)
            sys.exit(_exit_code(error))
        except KeyboardInterrupt:
            sys.exit(_EXIT_CTRL_C)

    return wrapped


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the configuration that ``--config`` names, as the argument ``config``; with ``clear_errors``."""

    @clear_errors
    @wraps(command)
    def wrapped(config_path: Path | None, **kwargs: Any) -> None:
        command(config=configfile.load(config_path, os.environ), **kwargs)

    return config_option(wrapped)


def _exit_code(error: StartError | CommandError) -> int:
    match error:
        case ConfigError():
            return _EXIT_CONFIG
        case NotRunning():
            return EXIT_NOT_RUNNING
        case _:
            return EXIT_FAILED


def load(config_path: Path | None) -> Config:
    """Read the configuration, which only root may be able to read; then drop root's privileges."""
    config = configfile.load(config_path, os.environ)
    privileges.drop_to_owner(Path(config.storage.path))
    return config


def say(line: str) -> None:
    """Write a line to standard output."""
    with console.output(EXIT_FAILED):
        click.echo(line)
