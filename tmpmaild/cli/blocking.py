"""The commands ``block``, ``unblock`` and ``blocks``."""

import json
from collections.abc import Callable, Mapping

import click
import msgspec
from msgspec import Struct

from tmpmaild.cli import configured, control
from tmpmaild.cli.configured import (
    say,
    with_service,
)
from tmpmaild.cli.control import Changed
from tmpmaild.cli.lists import Entry, show_list
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.model import rfc3339


def _named(sender: str, name: str, client: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options for specifying blocks, with these help texts."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = (("sender", "SENDER", sender), ("name", "NAME", name), ("client", "NET", client))
        for option, metavar, text in options:
            command = click.option(f"--{option}", f"{option}s", metavar=metavar, multiple=True, help=text)(command)
        return command

    return decorate


def _expect_a_name(wanted: Mapping[str, object]) -> None:
    if not any(wanted[kind] for kind in ("senders", "names", "clients")):
        raise click.UsageError("specify --sender, --name or --client")


@click.command()
@_named(
    "An envelope sender, or a domain, which covers all senders at the domain and its subdomains.",
    "A local part; addresses with this local part cannot be created.",
    "An IP address or a network, such as 192.0.2.0/24.",
)
@click.option(
    "--for",
    "seconds",
    type=configured.Duration(),
    metavar="TIME",
    help="How long to block, such as 1d; 0, the default, means permanently.",
)
@click.option(
    "--force", is_flag=True, help="Also block this machine, trusted proxies, and clients that are exempt from limits."
)
@with_service
def block(config: Config, *, seconds: float | None, **wanted: tuple[str, ...]) -> None:
    """Block clients, names or senders. Each option may be given more than once.

    Blocked clients can neither connect to SMTP nor create addresses; addresses that they have already created are kept
    (see purge).
    """
    _expect_a_name(wanted)
    changed = control.last(config, "block", {**wanted, "seconds": configured.limit_seconds(seconds)}, Changed)
    say(f"{changed.count} blocked")


@click.command()
@_named(
    "A blocked sender or domain: its mail is accepted again.",
    "A blocked local part; addresses with this local part can be created again.",
    "A blocked client or network, as listed by tmpmaild blocks; it may connect again.",
)
@with_service
def unblock(config: Config, **wanted: tuple[str, ...]) -> None:
    """Remove blocks, specified in the form that tmpmaild blocks prints. Each option may be given more than once."""
    _expect_a_name(wanted)
    changed = control.last(config, "unblock", wanted, Changed)
    if not changed.count:
        raise CommandError("none of these blocks exists")
    say(f"{changed.count} unblocked")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs.")
@with_service
def blocks(config: Config, *, as_json: bool) -> None:
    """List all blocks and when they expire."""
    show_list(config, "blocks", "blocks", json.dumps if as_json else _block_as_text)


class _Block(Struct, frozen=True):
    """A block in the service's list."""

    kind: str
    value: str
    expires_at_ms: int | None


def _block_as_text(entry: Entry) -> str:
    one = msgspec.convert(entry, _Block)
    until = "" if one.expires_at_ms is None else f"  until {rfc3339(one.expires_at_ms)}"
    return f"{one.kind:<6}  {one.value}{until}"
