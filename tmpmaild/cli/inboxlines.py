"""The lines of ``tmpmaild inboxes``: each is written as it comes, so the columns have fixed widths."""

import json
from typing import Any

from tmpmaild.cli.terminal import shown
from tmpmaild.times import rfc3339

HEADING = "EXPIRES                   CREATED                   MESSAGES       OCTETS  PRIVATE  ADDRESS"


def as_text(entry: dict[str, Any]) -> str:
    """Return the line of an inbox; the address is the last column since it may have any length."""
    return (
        f"{rfc3339(entry['expires_at_ms'])}  {rfc3339(entry['created_at_ms'])}  {entry['message_count']:8}"
        f"  {entry['stored_bytes']:11}  {'yes' if entry['private'] else 'no':7}  {shown(entry['address'])}"
    )


def as_json(entry: dict[str, Any]) -> str:
    """Return the line of an inbox as an object, named as in the HTTP API."""
    return json.dumps(
        {
            "address": entry["address"],
            "created_at": rfc3339(entry["created_at_ms"]),
            "expires_at": rfc3339(entry["expires_at_ms"]),
            "private": entry["private"],
            "message_count": entry["message_count"],
            "stored_bytes": entry["stored_bytes"],
        }
    )
