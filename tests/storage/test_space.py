"""Room is measured now and then, but at once where there was none."""

import sqlite3
from contextlib import closing

import pytest

from tmpmaild.storage.space import Space

KIB = 1024


@pytest.fixture
def connection(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("CREATE TABLE t (x)")
        yield opened


@pytest.fixture
def space(path, connection):
    return Space(path, connection, cap_bytes=1024 * KIB, reserve_bytes=100 * KIB)


def fill(connection):
    connection.execute("INSERT INTO t VALUES (zeroblob(?))", (1000 * KIB,))


def test_a_batch_of_a_few_octets_is_not_worth_a_look(space, connection):
    fill(connection)
    space.measure(10)
    assert space.has_room


def test_many_octets_are_measured_at_once(space, connection):
    fill(connection)
    space.measure(50 * KIB)
    assert not space.has_room


def test_where_there_was_no_room_every_batch_is_measured(space, connection):
    fill(connection)
    space.measure(50 * KIB)
    connection.execute("DELETE FROM t")
    space.measure(0)
    assert space.has_room
