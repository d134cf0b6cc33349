"""``tmpmaild webhooks``: the hosts that the webhooks of a running service lead to, and what may be done with one."""

import json
import os
from pathlib import Path
from typing import Any

import click

from tmpmaild.cli import console, control, parameters
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, say
from tmpmaild.cli.console import shown
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.times import rfc3339

_LONG_SECONDS = 3600.0
_HEADING = "WEBHOOKS  WAITING  FAILING  LAST CALL                 RESULT       HOST"


@click.command()
@click.option("--pause", metavar="HOST", help="Call it no longer; what is to be told waits.")
@click.option("--for", "seconds", type=parameters.Duration(), metavar="TIME", help="Pause so long, such as 1h.")
@click.option("--resume", metavar="HOST", help="Call it again.")
@click.option("--forget", metavar="HOST", help="Take all webhooks away that lead to it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")
@config_option
@clear_errors
def webhooks(
    pause: str | None,
    resume: str | None,
    forget: str | None,
    seconds: float | None,
    config_path: Path | None,
    *,
    as_json: bool,
) -> None:
    """List the hosts that webhooks lead to, or pause, resume or forget one.

    WAITING are webhooks with something to tell, FAILING those whose last call has failed. Neither URLs nor addresses
    are shown.
    """
    if [pause, resume, forget].count(None) < 2:  # noqa: PLR2004 - at most one is given
        raise click.UsageError("only one of --pause, --resume and --forget is expected")
    if seconds is not None and pause is None:
        raise click.UsageError("--for needs --pause")
    config = configfile.load(config_path, os.environ)
    if pause is not None:
        control.ask(config, "webhooks-pause", {"host": pause, "seconds": seconds and max(int(seconds), 1)})
        say("paused")
    elif resume is not None:
        (done,) = control.ask(config, "webhooks-resume", {"host": resume})
        if not done["count"]:
            raise CommandError("this host was not paused")
        say("resumed")
    elif forget is not None:
        (done,) = control.ask(config, "webhooks-forget", {"host": forget}, patience_seconds=_LONG_SECONDS)
        say(f"{done['count']} taken away")
    else:
        _list(config, as_json=as_json)


def _list(config: Config, *, as_json: bool) -> None:
    with console.output(EXIT_FAILED), control.asked(config, "webhooks") as answer:
        console.expect_output()
        if not as_json:
            console.say(_HEADING)
        for line in answer.lines():
            for entry in line["hosts"]:
                console.say(json.dumps(entry) if as_json else _as_text(entry))


def _as_text(entry: dict[str, Any]) -> str:
    called_at = rfc3339(entry["called_at_ms"]) if entry["called_at_ms"] is not None else "-"
    paused = "  paused" if entry["paused"] else ""
    return (
        f"{entry['webhooks']:8}  {entry['waiting']:7}  {entry['failing']:7}  {called_at:24}  "
        f"{entry['last_result'] or '-':11}  {shown(entry['host'])}{paused}"
    )
