"""Records the statements that the engine runs, and finds query plans that get slower as more data is stored.

SQLite chooses a plan from the text of a statement and the schema: there are no statistics, as in production.
"""

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tmpmaild.storage.sqlite.engine import migrate

LIST_LENGTHS = (1, 2, 4, 16, 64, 1000)  # the longer the list of ids, the more SQLite prefers an index

_PLANNED = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\b", re.IGNORECASE)
_LIST = re.compile(r"\bIN \(\?(?:, ?\?)*\)")
_COMMENT = re.compile(r"--[^\n]*")
_NAMED = re.compile(r":([a-z_]+)")
_ROW_OF_TRIGGER = re.compile(r"\b(?:NEW|OLD)\.\w+")


class Shape(NamedTuple):
    """A plan line whose cost does not depend on the stored data, allowed in statements that contain ``only_with``."""

    line: str
    why: str
    only_with: str = ""


SHAPES = (
    Shape(
        r"(?:CORRELATED )?(?:SCALAR|LIST) SUBQUERY \d+|REUSE LIST SUBQUERY \d+|MULTI-INDEX OR|INDEX \d+", "a heading"
    ),
    Shape(r"SEARCH \w+ USING INTEGER PRIMARY KEY \(rowid=\?\)( LEFT-JOIN)?", "a row for each value"),
    Shape(r"SEARCH \w+ USING PRIMARY KEY \(hash=\?\)( LEFT-JOIN)?", "a creator's only row"),
    Shape(r"SEARCH \w+ USING (COVERING )?INDEX sqlite_autoindex_inbox_1 \(name_hash=\?\)", "a unique index"),
    Shape(
        r"SEARCH \w+ USING (COVERING )?INDEX message_by_inbox \(inbox_id=\?( AND rowid[<>]\?)*\)",
        "the mail of one inbox, up to a limit",
        r"\bLIMIT\b|\bNOT EXISTS\b",
    ),
    Shape(
        r"SEARCH m USING (COVERING )?INDEX message_sharing_content \(content_id=\?\)",
        "the recipients of one transaction",
    ),
    Shape(
        r"SEARCH inbox USING COVERING INDEX inbox_by_expiry \(swept=\? AND expires_at_ms<\?\)",
        "what has expired longest ago, up to a limit",
        r"ORDER BY expires_at_ms LIMIT \?",
    ),
    Shape(
        r"SEARCH inbox USING INDEX inbox_by_expiry \(swept=\? AND expires_at_ms>\? AND expires_at_ms<\?\)",
        "a page of inboxes",
        "ORDER BY expires_at_ms, id LIMIT :limit",
    ),
    Shape(
        r"SEARCH inbox USING INDEX inbox_by_expiry \(swept=\?\)",
        "once, at the start: from then on commits are counted",
        r"^SELECT count\(\*\), coalesce\(sum\(message_count\), 0\) FROM inbox WHERE swept = 0$",
    ),
    Shape(
        r"SEARCH i USING INTEGER PRIMARY KEY \(rowid>\? AND rowid<\?\)",
        "the twelve inboxes that share a row of addresses",
        r"i\.id BETWEEN address\.id \* 12 AND address\.id \* 12 \+ 11",
    ),
    Shape(r"SEARCH \w+ USING INDEX message_by_inbox \(inbox_id=\? AND rowid=\?\)", "a row for each value"),
    Shape(
        r"SEARCH w USING INTEGER PRIMARY KEY \(rowid>\?\)", "a page of webhooks", r"ORDER BY w\.inbox_id LIMIT :limit"
    ),
    Shape("SEARCH message", "the last row of the table", r"\bmax\(id\)"),
    Shape("(?:CO-ROUTINE|SCAN) page", "the rows of one page", r"ORDER BY m\.id (?:ASC|DESC) LIMIT :limit\n\) AS page"),
    Shape(r"SCAN json_each VIRTUAL TABLE INDEX \d+:.*", "a list that was handed over, or that of one mail"),
    Shape("USE TEMP B-TREE FOR ORDER BY", "as many rows as that list is long", r"\bIN \(SELECT value FROM json_each\b"),
    Shape(
        r"SCAN \d+(?: CONSTANT ROWS|-ROW VALUES CLAUSE)|(?:MATERIALIZE|SCAN) delivery|CO-ROUTINE delivery",
        "the rows of one batch",
    ),
    Shape(
        r"SCAN \w+(?: USING COVERING INDEX \w+)?",
        "never begun: what is wanted to be in an empty list is not there",
        r"^(?:SELECT id FROM|DELETE FROM|UPDATE) [^(]*\bWHERE id IN \(\)(?: AND .*)?$",
    ),
    Shape(
        r"SEARCH inbox USING COVERING INDEX inbox_by_expiry \(swept=\? AND expires_at_ms<\?\)",
        "the inbox that expires last",
        "ORDER BY expires_at_ms DESC LIMIT 1$",
    ),
    Shape(
        r"SEARCH block USING COVERING INDEX block_by_expiry \(expires_at_ms<\?\)",
        "blocks that have expired, up to a limit",
        r"ORDER BY expires_at_ms LIMIT \?",
    ),
    Shape(
        r"SEARCH block USING (COVERING )?INDEX sqlite_autoindex_block_1 \(kind=\? AND value=\?\)",
        "a row for each value",
    ),
    Shape("SCAN block USING INDEX sqlite_autoindex_block_1", "all blocks, read once at the start"),
    Shape(r"SEARCH domain USING PRIMARY KEY \(name=\?\)", "a row for each value"),
    Shape("SCAN domain", "as many rows as the operator has had domains lately"),
    Shape("SCAN sqlite_(?:master|schema)", "the schema"),
    Shape(".*", "the schema, compared once at the start", r"\bpragma_table_xinfo\(s\.name\)"),
    Shape("SCAN daemon", "a table of one row"),
)


class Recorder:
    """Records each statement that our own code passes to SQLite, with question marks in place of values.

    ``set_trace_callback`` would report statements with their values inserted. These values may be megabytes of mail,
    and SQLite never plans that text.
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
    """Return a database with the given numbers of inboxes and messages."""
    connection = _connect(":memory:", isolation_level=None)
    migrate(connection)
    fill(connection, inboxes, mails_each)
    return connection


def fill(connection, inboxes, mails_each):
    """Store inboxes, the first with the id 100, and messages; the database may have any schema version."""
    for statement in Path(__file__).with_name("filling.sql").read_text().split("\n\n"):
        connection.execute(statement, {"inboxes": inboxes, "mails_each": mails_each})


def objections(connection, sql):
    """Return the forbidden plan lines of a statement, with lists of various lengths, and of its triggers."""
    found = []
    for length in LIST_LENGTHS if _LIST.search(sql) else LIST_LENGTHS[:1]:
        text = _LIST.sub(f"IN ({','.join('?' * length)})", sql)
        for statement in (text, *trigger_statements(connection, text)):
            found += [
                f"{line} in {statement[:400]}" for line in _plan(connection, statement) if not _is_fine(line, statement)
            ]
    return list(dict.fromkeys(found))


def trigger_statements(connection, sql):
    """Return the statements in the triggers that a statement fires, with question marks in place of NEW and OLD."""
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
