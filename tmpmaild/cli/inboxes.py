"""The commands ``inboxes``, ``purge`` and ``audit``."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from tmpmaild.cli import configured, control
from tmpmaild.cli.configured import (
    clear_errors,
    config_option,
    load,
    say,
    with_service,
)
from tmpmaild.cli.console import shown
from tmpmaild.cli.deleting import Result, confirm, say_deleted
from tmpmaild.cli.lists import Entry, show_list
from tmpmaild.config.settings import Config
from tmpmaild.mail import addresses
from tmpmaild.model import counted, rfc3339
from tmpmaild.storage import engines

_INBOXES_HEADING = "EXPIRES                   CREATED                   MESSAGES        BYTES  PRIVATE  ADDRESS"
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}


@click.command()
@click.option(
    "--client", metavar="IP", callback=configured.expect_client, help="Only inboxes that this client created."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs.")
@with_service
def inboxes(client: str | None, config: Config, *, as_json: bool) -> None:
    """List all inboxes in order of expiry.

    A client is an IPv4 address, or the /64 of an IPv6 address. Inboxes that clients in limits.exempt created are not
    associated with a client. Anyone who knows the address of an inbox that is not private can read it: keep this list
    secret.
    """
    line_of, heading = (_inbox_as_json, "") if as_json else (_inbox_as_text, _INBOXES_HEADING)
    show_list(config, "inboxes", "inboxes", line_of, heading, client=client)


class _Inbox(Struct, frozen=True):
    """An inbox in the service's list."""

    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    message_count: int
    stored_bytes: int


def _inbox_as_text(entry: Entry) -> str:
    """Return the line for an inbox; the address is the last column because it may have any length."""
    inbox = msgspec.convert(entry, _Inbox)
    return (
        f"{rfc3339(inbox.expires_at_ms)}  {rfc3339(inbox.created_at_ms)}  {inbox.message_count:8}"
        f"  {inbox.stored_bytes:11}  {'yes' if inbox.private else 'no':7}  {shown(inbox.address)}"
    )


def _inbox_as_json(entry: Entry) -> str:
    """Return an inbox as a JSON object with the HTTP API's field names."""
    inbox = msgspec.convert(entry, _Inbox)
    return json.dumps(
        {
            "address": inbox.address,
            "created_at": rfc3339(inbox.created_at_ms),
            "expires_at": rfc3339(inbox.expires_at_ms),
            "private": inbox.private,
            "message_count": inbox.message_count,
            "stored_bytes": inbox.stored_bytes,
        }
    )


class _Purged(Result, frozen=True, kw_only=True):
    ended: int


@click.command()
@click.argument("address", required=False, callback=configured.expect_address)
@click.option("--client", metavar="IP", callback=configured.expect_client, help="The inboxes that this client created.")
@click.option("--expired", is_flag=True, help="Expired inboxes that have not been erased yet.")
@click.option("--all", "is_all", is_flag=True, help="All inboxes.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_service
def purge(address: str | None, client: str | None, config: Config, *, expired: bool, is_all: bool, yes: bool) -> None:
    """Purge the inbox ADDRESS, or several inboxes, and erase their messages from the disk.

    The address of a purged inbox cannot be created again for a day. Mail to postmaster and abuse is kept.
    """
    if [address is not None, client is not None, expired, is_all].count(True) != 1:
        raise click.UsageError("specify exactly one of ADDRESS, --client, --expired and --all")
    if is_all and not yes:
        confirm("Purge all inboxes, and erase their mail?")
    wanted = {"address": address, "client": client, "expired": expired, "all": is_all}
    purged = control.last(config, "purge", wanted, _Purged)
    say_deleted(config, purged, counted(purged.ended, "inbox", "inboxes") + " purged", is_one=purged.ended == 1)


def expect_day(_context: click.Context, _parameter: click.Parameter, value: str) -> date:
    """Return a day in UTC: a date, ``today`` or ``yesterday``."""
    if value in _DAYS_AGO:
        return datetime.now(UTC).date() - timedelta(days=_DAYS_AGO[value])
    try:
        return datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as error:
        expected = "expected a day such as 2026-11-28, or today or yesterday (in UTC)"
        raise click.BadParameter(f"{expected}, not {value!r}") from error


@click.command()
@click.argument("address", callback=configured.expect_address)
@click.option(
    "--day",
    callback=expect_day,
    default="today",
    metavar="YYYY-MM-DD",
    help="The day of the log lines (in UTC): a date, today (the default) or yesterday.",
)
@config_option
@clear_errors
def audit(address: str, day: date, config_path: Path | None) -> None:
    """Print the hash of ADDRESS that appears in the audit log (log.audit).

    The service need not be running, and the address may have expired or may never have existed.
    """
    canonical = addresses.canonical(address)
    if canonical is None:
        raise click.BadParameter(f"expected an address such as name@domain, not {address!r}", param_hint="ADDRESS")
    config = load(config_path)
    say(engines.audit_hash(engines.settings_of(config), canonical, day=day.isoformat()))
