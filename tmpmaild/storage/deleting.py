"""Deleting messages: which ones a request selects, and how many of them one transaction deletes."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from tmpmaild.storage.base import DELETED_AT_ONCE, DELETED_AT_ONCE_BYTES
from tmpmaild.storage.keys import MAX_KEY, InboxKey, MessageKey, key_not_above, message_keys


class Selection(NamedTuple):
    """The messages of an inbox that are to be deleted: those with these keys, else all up to one key."""

    up_to_key: MessageKey
    keys: Sequence[MessageKey] | None = None

    @property
    def only_key(self) -> MessageKey | None:
        """The key if a single message is selected by it: such a deletion may share a statement with others."""
        return self.keys[0] if self.keys is not None and len(self.keys) == 1 else None


def selection(inbox_key: InboxKey, message_ids: Collection[str] | None, *, up_to: str | None) -> Selection:
    """Return what ``Storage.delete_messages`` selects; ``inbox_key`` is that of the inbox if it has its own keys."""
    if message_ids is not None:
        return Selection(MAX_KEY, message_keys(message_ids, inbox_key))
    return Selection(MAX_KEY if up_to is None else key_not_above(up_to, inbox_key))


class Deleted(NamedTuple):
    """How many messages an operation has deleted, and whether more of the selected ones may be left."""

    messages: int
    more: bool


async def delete_all(delete_some: Callable[[], Awaitable[Deleted]]) -> int:
    """Repeat ``delete_some`` until nothing is left; return the number of messages that were deleted."""
    count, more = 0, True
    while more:
        deleted, more = await delete_some()
        count += deleted
    return count


def deleted_at_once(stored_bytes: Iterable[int]) -> int:
    """Return how many of these messages, in this order, one transaction deletes: at least one."""
    fitting = takewhile(lambda octets: octets <= DELETED_AT_ONCE_BYTES, accumulate(stored_bytes))
    return min(max(len(list(fitting)), 1), DELETED_AT_ONCE)
