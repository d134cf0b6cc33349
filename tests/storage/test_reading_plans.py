"""No statement takes longer because there is more mail; what the contract suite runs is checked in ``conftest.py``."""

import re
import sqlite3
from contextlib import closing

import pytest

from tables import rows_of, table
from tmpmaild.storage.sqlite.layout import _INBOXES, INSERTED

from .plans import Recorder, filled_database, objections, trigger_statements

ROWS = rows_of(__file__)


@pytest.fixture(scope="module")
def database():
    with closing(filled_database(inboxes=2000, mails_each=3)) as connection:
        yield connection


@table(
    ("sql", "line"),
    [*ROWS["grows"], (_INBOXES.format(marks="?").replace("+i.swept", "i.swept"), "inbox_by_expiry (swept=?)")],
)
def test_a_plan_that_grows_is_found(database, sql, line):
    assert any(line in objection for objection in objections(database, sql))


@table("sql", [*ROWS["does not grow"], _INBOXES.format(marks="?")])
def test_a_plan_that_does_not_grow_is_fine(database, sql):
    assert objections(database, sql) == []


@table("sql", ROWS["empty lists"])
def test_a_scan_for_an_empty_list_is_never_begun(database, sql):
    steps = []
    database.set_progress_handler(lambda: steps.append(1), 1)
    database.execute(sql).fetchall()
    database.set_progress_handler(None, 0)
    assert len(steps) < 50
    assert objections(database, sql) == []


def test_what_triggers_do_is_planned_too(database):
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
