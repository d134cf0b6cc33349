"""The operator's inbox and a summary, read by another process than a daemon: each read connects and closes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild import ids
from tmpmaild.errors import DatabaseError, RequestError
from tmpmaild.model import Inbox, Message, Page, Source
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Summary
from tmpmaild.storage.postgresql.messages import select_source
from tmpmaild.storage.postgresql.obstacles import FAILURES, advice
from tmpmaild.storage.postgresql.reading import InboxLookup, select_messages
from tmpmaild.storage.postgresql.server import Server
from tmpmaild.storage.rows import WHOLE_BYTES
from tmpmaild.storage.settings import Limits

T = TypeVar("T")

_ALL: Final = 1_000_000
_OPERATOR_NAME: Final = b"\0"  # hashes are longer: no address has this one
_SUMMARY: Final = """
SELECT sum(inboxes)::bigint AS inboxes, sum(messages)::bigint AS messages,
       pg_database_size(current_database()) AS stored_bytes
FROM usage
"""


class PostgresOperatorMail:
    """``OperatorMail`` in a PostgreSQL database. Made by ``engine.operator_mail``."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lookup = InboxLookup("", _OPERATOR_NAME, 0, Limits(), lambda _: None)

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
        page = Page(after=after, before=before, limit=1, bodies_bytes=WHOLE_BYTES)
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


def summary(server: Server) -> Summary:
    """Return what the database holds. Raises ``DatabaseError``."""

    async def read(connection: asyncpg.Connection) -> Summary:
        row = await connection.fetchrow(_SUMMARY)
        return Summary(None, row["inboxes"], row["messages"], row["stored_bytes"])

    return look(server, read)


def look(server: Server, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Connect, read, and close. Raises ``DatabaseError``."""

    async def connect_and_read() -> T:
        connection = await server.connect()
        try:
            return await read(connection)
        finally:
            await connection.close()

    try:
        return asyncio.run(connect_and_read())
    except (*FAILURES, RequestError) as error:
        raise DatabaseError(f"{server.url}: {advice(error)}") from error
