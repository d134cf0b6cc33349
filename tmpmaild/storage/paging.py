"""Paging: selects the rows and bodies for a page of messages, and the inboxes for a page of the inbox list."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tmpmaild.model import InboxPage, Message, Page
from tmpmaild.storage.base import Limits, Permit, bodies_to_read, permit_all
from tmpmaild.storage.keys import InboxKey, MessageKey
from tmpmaild.storage.rows import InboxRow, ListedRow

PAGE_ROWS: Final = 200
"""The number of inboxes that are read to fill a page of the inbox list."""
NEVER_MS: Final = (1 << 63) - 1
"""The expiry of the operator's inbox."""


def fit_page(found: Iterable[ListedRow], page: Page) -> tuple[list[ListedRow], bool]:
    """Return the first messages that fit the page's limits, and whether more messages follow."""
    rows: list[ListedRow] = []
    characters = 0
    for row in found:
        characters += len(row.attachments) + len(row.subject) + len(row.sender) + len(row.sender_name)
        if len(rows) == page.limit or (rows and characters > page.other_characters):
            return rows, True
        rows.append(row)
    return rows, False


def omitted_bodies(rows: Iterable[ListedRow], page: Page) -> dict[MessageKey, bool]:
    """Return the keys of messages whose bodies were not read with the page, each with a flag to read the whole body.

    Starting with the newest message, whole bodies are read as long as they fit on the page.
    """
    large = sorted([row for row in rows if row.body is None], key=lambda row: -row.key)
    room_bytes = page.bodies_bytes - sum([row.body_bytes for row in rows if row.body is not None]) if large else 0
    return {row.key: is_whole for row, is_whole in bodies_to_read(large, room_bytes)}


def with_bodies(
    rows: Iterable[ListedRow], bodies: Mapping[MessageKey, tuple[str, bool]], message_id: Callable[[MessageKey], str]
) -> tuple[Message, ...]:
    """Convert rows to messages.

    ``bodies`` maps keys to separately read bodies and truncation flags.

    Messages without a body are omitted, because they have been deleted in the meantime.
    """
    messages = []
    for row in rows:
        body, is_cut = (row.body, False) if row.body is not None else bodies.get(row.key, (None, False))
        if body is not None:
            messages.append(row.message(message_id(row.key), body, truncated=is_cut))
    return tuple(messages)


class InboxLookup(NamedTuple):
    """The inbox to read, and the current time; ``permit`` is called with the inbox before anything else is read."""

    address: str
    name_hash: bytes
    now_ms: int
    limits: Limits
    permit: Permit = permit_all


class Between(NamedTuple):
    """A range of the inbox list that starts after the inbox with this expiry and key and ends at ``up_to_ms``."""

    after_ms: int
    after_id: InboxKey
    up_to_ms: int


def listed_between(now_ms: int, after: str = "", *, expired: bool = False) -> Between:
    """Return the range of inboxes that are live (or have expired) at ``now_ms``; it starts after ``after`` if given."""
    expires_at_ms, _, inbox_id = (after or ("-1.0" if expired else f"{now_ms}.{NEVER_MS}")).partition(".")
    return Between(int(expires_at_ms), InboxKey(int(inbox_id)), now_ms if expired else NEVER_MS - 1)


def by_creator(rows: Iterable[InboxRow], creator_hash: bytes | None) -> list[InboxRow]:
    """Return the inboxes of a creator, or all inboxes if the creator is None."""
    return [row for row in rows if creator_hash in (None, row.creator)]


def inbox_page(read: Sequence[InboxRow], *, wanted: Iterable[InboxRow], addresses: Mapping[InboxKey, str]) -> InboxPage:
    """Return a page that contains the matching inboxes.

    ``read`` contains all rows that were read, and determines where the next page starts.
    """
    is_last = len(read) < PAGE_ROWS
    place = None if is_last else f"{read[-1].expires_at_ms}.{read[-1].id}"
    return InboxPage(tuple([row.entry(addresses[row.id]) for row in wanted]), place)
