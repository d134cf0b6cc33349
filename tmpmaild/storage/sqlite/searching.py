"""Searches an inbox in bounded steps, so that other reads do not wait long: there is one reader."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from msgspec import json

from tmpmaild.model import SEARCHED_CHARACTERS, Inbox, Listing, Page
from tmpmaild.storage import ids
from tmpmaild.storage.pages import Search
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


class SqliteSearch(Search):
    """Finds the inbox, by ``find``, in each step. Each is a read of its own, so that others do not wait long."""

    def __init__(self, find: Callable[[sqlite3.Connection], Inbox | None], page: Page) -> None:
        super().__init__(page)
        self._find = find
        self._sql = _MESSAGES.format(
            attached=_ATTACHED if "attachment" in page.has else "1",
            body=BEGINNING if self.text else "''",
            direction="ASC" if page.ascending else "DESC",
        )

    def go_on(self, connection: sqlite3.Connection) -> Listing | None:
        """Look at some more messages; return the page when the search has ended, else None, also without an inbox."""
        inbox = self._find(connection)
        if inbox is None:
            self.ended = True
            return None
        (newest_key,) = connection.execute("SELECT coalesce(max(id), 0) FROM message").fetchone()
        newest_key = self._begin(newest_key, bounds(self._page))
        self._drop_deleted(_left(connection, self._keys))
        at_end = self._look(connection, inbox)
        self.ended = at_end or self._has_enough
        if not self.ended:
            return None
        messages, has_more = select_chosen(connection, self._keys[: self._page.limit], self._page)
        has_more = has_more or self._has_enough
        return Listing(inbox, messages, has_more=has_more, searched_to=ids.message_id(newest_key))

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
                self._take(key, *texts, attached=attached)
                looked_at, looked_at_bytes = looked_at + 1, looked_at_bytes + size_bytes
                if looked_at_bytes >= _STEP_BYTES or self._has_enough:
                    return False
        return looked_at < _STEP_MESSAGES


def _left(connection: sqlite3.Connection, keys: list[int]) -> set[int]:
    """Return those keys whose messages have not been deleted since they were found."""
    if not keys:
        return set()
    sql = "SELECT id FROM message WHERE id IN (SELECT value FROM json_each(?))"
    return {key for (key,) in connection.execute(sql, (json.encode(keys).decode(),))}
