"""Unix milliseconds as text."""

import pytest

from tmpmaild.model import rfc3339


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_176_000_000, "2026-11-20T12:00:00.000Z"),
        (1_795_176_000_999, "2026-11-20T12:00:00.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(time_ms, text):
    assert rfc3339(time_ms) == text
