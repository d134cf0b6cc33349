"""Pages: the inbox that is read, the rows and bodies of a page of its messages, the inboxes of a page of the list."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tmpmaild.model import InboxPage, Message, Page
from tmpmaild.storage.base import Limits, Permit, anybody, bodies_to_read
from tmpmaild.storage.keys import InboxKey, MessageKey
from tmpmaild.storage.rows import InboxRow, ListedRow

PAGE_ROWS: Final = 200
"""How many inboxes a page is chosen from."""
NEVER_MS: Final = (1 << 63) - 1
"""When the operator's inbox expires."""


def fit_page(found: Iterable[ListedRow], page: Page) -> tuple[list[ListedRow], bool]:
    """Take messages until the page has as many, or as much text, as it may have; tell whether there are more."""
    rows: list[ListedRow] = []
    characters = 0
    for row in found:
        characters += len(row.attachments) + len(row.subject) + len(row.sender) + len(row.sender_name)
        if len(rows) == page.limit or (rows and characters > page.other_characters):
            return rows, True
        rows.append(row)
    return rows, False


def bodies_left_out(rows: Iterable[ListedRow], page: Page) -> dict[MessageKey, bool]:
    """Return the keys of the messages whose bodies were not read with the page, and whether each is to be read whole.

    Newest first they are, as long as they fit the page.
    """
    large = sorted([row for row in rows if row.body is None], key=lambda row: -row.key)
    room_bytes = page.bodies_bytes - sum([row.body_bytes for row in rows if row.body is not None]) if large else 0
    return {row.key: is_whole for row, is_whole in bodies_to_read(large, room_bytes)}


def with_bodies(
    rows: Iterable[ListedRow], bodies: Mapping[MessageKey, tuple[str, bool]], message_id: Callable[[MessageKey], str]
) -> tuple[Message, ...]:
    """Make messages of rows. ``bodies`` are those that were read apart, by keys, and whether each was cut.

    A message whose body was not read at all has been deleted meanwhile and is left out.
    """
    messages = []
    for row in rows:
        body, is_cut = (row.body, False) if row.body is not None else bodies.get(row.key, (None, False))
        if body is not None:
            messages.append(row.message(message_id(row.key), body, truncated=is_cut))
    return tuple(messages)


class InboxLookup(NamedTuple):
    """Which inbox is read, as of which time; ``permit`` is called with it before anything else is read."""

    address: str
    name_hash: bytes
    now_ms: int
    limits: Limits
    permit: Permit = anybody


class Between(NamedTuple):
    """A part of the list: behind the first two, which are the place of an inbox, up to the third."""

    after_ms: int
    after_id: InboxKey
    up_to_ms: int


def listed_between(now_ms: int, after: str = "", *, expired: bool = False) -> Between:
    """Return where the inboxes are that are alive or have expired at ``now_ms``, behind the place ``after`` if any."""
    expires_at_ms, _, inbox_id = (after or ("-1.0" if expired else f"{now_ms}.{NEVER_MS}")).partition(".")
    return Between(int(expires_at_ms), InboxKey(int(inbox_id)), now_ms if expired else NEVER_MS - 1)


def by_creator(rows: Iterable[InboxRow], creator_hash: bytes | None) -> list[InboxRow]:
    """Return the inboxes of a creator, or all with None."""
    return [row for row in rows if creator_hash in (None, row.creator)]


def inbox_page(read: Sequence[InboxRow], *, wanted: Iterable[InboxRow], addresses: Mapping[InboxKey, str]) -> InboxPage:
    """Return a page with those inboxes of what was read that are wanted."""
    is_last = len(read) < PAGE_ROWS
    place = None if is_last else f"{read[-1].expires_at_ms}.{read[-1].id}"
    return InboxPage(tuple([row.entry(addresses[row.id]) for row in wanted]), place)
