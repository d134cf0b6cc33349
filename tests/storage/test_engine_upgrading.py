"""Migrations: they run after expired mail has been deleted, and must not rewrite large tables."""

import re
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import opening
from tmpmaild.storage.sqlite.engine import _statements, bring_up_to_date, migrate, migrations, open_storage

from .conftest import settings
from .plans import fill

NOW_MS = 1_790_000_000_000
LIVES = 400
_NAME = r"(\w+)"
_CREATES = re.compile(rf"CREATE TABLE {_NAME} \(.*\) ?\w* ?;", re.IGNORECASE)
_ADDS = re.compile(rf"ALTER TABLE {_NAME} ADD COLUMN (?!.*\b(?:CHECK|GENERATED|AS)\b).*;", re.IGNORECASE)
_HOLDS_NO_ROWS = re.compile(r"(?:CREATE|DROP) (?:VIEW|TRIGGER) .*;", re.IGNORECASE)
_OF_A_NEW_TABLE = (
    re.compile(rf"CREATE (?:UNIQUE )?INDEX \w+ ON {_NAME} \(.*\).*;", re.IGNORECASE),
    re.compile(rf"INSERT INTO {_NAME} (?:\([^)]*\) )?VALUES (?!.*\bSELECT\b).*;", re.IGNORECASE),
)
_ONE_ROW = re.compile(r"UPDATE daemon SET (?!.*\bSELECT\b).*;", re.IGNORECASE)


def forbidden(script):
    """Return the statements of a migration whose cost would grow with the amount of stored mail.

    New tables with their indexes, new columns, views, triggers, and changes to the single row of ``daemon`` are allowed.
    """
    new_tables, found = set(), []
    for statement in map(_plain, _statements(script)):
        if created := _CREATES.fullmatch(statement):
            new_tables.add(created[1])
        elif not (
            _ADDS.fullmatch(statement)
            or _HOLDS_NO_ROWS.fullmatch(statement)
            or _ONE_ROW.fullmatch(statement)
            or any((match := form.fullmatch(statement)) and match[1] in new_tables for form in _OF_A_NEW_TABLE)
        ):
            found.append(statement)
    return [statement for statement in found if statement]


def _plain(statement):
    return " ".join(re.sub(r"--[^\n]*", "", statement).split())


@pytest.mark.parametrize("number", [number for number in migrations() if number > 1] or [None])
def test_no_migration_after_the_first_rewrites_a_table(number):
    if number is not None:
        assert forbidden(migrations()[number].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE new_content AS SELECT * FROM content;",
        "CREATE TABLE t (id INTEGER PRIMARY KEY) STRICT;\nINSERT INTO t SELECT id FROM content;",
        "CREATE TABLE t (id INTEGER PRIMARY KEY) STRICT;\nINSERT INTO t (id) VALUES ((SELECT max(size_bytes) FROM content));",
        "INSERT INTO content (id) VALUES (1);",
        "DROP TABLE content;",
        "ALTER TABLE content RENAME TO old_content;",
        "ALTER TABLE content RENAME COLUMN body TO text;",
        "ALTER TABLE content DROP COLUMN html;",
        "ALTER TABLE content ADD COLUMN rank INTEGER CHECK (rank > 0);",
        "UPDATE content SET subject = '';",
        "UPDATE inbox SET stored_bytes = 0;",
        "UPDATE daemon SET last_message_id = (SELECT max(id) FROM content);",
        "DELETE FROM message;",
        "CREATE INDEX content_by_size ON content (size_bytes);",
        "REPLACE INTO daemon VALUES (1);",
        "WITH x AS (SELECT 1) UPDATE content SET html = NULL;",
        "PRAGMA writable_schema = 1;",
        "VACUUM;",
        "REINDEX;",
        "-- looks harmless\nCREATE TABLE t (x); DROP TABLE content;",
        "create table copy as select * from content;",
    ],
)
def test_a_migration_that_rewrites_or_reads_a_table_is_found(script):
    assert forbidden(script)


def test_a_migration_that_only_adds_is_accepted():
    assert forbidden(Path(__file__).with_suffix(".sql").read_text()) == []


@pytest.fixture(params=migrations())
def populated(request, path):
    """Fill a database of each schema version with 300 expired inboxes and one live inbox, each with two messages."""
    steps = {number: file for number, file in migrations().items() if number <= request.param}
    with closing(opening.connect(path)) as connection:
        migrate(connection, steps)
        fill(connection, inboxes=301, mails_each=2)
        connection.execute("UPDATE inbox SET expires_at_ms = ? WHERE id = ?", (NOW_MS + 1, LIVES))
        yield connection, steps


def step(tmp_path, number, sql):
    file = tmp_path / f"{number:04}_further.sql"
    file.write_text(sql)
    return file


def test_expired_data_is_deleted_before_a_step_runs_and_the_rest_is_kept(populated, tmp_path):
    connection, steps = populated
    number = max(steps) + 1
    seen = "CREATE TABLE seen AS SELECT (SELECT count(*) FROM message) AS mails, (SELECT count(*) FROM content) AS contents;"
    statements = []
    connection.set_trace_callback(statements.append)
    assert bring_up_to_date(connection, {**steps, number: step(tmp_path, number, seen)}, NOW_MS) == [
        f"{number:04}_further"
    ]
    connection.set_trace_callback(None)
    assert connection.execute("SELECT * FROM seen").fetchall() == [(2, 2)]
    assert connection.execute("SELECT id FROM inbox WHERE swept = 0 AND id > 1").fetchall() == [(LIVES,)]
    assert (
        connection.execute("SELECT inbox_id, size_bytes FROM message JOIN content AS c ON c.id = content_id").fetchall()
        == [(LIVES, 4)] * 2
    )
    # The sweep uses small transactions, whose size does not grow with the number of expired rows.
    assert statements.count("COMMIT") > 3


def test_a_step_that_fails_leaves_a_swept_database_that_is_checked_at_the_next_start(populated, tmp_path):
    connection, steps = populated
    number = max(steps) + 1
    with pytest.raises(DatabaseError, match="further"):
        bring_up_to_date(connection, {**steps, number: step(tmp_path, number, "THIS IS NO SQL;")}, NOW_MS)
    assert connection.execute("SELECT count(*) FROM message").fetchone() == (2,)
    assert connection.execute("SELECT clean_stop FROM daemon").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (max(steps),)


def test_nothing_is_swept_without_a_step(path):
    with closing(opening.connect(path)) as connection:
        assert bring_up_to_date(connection, migrations(), NOW_MS) == [file.stem for file in migrations().values()]
        fill(connection, inboxes=1, mails_each=1)
        assert bring_up_to_date(connection, migrations(), NOW_MS) == []
        assert connection.execute("SELECT count(*) FROM message").fetchone() == (1,)


async def test_only_the_first_start_on_an_older_database_logs_the_upgrade_in_one_line(path, clock, caplog):
    with closing(opening.connect(path)) as connection:
        migrate(connection, {1: migrations()[1]})
    caplog.set_level("INFO", "tmpmaild.storage")
    for _ in range(2):
        async with open_storage(settings(path), clock):
            pass
    names = ", ".join(file.stem for number, file in migrations().items() if number > 1)
    assert caplog.messages == [f"{path}: the schema was upgraded: {names}"]


def test_mail_of_every_schema_is_read_after_every_further_step(populated):
    connection, _ = populated
    bring_up_to_date(connection, migrations(), 0)
    assert set(chain.from_iterable(connection.execute("SELECT subject FROM mail"))) == {"subject"}
    assert connection.execute("SELECT octets FROM source LIMIT 1").fetchall() == [(b"raw!",)]
    held = "SELECT message_count, stored_bytes FROM inbox WHERE id = ?"
    assert connection.execute(held, (LIVES,)).fetchone() == (2, 2 * 5637)
    connection.execute("DELETE FROM message WHERE inbox_id = ?", (LIVES,))
    assert connection.execute(held, (LIVES,)).fetchone() == (0, 0)
