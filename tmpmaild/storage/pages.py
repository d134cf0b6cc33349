"""What every engine goes by when it reads a page: of messages, how much and which; of inboxes, where it begins."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tmpmaild.model import InboxPage, Listing, Page
from tmpmaild.storage import ids
from tmpmaild.storage.rows import InboxRow, ListedRow

TRUNCATED_BYTES = 1024
"""How much is read of a body that does not fit the answer."""

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


def small_bytes(page: Page) -> int:
    """Return up to which size bodies are read with the page; a larger one is read after it if it fits the answer."""
    return page.bodies_bytes // max(page.limit, 1)


def bodies_to_read(large: Iterable[ListedRow], room_bytes: int) -> Iterator[tuple[ListedRow, bool]]:
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


class Search:
    """One search of an inbox in steps: its position, and the keys that it has found so far.

    Mail may arrive and be deleted between steps. Mail that arrives after the first is left to the next search, and
    deleted mail is dropped. So the inbox and the page are as of the last step, without mail that arrived after the
    first. ``text`` is looked for in bodies too.
    """

    def __init__(self, page: Page) -> None:
        self.ended = False
        self.text = _folded(page.text)
        self._sender, self._subject = _folded(page.sender), _folded(page.subject)
        self._page = page
        self._newest_key: int | None = None
        self._after, self._before = -1, ids.MAX_KEY
        self._keys: list[int] = []

    def go_on(self, connection: Any) -> Any:
        """Look at some more messages; return the page when the search has ended, else None, also without an inbox."""
        raise NotImplementedError

    def _begin(self, newest_key: int, bounds: tuple[int, int]) -> int:
        """Note, in the first step, the newest key and the bounds of the page; return the former as of that step."""
        if self._newest_key is None:
            self._newest_key, (self._after, before) = newest_key, bounds
            self._before = min(before, newest_key + 1)
        return self._newest_key

    def _take(self, key: int, *texts: str, attached: bool) -> None:
        """Look at the next message, by the address and the name of its sender, its subject and its body."""
        if self._page.ascending:
            self._after = key
        else:
            self._before = key
        if attached and self._matches(*texts):
            self._keys.append(key)

    @property
    def _has_enough(self) -> bool:
        """Whether more was found than the page holds."""
        return len(self._keys) > self._page.limit

    def _drop_deleted(self, left: Collection[int]) -> None:
        self._keys = [key for key in self._keys if key in left]

    def _matches(self, address: str, name: str, subject: str, body: str) -> bool:
        address, name, subject, body = address.casefold(), name.casefold(), subject.casefold(), body.casefold()
        return (
            (self._sender in address or self._sender in name)
            and self._subject in subject
            and any(self.text in text for text in (address, name, subject, body))
        )


async def searched(search: Search, run: Callable[[Any], Awaitable[Listing | None]]) -> Listing | None:
    """Go on with a search by ``run`` until it has ended; return its page, None if it has found no inbox."""
    listing = None
    while not search.ended:
        listing = await run(search.go_on)
    return listing


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
