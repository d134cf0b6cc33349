"""What the engine counts for the operator: what the database holds, and how its commits go."""

import sqlite3

from tmpmaild.measures import Gauge, Measure
from tmpmaild.storage.commits import CommitFigures


class Figures(CommitFigures):
    """Written by the writer's thread, read by the event loop.

    The tables are counted once, when this is made; after that each commit adds what it changed.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        sql = "SELECT count(*), coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"
        self._inboxes, self._messages = connection.execute(sql).fetchone()

    def count_rows(self, inboxes: int, messages: int) -> None:
        """Add what a commit added, or took away."""
        self._inboxes += inboxes
        self._messages += messages

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        return (
            *super().measures(),
            # The operator's inbox is one of the rows.
            Gauge("storage_inboxes", "Inboxes that are not swept yet.", lambda: self._inboxes - 1),
            Gauge("storage_messages", "Messages in the database.", lambda: self._messages),
        )
