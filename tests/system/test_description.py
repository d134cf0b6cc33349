"""The OpenAPI description and the real server, with many more requests than in ``tests/e2e``."""

import pytest
from schemathesis import GenerationMode

from daemons import NO_LIMITS
from described import DESCRIBED, MISTAKABLE, Lives, ask_all


@pytest.mark.parametrize(
    ("mode", "operations"),
    [(GenerationMode.POSITIVE, sorted(DESCRIBED)), (GenerationMode.NEGATIVE, MISTAKABLE)],
    ids=["as described", "otherwise"],
)
def test_every_response_matches_the_description(start, amount, figure, mode, operations):
    requests = amount(whole=200, quick=5)
    lives = Lives(start(**NO_LIMITS))
    for operation_id in operations:
        ask_all(lives, operation_id, mode, requests)
    asked = f"{len(operations)} operations, up to {requests} requests each: 0 others"
    figure(f"answers to generated {mode.value} requests are as described", asked, "0 others")
