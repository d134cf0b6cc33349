"""The operator's inbox, read from another process than the one that uses the storage, and without disturbing it."""

from collections.abc import Callable

from tmpmaild.model import Message, Page, Source
from tmpmaild.storage import ids
from tmpmaild.storage.base import ANY_SIZE
from tmpmaild.storage.ids import message_key

_ALL = 1_000_000
_NO_KEY = 1  # keys begin with the time


class OperatorMail:
    """What an engine reads of the operator's inbox by these functions; ``inbox_key`` is as in ``message_key``.

    Every method raises ``DatabaseError`` when the storage cannot be read.
    """

    def __init__(
        self, page: Callable[[Page], tuple[Message, ...]], source: Callable[[str], Source | None], inbox_key: int = 0
    ) -> None:
        self._page = page
        self._source = source
        self._inbox_key = inbox_key

    def messages(self) -> tuple[Message, ...]:
        """Read all messages, newest first, with short beginnings of their bodies."""
        return self._page(Page(limit=_ALL, bodies_bytes=0))

    def message(self, message_id: str) -> Message | None:
        """Read one message with its whole body; None when the inbox does not hold it."""
        key = message_key(message_id, self._inbox_key) or _NO_KEY
        after, before = (ids.inbox_message_id(self._inbox_key, next_to) for next_to in (key - 1, key + 1))
        found = self._page(Page(after=after, before=before, limit=1, bodies_bytes=ANY_SIZE))
        return found[0] if found else None

    def source(self, message_id: str) -> Source | None:
        """Read the source of one message; None when the inbox does not hold it."""
        return self._source(message_id)
