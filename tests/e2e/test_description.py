"""The OpenAPI description and the real server: generated requests get the documented responses and statuses."""

import pytest

import described
from tmpmaild.http.app import OPERATIONS

MAX_EXAMPLES = 3  # the system tests generate more examples


@pytest.fixture(scope="module")
def lives(tmp_path_factory, start_in):
    return described.Lives(start_in(tmp_path_factory.mktemp("described")))


def test_every_operation_is_described():
    assert described.DESCRIBED.keys() == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("operation_id", sorted(one.id for one in OPERATIONS))
def test_valid_requests_get_documented_responses(lives, operation_id):
    described.ask_all(lives, operation_id, described.GenerationMode.POSITIVE, MAX_EXAMPLES)


@pytest.mark.parametrize("operation_id", described.MISTAKABLE)
def test_invalid_requests_get_documented_responses(lives, operation_id):
    described.ask_all(lives, operation_id, described.GenerationMode.NEGATIVE, MAX_EXAMPLES)
