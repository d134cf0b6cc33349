"""The storage contract: differences between the engines that a type checker does not detect."""

import inspect

import pytest

from tmpmaild.storage.base import Storage, bodies_to_read, cut, retired_domains
from tmpmaild.storage.postgresql.storage import PostgresqlStorage
from tmpmaild.storage.rows import ListedRow
from tmpmaild.storage.sqlite.storage import SqliteStorage

METHODS = {name: method for name, method in vars(Storage).items() if inspect.isfunction(method) and name[0] != "_"}


def parameters(method):
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("engine", [SqliteStorage, PostgresqlStorage])
def test_each_engine_defines_every_method_with_the_same_parameter_names(engine):
    """A type checker accepts different names for a positional parameter, but callers may pass it by name."""
    assert {name: parameters(vars(engine)[name]) for name in METHODS} == {
        name: parameters(method) for name, method in METHODS.items()
    }


def listed(body_bytes):
    return ListedRow(
        0, "", 0, "", "", "", 0, has_html=False, attachments="[]", authentication=None, body_bytes=body_bytes, body=None
    )


@pytest.mark.parametrize(
    ("sizes", "room_bytes", "whole"),
    [
        ([1024, 1024], 0, [True, True]),
        ([1025, 1024], 0, [False, True]),
        ([5000, 5000], 10_000, [True, True]),
        ([5000, 5001], 10_000, [True, False]),
        ([20_000, 8000, 8000], 10_000, [False, True, False]),
    ],
    ids=["as long as a cut one", "longer", "both fit", "the second does not", "room that a cut one leaves"],
)
def test_a_body_is_complete_if_it_fits_into_the_rest_of_the_page(sizes, room_bytes, whole):
    assert [is_whole for _, is_whole in bodies_to_read(map(listed, sizes), room_bytes)] == whole


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("x" * 1024, ("x" * 1024, False)),
        ("x" * 1025, ("x" * 1024, True)),
        ("x" * 1023 + "ü", ("x" * 1023, True)),
    ],
    ids=["fits", "too long", "a character is not divided"],
)
def test_a_body_is_cut_between_characters(body, shown):
    assert cut(body) == shown


def test_a_domain_that_is_no_longer_served_is_kept_until_its_time():
    known = {"served.test": None, "left.test": None, "back.test": 50, "kept.test": 20, "over.test": 10}
    served = ["served.test", "back.test"]
    assert retired_domains(known, served, now_ms=10, until_ms=30) == {"left.test": 30, "kept.test": 20}
