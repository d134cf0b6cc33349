"""Searches an inbox in steps, so that no statement takes long and no more than a part of an inbox is in memory.

Mail may arrive and be deleted between steps. Mail that arrives after the first step is left to the next search, and
deleted mail is dropped. The inbox and the page are as of the last step, without mail that arrived after the first.
"""

from typing import Any, Final

import asyncpg

from tmpmaild import ids
from tmpmaild.model import SEARCHED_CHARACTERS, Listing, Page
from tmpmaild.storage.pages import Wanted, up_to_the_end
from tmpmaild.storage.postgresql.columns import beginning, body_text, selected
from tmpmaild.storage.postgresql.connection import Readers
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


async def search(readers: Readers, lookup: InboxLookup, page: Page) -> Listing | None:
    """Read one page of the messages that match; None when the inbox is not found in one of the steps."""
    search = Search(lookup, page)
    listing = None
    while not search.ended:
        listing = await readers.run(search.go_on)
    return listing


class Search:
    """One search: its position in the inbox, and what it has found so far."""

    def __init__(self, lookup: InboxLookup, page: Page) -> None:
        self.ended = False
        self._lookup = lookup
        self._page = page
        self._newest_key: int | None = None
        self._after = -1
        self._before = ids.MAX_KEY
        self._wanted = Wanted(page)
        self._attached = "attachment" in page.has
        self._sql = _MESSAGES.format(
            joined=JOINED,
            attachments="c.attachments" if self._attached else "''",
            body=_TEXTS if self._wanted.text else "''",
            direction="ASC" if page.ascending else "DESC",
        )
        self._keys: list[int] = []

    async def go_on(self, connection: asyncpg.Connection) -> Listing | None:
        """Look at some more messages; return the page when the search has ended, else None, also without an inbox."""
        found = await self._lookup.find(connection)
        if found is None:
            self.ended = True
            return None
        newest_key = self._stop_at_newest(found)
        at_end = await self._look(connection, found)
        if not at_end and len(self._keys) <= self._page.limit:
            return None
        return await self._finish(connection, found, newest_key, at_end=at_end)

    def _stop_at_newest(self, found: Found) -> int:
        """Return the newest key of the inbox when the search began; the search does not go beyond it."""
        if self._newest_key is None:
            self._newest_key = found.last_key
            self._after, before = bounds(self._page, found.key)
            self._before = min(before, self._newest_key + 1)
        return self._newest_key

    async def _look(self, connection: asyncpg.Connection, found: Found) -> bool:
        """Run one step; True when no messages are left."""
        limit = _STEP_LARGE_MESSAGES if self._wanted.text else _STEP_MESSAGES
        values: list[Any] = [found.key, found.slot, self._after, self._before, limit]
        values += [SEARCHED_CHARACTERS] if self._wanted.text else []
        try:
            rows = await connection.fetch(of_slot(self._sql, found.slot), *values)
        except asyncpg.UndefinedTableError:
            return True  # the slot has passed, and its partitions have been dropped
        for key, attachments, address, name, subject, *rest in rows:
            self._move_past(key)
            if self._attached and all(one.inline for one in decode_attachments(attachments)):
                continue
            body = (body_text(*rest) or "")[:SEARCHED_CHARACTERS] if self._wanted.text else ""
            if self._wanted.matches(address, name, subject, body):
                self._keys.append(key)
            if len(self._keys) > self._page.limit:
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
        left = {row.key for row in read[1]}
        self._keys = [key for key in self._keys if key in left]
        if not at_end and len(self._keys) <= page.limit:
            return None
        self.ended = True
        rows, has_more = up_to_the_end(read[1], page)
        return Listing(
            read[0].inbox,
            await messages(connection, read[0], rows, page),
            has_more=has_more,
            searched_to=ids.inbox_message_id(found.key, newest_key),
        )

    def _move_past(self, key: int) -> None:
        if self._page.ascending:
            self._after = key
        else:
            self._before = key
