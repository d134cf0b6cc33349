"""What every engine goes by when it reads a page of messages: how much a page holds, and what matches a search."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from tmpmaild.model import Page

TRUNCATED_BYTES = 1024
"""How much is read of a body that does not fit the answer."""


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
