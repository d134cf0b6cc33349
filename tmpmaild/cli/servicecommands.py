"""The operator's commands to a running service: each one asks it on its control socket and prints the answer."""

import json
import os
import sys
from pathlib import Path

import click
from msgspec.structs import asdict

from tmpmaild.cli import control, statuspage
from tmpmaild.cli.configured import clear_errors, config_option, say
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.host import privileges
from tmpmaild.storage.sqlite.operatormail import summary

_EXIT_NOT_READY = 3
_EXIT_NOT_RUNNING = 4


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@config_option
@clear_errors
def status(config_path: Path | None, *, as_json: bool) -> None:
    """Show how the service is: what it serves, holds and has done.

    If it does not run, what its database holds. Exit codes: 0 running and ready, 1 the service or the database cannot
    be asked, 3 running but not ready, 4 not running.
    """
    config = configfile.load(config_path, os.environ)
    try:
        (found,) = control.ask(config, "status")
    except control.NotRunning as error:
        _show_file(config, str(error), as_json=as_json)
        sys.exit(_EXIT_NOT_RUNNING)
    say(json.dumps(found) if as_json else statuspage.of_service(found))
    sys.exit(0 if found["ready"] else _EXIT_NOT_READY)


def _show_file(config: Config, reason: str, *, as_json: bool) -> None:
    path = Path(config.storage.path)
    privileges.drop_to_owner(path)
    stored = summary(path)
    say(json.dumps({"running": False} | asdict(stored)) if as_json else statuspage.of_file(path, stored, reason))


COMMANDS = (status,)
