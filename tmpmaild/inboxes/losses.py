"""What is deleted, or given another end, while an answer is being made: the answer must not show what is gone by then.

A reader takes ``Losses.last`` before it reads, and looks just before it answers what has come behind it. Nothing has to
be given back: losses stay in memory as long as somebody holds one from before them.
"""

from collections.abc import Iterator, Sequence

from tmpmaild.model import InboxChange, MessageDeleted


class Loss:
    """A change that took something away, and the next one behind it."""

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
        """Tell whether an inbox has been deleted or given another end since."""
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
    """All losses, in the order of the commits; ``last`` is the one that readers take."""

    def __init__(self) -> None:
        self.last = Loss(None)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Note what a commit has taken away; new mail takes nothing."""
        for change in changes:
            if change.notice is not None:
                self.last.next = Loss(change)
                self.last = self.last.next
