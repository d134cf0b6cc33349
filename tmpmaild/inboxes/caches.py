"""Caches for recipients, recent pages, and findings (codes and links), which commits invalidate.

No entry outlives its inbox, so neither addresses nor mail stay in memory longer than on disk.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from tmpmaild.model import (
    NO_FINDINGS,
    Attachment,
    Findings,
    Inbox,
    InboxChange,
    Listing,
    Message,
    MessageDeleted,
    Page,
    VerdictReached,
)

_MAX_ADDRESSES: Final = 50_000
_MAX_PAGES: Final = 64
_MAX_PAGE_CHARACTERS: Final = 64 * 1024
_MAX_KNOWN: Final = 20_000
_MAX_KNOWN_CHARACTERS: Final = 16 * 1024 * 1024

# The size of the names, punctuation, ids and numbers in each JSON object.
_MESSAGE_CHARACTERS = 350
_ATTACHMENT_CHARACTERS = 400
_CODE_CHARACTERS = 40
_LINK_CHARACTERS = 50

K = TypeVar("K")
V = TypeVar("V")


class Invalidation:
    """A deletion or an expiry change, with a link to the next invalidation.

    Data read earlier must no longer be shown.
    """

    __slots__ = ("change", "next")

    def __init__(self, change: InboxChange | None) -> None:
        self.change = change
        self.next: Invalidation | None = None

    def deleted_messages(self) -> frozenset[str]:
        """Return the ids of the messages that have been deleted in any inbox since this invalidation."""
        if self.next is None:
            return frozenset()
        notices = [change.notice for change in self._since()]
        return frozenset([notice.message_id for notice in notices if isinstance(notice, MessageDeleted)])

    def moved(self, inbox_id: str) -> bool:
        """Return whether an inbox has been deleted or its expiry changed since this invalidation."""
        if self.next is None:
            return False
        changes = [change for change in self._since() if change.inbox_id == inbox_id]
        return not all(isinstance(change.notice, MessageDeleted) for change in changes)

    def _since(self) -> Iterator[InboxChange]:
        later = self.next
        while later is not None:
            if later.change is not None:
                yield later.change
            later = later.next


class _Entry(NamedTuple, Generic[V]):
    inbox_id: str
    expires_at_ms: int
    value: V
    characters: int


class _Cache(Generic[K, V]):
    """A cache of values that each belong to an inbox; the least recently used values are dropped first.

    ``generation`` is incremented when data may have changed: values read in an earlier generation must not be stored.
    Nothing is cached if ``may_cache`` is false.
    """

    def __init__(self, most: int, most_characters: int = 0, *, may_cache: bool = True) -> None:
        self.generation = 0
        self._may_cache = may_cache
        self._most = most
        self._most_characters = most_characters
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self.of_inbox: dict[str, list[K]] = {}
        self._characters = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now_ms: int = 0) -> V | None:
        """Return the value for a key; None if there is no value or its inbox has expired."""
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= now_ms:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def _keep(self, key: K, inbox: Inbox, value: V, characters: int = 0) -> None:
        if not self._may_cache:
            return
        self.drop(key)
        self._entries[key] = _Entry(inbox.id, inbox.expires_at_ms, value, characters)
        self.of_inbox.setdefault(inbox.id, []).append(key)
        self._characters += characters
        while len(self._entries) > self._most or self._characters > self._most_characters:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Drop one value."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._characters -= entry.characters
        siblings = self.of_inbox[entry.inbox_id]
        siblings.remove(key)
        if not siblings:
            del self.of_inbox[entry.inbox_id]

    def forget(self, inbox_id: str) -> None:
        """Drop all values of an inbox."""
        for key in tuple(self.of_inbox.get(inbox_id, ())):
            self.drop(key)

    def forget_expired(self, now_ms: int) -> None:
        """Drop all values of expired inboxes."""
        for key in [key for key, entry in self._entries.items() if entry.expires_at_ms <= now_ms]:
            self.drop(key)

    def clear(self) -> None:
        """Drop all values."""
        self._entries.clear()
        self.of_inbox.clear()
        self._characters = 0


class RecipientCache(_Cache[str, Inbox]):
    """Inboxes by address that were recently live and not full, so that RCPT does not have to read from disk.

    The commit repeats the check, so a stale entry only delays the refusal; no message is lost.
    """

    def __init__(self, *, may_cache: bool, max_addresses: int = _MAX_ADDRESSES) -> None:
        super().__init__(max_addresses, may_cache=may_cache)

    def put(self, inbox: Inbox) -> None:
        """Store a live inbox unless it is full, because a full inbox may have room again later."""
        if not inbox.full:
            self._keep(inbox.address, inbox, inbox)


class ListingCache(_Cache[tuple[str, Page], Listing]):
    """A few small pages, by address and page, because most clients poll an inbox several times before new mail arrives.

    An entry is dropped on the first commit to its inbox, before the sender receives the 250 reply. Therefore, a client
    that has seen this reply never receives an older page from this cache.
    """

    def __init__(self, *, may_cache: bool) -> None:
        super().__init__(_MAX_PAGES, may_cache=may_cache)

    def put(self, address: str, page: Page, listing: Listing, generation: int) -> None:
        """Store a small page, unless anything was committed after ``generation``."""
        if generation == self.generation and listing.characters <= _MAX_PAGE_CHARACTERS:
            self._keep((address, page), listing.inbox, listing)


class FindingsCache(_Cache[str, Findings]):
    """Findings by message id."""

    def __init__(self) -> None:
        super().__init__(_MAX_KNOWN, _MAX_KNOWN_CHARACTERS)

    def put(self, inbox: Inbox, message_id: str, findings: Findings, generation: int) -> None:
        """Store a message's findings, unless anything was deleted after ``generation``."""
        if generation == self.generation:
            self._keep(message_id, inbox, findings, findings_characters(findings))


class Caches:
    """All caches, and ``last_invalidation``, which a reader saves before it reads."""

    def __init__(self, *, may_cache: bool) -> None:
        self.recipients = RecipientCache(may_cache=may_cache)
        self.listings = ListingCache(may_cache=may_cache)
        self.findings = FindingsCache()
        self.last_invalidation = Invalidation(None)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the entries that a commit has invalidated. New mail affects only the pages of its inbox."""
        listings = self.listings
        listings.generation += 1
        for change in changes:
            if change.inbox_id in listings.of_inbox:
                listings.forget(change.inbox_id)
            if change.full:
                self._drop_full(change)
            if change.notice is not None and not isinstance(change.notice, VerdictReached):
                self._invalidate(change)

    def _drop_full(self, change: InboxChange) -> None:
        """Drop a recipient whose inbox is full.

        If its creator's share is full, drop all recipients, because the cache does not know their creators.
        """
        if change.share_full:
            self.recipients.clear()
        else:
            self.recipients.forget(change.inbox_id)

    def _invalidate(self, change: InboxChange) -> None:
        self.last_invalidation.next = Invalidation(change)
        self.last_invalidation = self.last_invalidation.next
        self.findings.generation += 1
        if isinstance(change.notice, MessageDeleted):
            self.findings.drop(change.notice.message_id)
        else:
            self.findings.forget(change.inbox_id)
            self.recipients.forget(change.inbox_id)

    def forget_expired(self, now_ms: int) -> None:
        """Drop expired entries."""
        self.recipients.forget_expired(now_ms)
        self.listings.forget_expired(now_ms)
        self.findings.forget_expired(now_ms)


def page_characters(messages: Iterable[Message]) -> int:
    """Return the total size of a page's messages, including attachments and findings."""
    characters = 0
    for message in messages:  # avoids function calls for plain messages, because a page may contain hundreds of them
        senders = len(message.from_address) + len(message.from_name) + len(message.recipient)
        characters += _MESSAGE_CHARACTERS + len(message.body) + len(message.subject) + senders
        if message.attachments:
            characters += sum([_attachment_characters(one) for one in message.attachments])
        if message.findings is not NO_FINDINGS:
            characters += findings_characters(message.findings)
    return characters


def message_characters(message: Message) -> int:
    """Return the size of a message, including attachments and findings."""
    return page_characters((message,))


def findings_characters(findings: Findings) -> int:
    """Return the size of a message's codes and links."""
    codes = sum([_CODE_CHARACTERS + len(code.value) for code in findings.codes])
    return codes + sum([_LINK_CHARACTERS + len(link.href) + len(link.text) for link in findings.links])


def _attachment_characters(attachment: Attachment) -> int:
    texts = len(attachment.filename) + len(attachment.content_type) + len(attachment.content_id or "")
    return _ATTACHMENT_CHARACTERS + texts
