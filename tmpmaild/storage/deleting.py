"""Message deletion: which messages a request selects, and how many messages one transaction deletes."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import accumulate, chain, repeat, takewhile
from typing import NamedTuple

from tmpmaild.storage.base import DELETED_AT_ONCE, DELETED_AT_ONCE_BYTES, DELETED_COPIES_AT_ONCE
from tmpmaild.storage.keys import MAX_KEY, InboxKey, MessageKey, key_not_above, message_keys


class Selection(NamedTuple):
    """The messages to delete from an inbox: messages with these keys or, if ``keys`` is None, all messages up to a key.

    If ``copies`` is true, their copies in other inboxes are also deleted.
    """

    up_to_key: MessageKey
    keys: Sequence[MessageKey] | None = None
    copies: bool = False

    @property
    def only_key(self) -> MessageKey | None:
        """The message's key if exactly one message is deleted, because single deletions may share a statement."""
        return self.keys[0] if self.keys is not None and len(self.keys) == 1 and not self.copies else None


def selection(
    inbox_key: InboxKey, message_ids: Collection[str] | None, *, up_to: str | None, copies: bool = False
) -> Selection:
    """Return the messages that ``Storage.delete_messages`` selects.

    ``inbox_key`` is the key of the inbox if each inbox has its own message keys, otherwise ``ALL_INBOXES``.
    """
    if message_ids is not None:
        return Selection(MAX_KEY, message_keys(message_ids, inbox_key), copies)
    return Selection(MAX_KEY if up_to is None else key_not_above(up_to, inbox_key), None, copies)


class Deleted(NamedTuple):
    """The number of messages that an operation has deleted, and whether more selected messages may remain.

    Copies are not counted.
    """

    messages: int
    more: bool


async def delete_all(delete_some: Callable[[], Awaitable[Deleted]]) -> int:
    """Repeat ``delete_some`` until no selected messages remain; return the total number of deleted messages."""
    count, more = 0, True
    while more:
        deleted, more = await delete_some()
        count += deleted
    return count


def deleted_at_once(stored_bytes: Iterable[int], copies: Iterable[int] = ()) -> int:
    """Return how many of these messages one transaction deletes (at least 1); the first messages are deleted first.

    ``copies`` contains the number of copies that are deleted with each message, by default 0.
    """
    return min(
        _fitting(stored_bytes, DELETED_AT_ONCE_BYTES),
        _fitting(chain(copies, repeat(0, DELETED_AT_ONCE)), DELETED_COPIES_AT_ONCE),
        DELETED_AT_ONCE,
    )


def _fitting(sizes: Iterable[int], most: int) -> int:
    """Return the length of the longest prefix of ``sizes`` whose sum does not exceed ``most`` (at least 1)."""
    return max(len(list(takewhile(lambda total: total <= most, accumulate(sizes)))), 1)
