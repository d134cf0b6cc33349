"""What every engine goes by when it reads a page: of messages, where it ends; of inboxes, where it begins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tmpmaild.model import InboxPage, Page
from tmpmaild.storage.rows import InboxRow, ListedRow

PAGE_ROWS: Final = 200
"""How many inboxes a page is chosen from."""
_LAST: Final = (1 << 63) - 1  # when the operator's inbox expires


def up_to_the_end(found: Iterable[ListedRow], page: Page) -> tuple[list[ListedRow], bool]:
    """Take messages until the page has as many, or as much text, as it may have; tell whether there are more."""
    rows: list[ListedRow] = []
    characters = 0
    for row in found:
        characters += len(row.attachments) + len(row.subject) + len(row.sender) + len(row.sender_name)
        if len(rows) == page.limit or (rows and characters > page.other_characters):
            return rows, True
        rows.append(row)
    return rows, False


class Between(NamedTuple):
    """A part of the list: behind the first two, which are the place of an inbox, up to the third."""

    after_ms: int
    after_id: int
    up_to_ms: int


def live_between(now_ms: int, after: str) -> Between:
    """Return where the inboxes are that are alive at ``now_ms``, behind the place ``after`` if it is not empty."""
    return Between(*_place(after), _LAST - 1) if after else Between(now_ms, _LAST, _LAST - 1)


def expired_between(now_ms: int, after: str) -> Between:
    """Return where the inboxes are that have expired at ``now_ms``, behind the place ``after`` if it is not empty."""
    return Between(*_place(after), now_ms) if after else Between(-1, 0, now_ms)


def by_creator(rows: Iterable[InboxRow], creator_hash: bytes | None) -> list[InboxRow]:
    """Return the inboxes of a creator, or all with None."""
    return [row for row in rows if creator_hash in (None, row.creator)]


def page(read: Sequence[InboxRow], wanted: Iterable[InboxRow], addresses: Mapping[int, str]) -> InboxPage:
    """Return a page with those inboxes of what was read that are wanted."""
    is_last = len(read) < PAGE_ROWS
    place = None if is_last else f"{read[-1].expires_at_ms}.{read[-1].id}"
    return InboxPage(tuple([row.entry(addresses[row.id]) for row in wanted]), place)


def _place(after: str) -> tuple[int, int]:
    expires_at_ms, _, inbox_id = after.partition(".")
    return int(expires_at_ms), int(inbox_id)
