"""Which statements the engine runs, and which of their plans would take longer the more inboxes and mails there are.

SQLite chooses a plan by the text of a statement and by the schema: there are no statistics, in production neither.
"""

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tables import rows_of
from tmpmaild.storage.sqlite.engine import migrate

LIST_LENGTHS = (1, 2, 4, 16, 64, 1000)  # SQLite likes an index better the longer the list of ids is

_PLANNED = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\b", re.IGNORECASE)
_LIST = re.compile(r"\bIN \(\?(?:, ?\?)*\)")
_COMMENT = re.compile(r"--[^\n]*")
_NAMED = re.compile(r":([a-z_]+)")
_ROW_OF_TRIGGER = re.compile(r"\b(?:NEW|OLD)\.\w+")


class Shape(NamedTuple):
    """A line of a plan that costs the same however much is stored, and why; ``only_with`` must be in the statement."""

    line: str
    why: str
    only_with: str = ""


SHAPES = tuple(Shape(*row) for row in rows_of(__file__)["shapes"])


class Recorder:
    """Notes each statement that our own code gives to SQLite, with its question marks.

    ``set_trace_callback`` would tell of the statement with its values written into it, megabytes of mail, and SQLite
    never plans that text.
    """

    def __init__(self) -> None:
        self.statements: dict[str, str] = {}

    def connect(self, *args, **options):
        """Open a connection as ``sqlite3.connect`` does."""
        return _connect(*args, factory=self._connection_class(), **options)

    def _connection_class(self):
        note = self._note

        class Connection(sqlite3.Connection):
            def execute(self, sql, *values):
                note(sql, sys._getframe(1))
                return super().execute(sql, *values)

            def executemany(self, sql, *values):
                note(sql, sys._getframe(1))
                return super().executemany(sql, *values)

        return Connection

    def _note(self, sql, caller):
        module = caller.f_globals["__name__"]
        if module.startswith("tmpmaild.") and _PLANNED.match(sql):
            self.statements.setdefault(_LIST.sub("IN (?)", sql), module)


_connect = sqlite3.connect


def filled_database(inboxes=3000, mails_each=4):
    """Return a database with so many inboxes and mails."""
    connection = _connect(":memory:", isolation_level=None)
    migrate(connection)
    fill(connection, inboxes, mails_each)
    return connection


def fill(connection, inboxes, mails_each):
    """Store so many inboxes, the first of which has the id 100, and mails; the database may be of any schema."""
    for statement in Path(__file__).with_name("filling.sql").read_text().split("\n\n"):
        connection.execute(statement, {"inboxes": inboxes, "mails_each": mails_each})


def objections(connection, sql):
    """Return what must not be in the plans of a statement, of its triggers, and of its lists at any length."""
    found = []
    for length in LIST_LENGTHS if _LIST.search(sql) else LIST_LENGTHS[:1]:
        text = _LIST.sub(f"IN ({','.join('?' * length)})", sql)
        for statement in (text, *trigger_statements(connection, text)):
            found += [
                f"{line} in {statement[:400]}" for line in _plan(connection, statement) if not _is_fine(line, statement)
            ]
    return list(dict.fromkeys(found))


def trigger_statements(connection, sql):
    """Return the statements of the triggers that a statement fires, the new and the old row as question marks."""
    program = _explain(connection, "EXPLAIN", sql)
    texts = [p4 for _, opcode, _, _, _, p4, *_ in program if opcode == "Trace" and str(p4).startswith("-- ")]
    return [_ROW_OF_TRIGGER.sub("?", text.removeprefix("-- ")) for text in dict.fromkeys(texts)]


def _plan(connection, sql):
    return [row[3] for row in _explain(connection, "EXPLAIN QUERY PLAN", sql)]


def _explain(connection, how, sql):
    bare = _COMMENT.sub("", sql)
    names = _NAMED.findall(bare)
    values = dict.fromkeys(names) if names else (None,) * bare.count("?")
    with closing(connection.execute(f"{how} {bare}", values)) as rows:
        return rows.fetchall()


def _is_fine(line, sql):
    return any(re.fullmatch(shape.line, line) and re.search(shape.only_with, sql) for shape in SHAPES)
