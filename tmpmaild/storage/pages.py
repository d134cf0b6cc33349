"""What every engine goes by when it reads a page: of messages, how much and which; of inboxes, where it begins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from tmpmaild.model import InboxPage, Page
from tmpmaild.storage.rows import InboxRow

TRUNCATED_BYTES = 1024
"""How much is read of a body that does not fit the answer."""

PAGE_ROWS: Final = 200
"""How many inboxes a page is chosen from."""
_LAST: Final = (1 << 63) - 1  # when the operator's inbox expires


class Listed(Protocol):
    """What of a row counts for the size of a page."""

    @property
    def key(self) -> int:
        """The key of the message."""

    @property
    def body_bytes(self) -> int:
        """The length of its body."""

    @property
    def attachments(self) -> str:
        """JSON."""

    @property
    def subject(self) -> str:
        """The subject."""

    @property
    def sender(self) -> str:
        """The address of the sender."""

    @property
    def sender_name(self) -> str:
        """The name of the sender."""


Row = TypeVar("Row", bound=Listed)


def up_to_the_end(found: Iterable[Row], page: Page) -> tuple[list[Row], bool]:
    """Take messages until the page has as many, or as much text, as it may have; tell whether there are more."""
    rows: list[Row] = []
    characters = 0
    for row in found:
        characters += len(row.attachments) + len(row.subject) + len(row.sender) + len(row.sender_name)
        if len(rows) == page.limit or (rows and characters > page.other_characters):
            return rows, True
        rows.append(row)
    return rows, False


def small_bytes(page: Page) -> int:
    """Return up to which size bodies are read with the page; a larger one is read after it if it fits the answer."""
    return page.bodies_bytes // max(page.limit, 1)


def bodies_to_read(large: Iterable[Row], room_bytes: int) -> Iterator[tuple[Row, bool]]:
    """Yield the messages with large bodies, newest first, and whether the body is read whole.

    It is as long as it fits the rest of the answer, which has ``room_bytes``; else it is cut.
    """
    for row in sorted(large, key=lambda row: -row.key):
        is_whole = row.body_bytes <= max(room_bytes, TRUNCATED_BYTES)
        room_bytes -= row.body_bytes if is_whole else TRUNCATED_BYTES
        yield row, is_whole


def cut(body: str) -> tuple[str, bool]:
    """Return the first ``TRUNCATED_BYTES`` of a body, and whether there are more."""
    octets = body.encode()
    return octets[:TRUNCATED_BYTES].decode(errors="ignore"), len(octets) > TRUNCATED_BYTES


def is_search(page: Page) -> bool:
    """Return whether a page has a search condition."""
    return bool(page.sender or page.subject or page.text or page.has)


class Wanted:
    """The texts that a page is searched for; ``text`` is looked for in bodies too."""

    def __init__(self, page: Page) -> None:
        self._sender, self._subject = _folded(page.sender), _folded(page.subject)
        self.text = _folded(page.text)

    def matches(self, address: str, name: str, subject: str, body: str) -> bool:
        """Return whether a message with these texts belongs to the page."""
        address, name, subject, body = address.casefold(), name.casefold(), subject.casefold(), body.casefold()
        return (
            (self._sender in address or self._sender in name)
            and self._subject in subject
            and any(self.text in text for text in (address, name, subject, body))
        )


def _folded(wanted: str | None) -> str:
    return (wanted or "").casefold()


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
