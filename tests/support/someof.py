"""Tables of which each run of the tests takes some rows, and make proof-tests all."""

import pytest


def some_of(table, *names):
    """Return the names of all rows for ``parametrize``: all but those named are for the proofs."""
    assert set(names) <= set(table)
    return [name if name in names else pytest.param(name, marks=pytest.mark.proof) for name in table]
