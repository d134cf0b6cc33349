"""Deletions and moved expiries while an answer is being made: the answer must not show what has been deleted by then.

Take ``Losses.last`` before reading, and look at the losses after it just before answering. They form a linked list, so
nothing has to be released: a loss stays in memory only while somebody holds an earlier one.
"""

from collections.abc import Iterator, Sequence

from tmpmaild.model import InboxChange, MessageDeleted, VerdictReached


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
