"""No statement gets slower as more mail is stored; ``conftest.py`` checks the statements of the contract tests."""

import re
import sqlite3
from contextlib import closing

import pytest

from tmpmaild.storage.sqlite.layout import _INBOXES, INSERTED

from .plans import Recorder, filled_database, objections, trigger_statements


@pytest.fixture(scope="module")
def database():
    with closing(filled_database(inboxes=2000, mails_each=3)) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT count(*) FROM message", "SCAN message"),
        ("SELECT id FROM inbox WHERE creator = ?", "SCAN inbox"),
        ("SELECT id FROM inbox WHERE swept = 0", "(swept=?)"),
        ("SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ?", "(swept=? AND expires_at_ms<?)"),
        (
            "SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ? ORDER BY name_hash LIMIT ?",
            "(swept=? AND expires_at_ms<?)",
        ),
        ("SELECT id FROM message WHERE inbox_id = ?", "(inbox_id=?)"),
        ("SELECT id FROM message WHERE inbox_id = ? ORDER BY recipient_at LIMIT 5", "USE TEMP B-TREE"),
        ("SELECT id FROM content WHERE id > ?", "(rowid>?)"),
        ("SELECT id FROM content WHERE subject IN (?)", "SCAN content"),
        ("SELECT id FROM message WHERE inbox_id IN () OR (inbox_id = ? AND id < ?) LIMIT 5", "SCAN message"),
        ("DELETE FROM inbox WHERE swept = 1", "(swept=?)"),
        (_INBOXES.format(marks="?").replace("+i.swept", "i.swept"), "inbox_by_expiry (swept=?)"),
    ],
)
def test_a_plan_that_grows_is_found(database, sql, line):
    assert any(line in objection for objection in objections(database, sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?",
        "SELECT id FROM inbox WHERE id IN (?)",
        "SELECT id FROM inbox WHERE name_hash = :name_hash",
        "SELECT id FROM message WHERE inbox_id = ? AND id > ? ORDER BY id LIMIT 5",
        _INBOXES.format(marks="?"),
    ],
)
def test_a_plan_that_does_not_grow_is_accepted(database, sql):
    assert objections(database, sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM inbox WHERE id IN () AND NOT EXISTS (SELECT 1 FROM message WHERE message.inbox_id = inbox.id)",
        "UPDATE inbox SET swept = 1, creator = NULL WHERE id IN ()",
        "DELETE FROM inbox WHERE id IN ()",
    ],
)
def test_a_scan_for_an_empty_list_is_never_begun(database, sql):
    steps = []
    database.set_progress_handler(lambda: steps.append(1), 1)
    database.execute(sql).fetchall()
    database.set_progress_handler(None, 0)
    assert len(steps) < 50
    assert objections(database, sql) == []


def test_the_plans_include_the_statements_of_triggers(database):
    marks = ",".join("?" * len(INSERTED))
    fired = trigger_statements(database, f"INSERT INTO delivery VALUES ({marks})")
    assert {re.match(r"(?:INSERT INTO|UPDATE) \w+", sql)[0] for sql in fired} == {
        "INSERT INTO content",
        "INSERT INTO message",
        "UPDATE inbox",
        "INSERT INTO creator",
    }
    database.execute("BEGIN")
    database.execute(
        "CREATE TRIGGER slow AFTER DELETE ON message BEGIN"
        " UPDATE inbox SET swept = 0 WHERE creator = (SELECT creator FROM inbox WHERE id = OLD.inbox_id); END"
    )
    found = objections(database, "DELETE FROM message WHERE id = ?")
    database.execute("ROLLBACK")
    assert ["SCAN inbox" in objection for objection in found] == [True]


async def test_every_connection_of_the_engine_is_recorded(monkeypatch, open_engine):
    recorder = Recorder()
    monkeypatch.setattr(sqlite3, "connect", recorder.connect)
    async with open_engine() as engine:
        inbox = await engine.inbox("ada", lifetime_ms=1)
        await engine.add(inbox)
        engine.clock.advance(ms=1)
        await engine.find("ada")
        await engine.sweep()
    modules = {module.rpartition(".")[2] for module in recorder.statements.values()}
    assert {"writer", "engine", "operations", "layout", "reading", "sweeping"} <= modules
