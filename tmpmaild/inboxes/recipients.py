"""What RCPT may know without asking the disk: the addresses that were alive and had room a moment ago.

A hint for speed. The commit decides again, so a stale entry costs a sender a later refusal, never a mail.
"""

from collections import OrderedDict
from collections.abc import Sequence

from tmpmaild.model import ExpiryMoved, Inbox, InboxChange, InboxDeleted

_MAX_ADDRESSES = 50_000


class RecipientCache:
    """Live inboxes by address, least recently used out first."""

    def __init__(self, max_addresses: int = _MAX_ADDRESSES) -> None:
        self._max_addresses = max_addresses
        self._inboxes: OrderedDict[str, Inbox] = OrderedDict()
        self._addresses: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._inboxes)

    def get(self, address: str, now_ms: int) -> Inbox | None:
        """Return the inbox if it is known to be alive and to have room."""
        inbox = self._inboxes.get(address)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            return None
        self._inboxes.move_to_end(address)
        return inbox

    def put(self, inbox: Inbox) -> None:
        """Remember an inbox that lives; a full one is asked for anew each time, for it may get room."""
        if inbox.full:
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
        """Forget the inboxes that a commit has filled or moved the end of.

        Whose share is full is not known here, so then all of them.
        """
        if any(change.share_full for change in changes):
            self._inboxes.clear()
            self._addresses.clear()
        for change in changes:
            if change.full or isinstance(change.notice, InboxDeleted | ExpiryMoved):
                self.forget(change.inbox_id)

    def forget(self, inbox_id: str) -> None:
        """Forget one inbox, so that the next look asks the disk."""
        address = self._addresses.pop(inbox_id, None)
        if address is not None:
            del self._inboxes[address]

    def forget_expired(self, now_ms: int) -> None:
        """Drop what is over: no address outlives its hour in memory either."""
        for inbox in [inbox for inbox in self._inboxes.values() if inbox.expires_at_ms <= now_ms]:
            self.forget(inbox.id)
