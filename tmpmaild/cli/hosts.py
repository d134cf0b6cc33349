"""The command ``webhooks``: lists and controls the hosts that webhooks call."""

import json

import click
import msgspec
from msgspec import Struct

from tmpmaild.cli import configured, control
from tmpmaild.cli.configured import (
    say,
    with_service,
)
from tmpmaild.cli.console import shown
from tmpmaild.cli.control import Changed
from tmpmaild.cli.lists import Entry, show_list
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.model import rfc3339

_WEBHOOKS_HEADING = "WEBHOOKS  WAITING  FAILING  LAST CALL                 RESULT       HOST"


@click.command()
@click.option("--pause", metavar="HOST", help="Stop calling this host; pending events wait.")
@click.option(
    "--for",
    "seconds",
    type=configured.Duration(),
    metavar="TIME",
    help="How long to pause, such as 1h; 0, the default, means until --resume.",
)
@click.option("--resume", metavar="HOST", help="Resume calling this host.")
@click.option("--forget", metavar="HOST", help="Remove all webhooks that call this host.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs.")
@with_service
def webhooks(
    pause: str | None, resume: str | None, forget: str | None, seconds: float | None, config: Config, *, as_json: bool
) -> None:
    """List the hosts that webhooks call, or pause, resume or forget a host.

    WAITING is the number of webhooks with pending events, and FAILING is the number of webhooks whose last call failed.
    Neither URLs nor addresses are shown.
    """
    if [pause, resume, forget].count(None) < 2:  # noqa: PLR2004 - at most one option may be given
        raise click.UsageError("--pause, --resume and --forget are mutually exclusive")
    if seconds is not None and pause is None:
        raise click.UsageError("--for needs --pause")
    if pause is not None:
        control.call(config, "webhooks-pause", {"host": pause, "seconds": configured.limit_seconds(seconds)})
        say("paused")
    elif resume is not None:
        if not control.last(config, "webhooks-resume", {"host": resume}, Changed).count:
            raise CommandError("this host was not paused")
        say("resumed")
    elif forget is not None:
        say(f"{control.last(config, 'webhooks-forget', {'host': forget}, Changed).count} removed")
    elif as_json:
        show_list(config, "webhooks", "hosts", json.dumps)
    else:
        show_list(config, "webhooks", "hosts", host_as_text, _WEBHOOKS_HEADING)


class _Host(Struct, frozen=True):
    """A host in the service's list of webhook hosts; ``host`` is "" if a URL cannot be parsed."""

    host: str
    webhooks: int
    waiting: int
    failing: int
    called_at_ms: int | None
    last_result: str
    paused: bool


def host_as_text(entry: Entry) -> str:
    """Return the line for a host."""
    one = msgspec.convert(entry, _Host)
    called_at = "-" if one.called_at_ms is None else rfc3339(one.called_at_ms)
    return (
        f"{one.webhooks:8}  {one.waiting:7}  {one.failing:7}  {called_at:24}  "
        f"{one.last_result or '-':11}  {shown(one.host) or '(URL cannot be parsed)'}{'  paused' if one.paused else ''}"
    )
