"""What is remembered of inboxes: who takes mail, pages read recently, codes and links that were found; and their sizes.

No entry outlives its inbox: neither addresses nor mail stay in memory longer than on disk.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from tmpmaild.model import (
    Attachment,
    ExpiryMoved,
    Findings,
    Inbox,
    InboxChange,
    InboxDeleted,
    Listing,
    Message,
    MessageDeleted,
    Page,
    VerdictReached,
)


def is_loss(change: InboxChange) -> bool:
    """Return whether something that was read of the inbox before may not be shown any more."""
    return not (change.notice is None or isinstance(change.notice, VerdictReached))


class Loss:
    """A deletion or a moved expiry, and a link to the next one."""

    __slots__ = ("change", "next")

    def __init__(self, change: InboxChange | None) -> None:
        self.change = change
        self.next: Loss | None = None

    def deleted_messages(self) -> frozenset[str]:
        """Return the ids of the messages that have been deleted since, of all inboxes."""
        if self.next is None:
            return frozenset()
        notices = [change.notice for change in self._since()]
        return frozenset([notice.message_id for notice in notices if isinstance(notice, MessageDeleted)])

    def moved(self, inbox_id: str) -> bool:
        """Return whether an inbox has been deleted or its expiry moved since."""
        if self.next is None:
            return False
        changes = [change for change in self._since() if change.inbox_id == inbox_id]
        return not all(isinstance(change.notice, MessageDeleted) for change in changes)

    def _since(self) -> Iterator[InboxChange]:
        loss = self.next
        while loss is not None:
            if loss.change is not None:
                yield loss.change
            loss = loss.next


class Losses:
    """All losses, in the order of the commits; ``last`` is the latest."""

    def __init__(self) -> None:
        self.last = Loss(None)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Add the deletions and moved expiries of a commit; new mail is not a loss."""
        for change in changes:
            if is_loss(change):
                self.last.next = Loss(change)
                self.last = self.last.next


K = TypeVar("K")
V = TypeVar("V")
MayCache = Callable[[str], bool]
"""The method of the storage: where it says no, nothing must be remembered."""

_MAX_ADDRESSES: Final = 50_000
_MAX_PAGES: Final = 64
_MAX_PAGE_CHARACTERS: Final = 64 * 1024
_MAX_KNOWN: Final = 20_000
_MAX_KNOWN_CHARACTERS: Final = 16 * 1024 * 1024

# Names, punctuation, ids and numbers of each JSON object.
_MESSAGE_CHARACTERS = 350
_ATTACHMENT_CHARACTERS = 400
_CODE_CHARACTERS = 40
_LINK_CHARACTERS = 50


class _Entry(NamedTuple, Generic[V]):
    inbox_id: str
    expires_at_ms: int
    value: V
    characters: int


class _Cache(Generic[K, V]):
    """Values by key, each of an inbox; the least recently used are dropped first.

    ``generation`` is a number: what was read before a later one may have changed since, and is not to be stored.
    """

    def __init__(self, most: int, most_characters: int = 0) -> None:
        self.generation = 0
        self._most = most
        self._most_characters = most_characters
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._of_inbox: dict[str, list[K]] = {}
        self._characters = 0

    def __len__(self) -> int:
        return len(self._entries)

    def _found(self, key: K, now_ms: int = 0) -> V | None:
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= now_ms:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def _keep(self, key: K, inbox: Inbox, value: V, characters: int = 0) -> None:
        self._drop(key)
        self._entries[key] = _Entry(inbox.id, inbox.expires_at_ms, value, characters)
        self._of_inbox.setdefault(inbox.id, []).append(key)
        self._characters += characters
        while len(self._entries) > self._most or self._characters > self._most_characters:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._characters -= entry.characters
        siblings = self._of_inbox[entry.inbox_id]
        siblings.remove(key)
        if not siblings:
            del self._of_inbox[entry.inbox_id]

    def forget(self, inbox_id: str) -> None:
        """Drop what is remembered of an inbox."""
        for key in tuple(self._of_inbox.get(inbox_id, ())):
            self._drop(key)

    def forget_expired(self, now_ms: int) -> None:
        """Drop what is remembered of expired inboxes."""
        for key in [key for key, entry in self._entries.items() if entry.expires_at_ms <= now_ms]:
            self._drop(key)


class RecipientCache(_Cache[str, Inbox]):
    """For RCPT: addresses that recently were live and had room, so that the disk need not be read.

    The commit checks again, so a stale entry only makes the refusal come later; no mail is lost.
    """

    def __init__(self, may_cache: MayCache, max_addresses: int = _MAX_ADDRESSES) -> None:
        super().__init__(max_addresses)
        self._may_cache = may_cache

    def get(self, address: str, now_ms: int) -> Inbox | None:
        """Return the inbox if it is cached and has not expired."""
        return self._found(address, now_ms)

    def put(self, inbox: Inbox) -> None:
        """Store a live inbox; a full one is not stored, since it may get room again."""
        if not inbox.full and self._may_cache(inbox.id):
            self._keep(inbox.address, inbox, inbox)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the inboxes that a commit has filled, deleted, or moved the expiry of.

        Creators are not known here, so when a creator's share is full all entries are dropped.
        """
        for change in changes:
            if change.share_full:
                self.clear()
            elif change.full or (change.notice and isinstance(change.notice, InboxDeleted | ExpiryMoved)):
                self.forget(change.inbox_id)

    def clear(self) -> None:
        """Drop all inboxes."""
        self._entries.clear()
        self._of_inbox.clear()


class ListingCache(_Cache[tuple[str, Page], Listing]):
    """A few small pages: most clients poll an inbox again before new mail has arrived.

    An entry is dropped at the first commit to its inbox, before the sender gets its 250 reply. So a client that has
    seen that reply never gets an older page from here.
    """

    def __init__(self, may_cache: MayCache) -> None:
        super().__init__(_MAX_PAGES)
        self._may_cache = may_cache

    def get(self, address: str, page: Page, now_ms: int) -> Listing | None:
        """Return the page if it is cached and its inbox has not expired."""
        return self._found((address, page), now_ms)

    def put(self, address: str, page: Page, listing: Listing, generation: int) -> None:
        """Store a small page, unless anything was committed after ``generation``."""
        is_small = listing.characters <= _MAX_PAGE_CHARACTERS
        if generation == self.generation and is_small and self._may_cache(listing.inbox.id):
            self._keep((address, page), listing.inbox, listing)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the pages of inboxes that a commit has changed."""
        self.generation += 1
        for change in changes:
            self.forget(change.inbox_id)


class FindingsCache(_Cache[str, Findings]):
    """Findings by message id."""

    def __init__(self) -> None:
        super().__init__(_MAX_KNOWN, _MAX_KNOWN_CHARACTERS)

    def get(self, message_id: str) -> Findings | None:
        """Return the findings of a message, or None if they are not cached."""
        return self._found(message_id)

    def put(self, inbox: Inbox, message_id: str, findings: Findings, generation: int) -> None:
        """Store the findings of a message, unless anything was deleted after ``generation``."""
        if generation == self.generation:
            self._keep(message_id, inbox, findings, findings_characters(findings))

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop deleted messages, and all messages of an inbox that was deleted or whose expiry has moved."""
        for change in changes:
            if not is_loss(change):
                continue
            self.generation += 1
            if isinstance(change.notice, MessageDeleted):
                self._drop(change.notice.message_id)
            else:
                self.forget(change.inbox_id)


def page_characters(messages: Iterable[Message]) -> int:
    """Return the size of all messages of a page."""
    return sum([message_characters(message) for message in messages])


def message_characters(message: Message) -> int:
    """Return the size of a message with its attachments and findings."""
    senders = len(message.from_address) + len(message.from_name) + len(message.recipient)
    plain = _MESSAGE_CHARACTERS + len(message.body) + len(message.subject) + senders
    if not message.attachments and not message.findings.links and not message.findings.codes:
        return plain
    attachments = sum([_attachment_characters(one) for one in message.attachments])
    return plain + attachments + findings_characters(message.findings)


def findings_characters(findings: Findings) -> int:
    """Return the size of the codes and links of a message."""
    codes = sum([_CODE_CHARACTERS + len(code.value) for code in findings.codes])
    return codes + sum([_LINK_CHARACTERS + len(link.href) + len(link.text) for link in findings.links])


def _attachment_characters(attachment: Attachment) -> int:
    texts = len(attachment.filename) + len(attachment.content_type) + len(attachment.content_id or "")
    return _ATTACHMENT_CHARACTERS + texts
