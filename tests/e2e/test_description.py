"""The description against the real server: what it generates is answered as it says, with no status it does not name."""

import pytest

import described
from tmpmaild.http.app import OPERATIONS

MAX_EXAMPLES = 3  # the system tests have more


@pytest.fixture(scope="module")
def lives(tmp_path_factory, start_in):
    return described.Lives(start_in(tmp_path_factory.mktemp("described")))


def test_every_operation_is_described():
    assert described.DESCRIBED.keys() == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("operation_id", sorted(one.id for one in OPERATIONS))
def test_what_is_asked_as_described_is_answered_as_described(lives, operation_id):
    described.ask_all(lives, operation_id, described.GenerationMode.POSITIVE, MAX_EXAMPLES)


@pytest.mark.parametrize("operation_id", described.MISTAKABLE)
def test_what_is_not_asked_as_described_is_answered_as_described(lives, operation_id):
    described.ask_all(lives, operation_id, described.GenerationMode.NEGATIVE, MAX_EXAMPLES)
