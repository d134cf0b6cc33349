"""The operator's inbox, read by another process than a daemon: each method connects, reads, and closes."""

import asyncpg

from tmpmaild import ids
from tmpmaild.model import Inbox, Message, Page, Source
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.postgresql.connection import Server
from tmpmaild.storage.postgresql.examining import look
from tmpmaild.storage.postgresql.limits import Limits
from tmpmaild.storage.postgresql.messages import select_source
from tmpmaild.storage.postgresql.reading import InboxLookup, select_messages

_ALL = 1_000_000
_WHOLE_BYTES = 1 << 62
_OPERATOR_NAME = b"\0"  # hashes are longer: no address has this one
_NO_LIMITS = Limits(0, 0, 0, 0, 0)


class PostgresOperatorMail:
    """``OperatorMail`` in a PostgreSQL database. Made by ``engine.operator_mail``."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lookup = InboxLookup("", _OPERATOR_NAME, 0, _NO_LIMITS, lambda _: None)

    def messages(self) -> tuple[Message, ...]:
        """See ``OperatorMail``."""
        return self._page(Page(limit=_ALL, bodies_bytes=0))

    def message(self, message_id: str) -> Message | None:
        """See ``OperatorMail``."""
        inbox_key = int(OPERATOR_INBOX_ID)
        if not ids.is_message_id(message_id):
            return None
        key = ids.key_not_above(message_id, inbox_key)
        after, before = ids.inbox_message_id(inbox_key, key - 1), ids.inbox_message_id(inbox_key, key + 1)
        page = Page(after=after, before=before, limit=1, bodies_bytes=_WHOLE_BYTES)
        return next((message for message in self._page(page) if message.id == message_id), None)

    def source(self, message_id: str) -> Source | None:
        """See ``OperatorMail``."""

        async def read(connection: asyncpg.Connection) -> tuple[Inbox, Source | None] | None:
            return await select_source(connection, self._lookup, message_id, None)

        found = look(self._server, read)
        return found and found[1]

    def _page(self, page: Page) -> tuple[Message, ...]:
        found = look(self._server, lambda connection: select_messages(connection, self._lookup, page))
        return found.messages if found else ()
