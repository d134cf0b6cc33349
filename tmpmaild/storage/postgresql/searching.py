"""Searches an inbox in steps, so that no statement takes long and no more than a part of an inbox is in memory."""

from typing import Any, Final

import asyncpg

from tmpmaild.model import SEARCHED_CHARACTERS, Listing, Page
from tmpmaild.storage import ids
from tmpmaild.storage.pages import Search, up_to_the_end
from tmpmaild.storage.postgresql.columns import beginning, body_text, selected
from tmpmaild.storage.postgresql.reading import (
    JOINED,
    Found,
    InboxLookup,
    bounds,
    messages,
    of_slot,
    select_chosen,
)
from tmpmaild.storage.rows import decode_attachments

_STEP_MESSAGES: Final = 200
_STEP_LARGE_MESSAGES: Final = 25  # where bodies are searched

_TEXTS: Final = selected(("body", "verbatim"), **beginning("$6"))
_MESSAGES: Final = """
SELECT m.key, {attachments}, c.sender, c.sender_name, c.subject, {body}
{joined}
WHERE m.slot = $2 AND m.inbox_id = $1 AND m.key > $3 AND m.key < $4
ORDER BY m.key {direction} LIMIT $5
"""


class PostgresSearch(Search):
    """Finds the inbox, by ``lookup``, in each step."""

    def __init__(self, lookup: InboxLookup, page: Page) -> None:
        super().__init__(page)
        self._lookup = lookup
        self._attached = "attachment" in page.has
        self._sql = _MESSAGES.format(
            joined=JOINED,
            attachments="c.attachments" if self._attached else "''",
            body=_TEXTS if self.text else "''",
            direction="ASC" if page.ascending else "DESC",
        )

    async def go_on(self, connection: asyncpg.Connection) -> Listing | None:
        """Look at some more messages; return the page when the search has ended, else None, also without an inbox."""
        found = await self._lookup.find(connection)
        if found is None:
            self.ended = True
            return None
        newest_key = self._begin(found.last_key, bounds(self._page, found.key))
        at_end = await self._look(connection, found)
        if not at_end and not self._has_enough:
            return None
        return await self._finish(connection, found, newest_key, at_end=at_end)

    async def _look(self, connection: asyncpg.Connection, found: Found) -> bool:
        """Run one step; True when no messages are left."""
        limit = _STEP_LARGE_MESSAGES if self.text else _STEP_MESSAGES
        values: list[Any] = [found.key, found.slot, self._after, self._before, limit]
        values += [SEARCHED_CHARACTERS] if self.text else []
        try:
            rows = await connection.fetch(of_slot(self._sql, found.slot), *values)
        except asyncpg.UndefinedTableError:
            return True  # the slot has passed, and its partitions have been dropped
        for key, attachments, address, name, subject, *rest in rows:
            attached = not self._attached or not all(one.inline for one in decode_attachments(attachments))
            body = (body_text(*rest) or "")[:SEARCHED_CHARACTERS] if self.text else ""
            self._take(key, address, name, subject, body, attached=attached)
            if self._has_enough:
                return False
        return len(rows) < limit

    async def _finish(
        self, connection: asyncpg.Connection, found: Found, newest_key: int, *, at_end: bool
    ) -> Listing | None:
        """Return the page; None if the search has to go on, because what it had found was deleted meanwhile."""
        page = self._page
        read = await select_chosen(connection, self._lookup, found, self._keys, page)
        if read is None:
            return None
        self._drop_deleted({row.key for row in read[1]})
        if not at_end and not self._has_enough:
            return None
        self.ended = True
        rows, has_more = up_to_the_end(read[1], page)
        return Listing(
            read[0].inbox,
            await messages(connection, read[0], rows, page),
            has_more=has_more,
            searched_to=ids.inbox_message_id(found.key, newest_key),
        )
