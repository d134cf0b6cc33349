"""Mail and events as JSON, one object a line, pure ASCII; the members are named as in the HTTP API."""

import json
from datetime import datetime
from typing import Any

import msgspec

from tmpmaild.client import Arrived, AsyncMail, Deleted, Event, Expired, Extended, Mail
from tmpmaild.times import rfc3339


def line(members: dict[str, Any]) -> str:
    """Return one object; control characters are escaped."""
    return json.dumps(members)


def event(happened: Event[AsyncMail]) -> dict[str, Any]:
    """Return an event. ``deleted`` without an ``id`` is the end of the address, as is ``expired``."""
    match happened:
        case Arrived(arrived):
            return {"event": "message", **mail(arrived)}
        case Deleted(None):
            return {"event": "deleted"}
        case Deleted(message_id):
            return {"event": "deleted", "id": message_id}
        case Extended(expires_at):
            return {"event": "extended", "expires_at": timestamp(expires_at)}
        case Expired():
            return {"event": "expired"}


def mail(one: AsyncMail | Mail) -> dict[str, Any]:
    """Return what lists of the API show of a mail, and the best ``code`` and ``link``."""
    shown = msgspec.to_builtins(one._message)  # noqa: SLF001 - its members are named as in the API
    found = {"body": one.text, "truncated": one.truncated, "received_at": timestamp(one.received_at)}
    return {**shown, **found, "code": one.code, "link": one.link}


def timestamp(moment: datetime) -> str:
    """Return a time as the API writes it (RFC 3339, UTC, milliseconds)."""
    return rfc3339(round(moment.timestamp() * 1000))
