"""The database of a test's storage, with one class per engine: opens the storage, and queries the database directly."""

import sqlite3
from collections import defaultdict
from contextlib import closing

from tmpmaild.storage.engines import PostgresqlSettings, SqliteSettings
from tmpmaild.storage.keys import message_id_in, message_id_of
from tmpmaild.storage.postgresql import engine as postgresql
from tmpmaild.storage.sqlite import engine as sqlite

ENGINES = ("sqlite", "postgresql")


class SqliteStore:
    """A file."""

    engine = "sqlite"

    def __init__(self, path):
        self.path = path

    def open(self, clock, **limits):
        return sqlite.open_storage(SqliteSettings(path=self.path, **limits), clock)

    def read(self, sql):
        """Return the rows that a query finds on disk."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()

    def sources(self):
        """Return the raw sources on disk, oldest first."""
        return [octets for (octets,) in self.read("SELECT octets FROM source ORDER BY id")]

    def mails(self):
        """Return the subject of each stored message content, and the ids of the messages that share this content."""
        rows = self.read("SELECT c.id, c.subject, m.id FROM message AS m JOIN content AS c ON c.id = m.content_id")
        return _mails((mail, subject, message_id_of(key)) for mail, subject, key in rows)


class PostgresqlStore:
    """A database that a worker's tests use one after the other."""

    engine = "postgresql"

    def __init__(self, cluster, url):
        self.cluster = cluster
        self.url = url

    def open(self, clock, **limits):
        return postgresql.open_storage(PostgresqlSettings(url=self.url, **limits), clock)

    def execute(self, *statements):
        """Run statements as the superuser; return the value of the last statement."""
        return self.cluster.execute(*statements, database=self.url.database)

    def read(self, sql):
        """See ``SqliteStore``."""
        return self.cluster.fetch(sql, database=self.url.database)

    def sources(self):
        """See ``SqliteStore``."""
        # A message for inboxes in several slots is stored in each slot.
        return [octets for (octets,) in self.read("SELECT DISTINCT ON (id) source FROM content ORDER BY id")]

    def mails(self):
        """See ``SqliteStore``."""
        join = "message AS m JOIN content AS c ON (c.slot, c.id) = (m.slot, m.content_id)"
        rows = self.read(f"SELECT c.id, c.subject, m.inbox_id, m.key FROM {join}")
        return _mails((mail, subject, message_id_in(*place)) for mail, subject, *place in rows)


def _mails(rows):
    messages, subjects = defaultdict(list), {}
    for mail, subject, message_id in rows:
        messages[mail].append(message_id)
        subjects[mail] = subject
    return [(subjects[mail], messages[mail]) for mail in subjects]
