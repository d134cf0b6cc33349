"""Deletion of messages: the messages that a request selects, and the number that one transaction deletes."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from tmpmaild.storage.base import DELETED_AT_ONCE, DELETED_AT_ONCE_BYTES
from tmpmaild.storage.keys import MAX_KEY, InboxKey, MessageKey, key_not_above, message_keys


class Selection(NamedTuple):
    """The messages to delete from an inbox: those with the given keys or, if ``keys`` is None, all up to one key."""

    up_to_key: MessageKey
    keys: Sequence[MessageKey] | None = None

    @property
    def only_key(self) -> MessageKey | None:
        """The key if exactly one key is given: such a deletion may share a statement with other deletions."""
        return self.keys[0] if self.keys is not None and len(self.keys) == 1 else None


def selection(inbox_key: InboxKey, message_ids: Collection[str] | None, *, up_to: str | None) -> Selection:
    """Return the messages that ``Storage.delete_messages`` selects.

    ``inbox_key`` is the key of the inbox if each inbox has its own message keys, else ``ALL_INBOXES``.
    """
    if message_ids is not None:
        return Selection(MAX_KEY, message_keys(message_ids, inbox_key))
    return Selection(MAX_KEY if up_to is None else key_not_above(up_to, inbox_key))


class Deleted(NamedTuple):
    """The number of messages that an operation has deleted, and whether more selected messages may be left."""

    messages: int
    more: bool


async def delete_all(delete_some: Callable[[], Awaitable[Deleted]]) -> int:
    """Repeat ``delete_some`` until nothing is left; return the total number of deleted messages."""
    count, more = 0, True
    while more:
        deleted, more = await delete_some()
        count += deleted
    return count


def deleted_at_once(stored_bytes: Iterable[int]) -> int:
    """Return the number of these messages, counted from the first, that one transaction deletes: at least 1."""
    fitting = takewhile(lambda octets: octets <= DELETED_AT_ONCE_BYTES, accumulate(stored_bytes))
    return min(max(len(list(fitting)), 1), DELETED_AT_ONCE)
