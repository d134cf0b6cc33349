"""The description against the real server: what it generates is answered as it says, with no status it does not name."""

import pytest
from schemathesis import GenerationMode

from described import DESCRIBED, MISTAKABLE, Lives, ask_all
from tmpmaild.http.apioperations import OPERATIONS

MAX_EXAMPLES = 6  # the proofs have more


@pytest.fixture(scope="module")
def lives(tmp_path_factory, start_in):
    return Lives(start_in(tmp_path_factory.mktemp("described")))


def test_every_operation_is_described():
    assert DESCRIBED.keys() == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("operation_id", sorted(DESCRIBED))
def test_what_is_asked_as_described_is_answered_as_described(lives, operation_id):
    ask_all(lives, operation_id, GenerationMode.POSITIVE, MAX_EXAMPLES)


@pytest.mark.parametrize("operation_id", MISTAKABLE)
def test_what_is_not_asked_as_described_is_answered_as_described(lives, operation_id):
    ask_all(lives, operation_id, GenerationMode.NEGATIVE, MAX_EXAMPLES)
