"""A cache for RCPT: addresses that recently were live and had room, so that the disk need not be read.

The commit checks again, so a stale entry only makes the refusal come later; no mail is lost.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from tmpmaild.model import ExpiryMoved, Inbox, InboxChange, InboxDeleted

_MAX_ADDRESSES = 50_000


class RecipientCache:
    """Live inboxes by address; the least recently used are dropped first. ``is_fresh`` is that of the storage."""

    def __init__(self, is_fresh: Callable[[str], bool], max_addresses: int = _MAX_ADDRESSES) -> None:
        self._is_fresh = is_fresh
        self._max_addresses = max_addresses
        self._inboxes: OrderedDict[str, Inbox] = OrderedDict()
        self._addresses: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._inboxes)

    def get(self, address: str, now_ms: int) -> Inbox | None:
        """Return the inbox if it is cached and has not expired."""
        inbox = self._inboxes.get(address)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            return None
        self._inboxes.move_to_end(address)
        return inbox

    def put(self, inbox: Inbox) -> None:
        """Store a live inbox; a full one is not stored, since it may get room again."""
        if inbox.full or not self._is_fresh(inbox.id):
            return
        known = self._inboxes.get(inbox.address)
        if known is not None and known.id != inbox.id:  # the name has been given out again
            self.forget(known.id)
        self._inboxes[inbox.address] = inbox
        self._inboxes.move_to_end(inbox.address)
        self._addresses[inbox.id] = inbox.address
        if len(self._inboxes) > self._max_addresses:
            _, oldest = self._inboxes.popitem(last=False)
            del self._addresses[oldest.id]

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the inboxes that a commit has filled, deleted, or moved the expiry of.

        Creators are not known here, so when a creator's share is full all entries are dropped.
        """
        if any(change.share_full for change in changes):
            self.clear()
        for change in changes:
            if change.full or isinstance(change.notice, InboxDeleted | ExpiryMoved):
                self.forget(change.inbox_id)

    def clear(self) -> None:
        """Drop all inboxes."""
        self._inboxes.clear()
        self._addresses.clear()

    def forget(self, inbox_id: str) -> None:
        """Drop one inbox, so that it is read from disk next time."""
        address = self._addresses.pop(inbox_id, None)
        if address is not None:
            del self._inboxes[address]

    def forget_expired(self, now_ms: int) -> None:
        """Drop expired inboxes: addresses must not stay in memory longer than they live."""
        for inbox in [inbox for inbox in self._inboxes.values() if inbox.expires_at_ms <= now_ms]:
            self.forget(inbox.id)
