"""Searches an inbox in bounded steps, so that other reads do not wait long: there is one reader.

Each step is a read of its own; mail may arrive and be deleted between steps. Mail that arrives after the first step is
left to the next search, and deleted mail is dropped. So the inbox and the page are as of the last step, without mail
that arrived after the first.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from msgspec import json

from tmpmaild import ids
from tmpmaild.model import SEARCHED_CHARACTERS, Inbox, Listing, Page
from tmpmaild.storage.pages import Wanted
from tmpmaild.storage.sqlite.reader import Reader
from tmpmaild.storage.sqlite.reading import BEGINNING, bounds, select_chosen

_STEP_MESSAGES = 200
_STEP_BYTES = 512 * 1024  # of source, of which only a part may be read

_MESSAGES = """
SELECT m.id, c.size_bytes, {attached}, c.sender, c.sender_name, c.subject, {body}
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.inbox_id = :inbox_id AND m.id > :after AND m.id < :before
ORDER BY m.id {direction} LIMIT :limit
"""
_ATTACHED = "EXISTS (SELECT 1 FROM json_each(c.attachments) WHERE NOT json_extract(value, '$.inline'))"


async def search(reader: Reader, find: Callable[[sqlite3.Connection], Inbox | None], page: Page) -> Listing | None:
    """Read one page of the messages that match; None when ``find``, called in each step, finds no inbox."""
    search = Search(find, page)
    listing = None
    while not search.ended:
        listing = await reader.run(search.go_on)
    return listing


class Search:
    """One search: its position in the inbox, and what it has found so far."""

    def __init__(self, find: Callable[[sqlite3.Connection], Inbox | None], page: Page) -> None:
        self.ended = False
        self._find = find
        self._page = page
        self._newest_key: int | None = None
        self._after, self._before = bounds(page)
        self._wanted = Wanted(page)
        self._sql = _MESSAGES.format(
            attached=_ATTACHED if "attachment" in page.has else "1",
            body=BEGINNING if self._wanted.text else "''",
            direction="ASC" if page.ascending else "DESC",
        )
        self._keys: list[int] = []

    def go_on(self, connection: sqlite3.Connection) -> Listing | None:
        """Look at some more messages; return the page when the search has ended, else None, also without an inbox."""
        inbox = self._find(connection)
        if inbox is None:
            self.ended = True
            return None
        newest_key = self._stop_at_newest(connection)
        self._keys = _left(connection, self._keys)
        at_end = self._look(connection, inbox)
        self.ended = at_end or len(self._keys) > self._page.limit
        if not self.ended:
            return None
        messages, has_more = select_chosen(connection, self._keys[: self._page.limit], self._page)
        has_more = has_more or len(self._keys) > self._page.limit
        return Listing(inbox, messages, has_more=has_more, searched_to=ids.message_id(newest_key))

    def _stop_at_newest(self, connection: sqlite3.Connection) -> int:
        """Return the newest key of all when the search began; the search does not go beyond it."""
        if self._newest_key is None:
            (self._newest_key,) = connection.execute("SELECT coalesce(max(id), 0) FROM message").fetchone()
            self._before = min(self._before, self._newest_key + 1)
        return self._newest_key

    def _look(self, connection: sqlite3.Connection, inbox: Inbox) -> bool:
        """Run one step; True when no messages are left."""
        values = {
            "inbox_id": int(inbox.id),
            "after": self._after,
            "before": self._before,
            "limit": _STEP_MESSAGES,
            "characters": SEARCHED_CHARACTERS,
        }
        looked_at, looked_at_bytes = 0, 0
        with closing(connection.execute(self._sql, values)) as rows:
            for key, size_bytes, attached, *texts in rows:
                self._move_past(key)
                if attached and self._wanted.matches(*texts):
                    self._keys.append(key)
                looked_at, looked_at_bytes = looked_at + 1, looked_at_bytes + size_bytes
                if looked_at_bytes >= _STEP_BYTES or len(self._keys) > self._page.limit:
                    return False
        return looked_at < _STEP_MESSAGES

    def _move_past(self, key: int) -> None:
        if self._page.ascending:
            self._after = key
        else:
            self._before = key


def _left(connection: sqlite3.Connection, keys: list[int]) -> list[int]:
    """Return those keys whose messages have not been deleted since they were found."""
    if not keys:
        return keys
    sql = "SELECT id FROM message WHERE id IN (SELECT value FROM json_each(?))"
    left = {key for (key,) in connection.execute(sql, (json.encode(keys).decode(),))}
    return [key for key in keys if key in left]
