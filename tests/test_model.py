"""Formatting of Unix milliseconds as text, and of a number with its noun in singular or plural."""

import pytest

from tmpmaild.model import counted, rfc3339


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


def test_the_noun_after_one_is_in_the_singular():
    told = [counted(0, "inbox", "inboxes"), counted(1, "inbox", "inboxes"), counted(2, "mail"), counted(1, "mail")]
    assert told == ["0 inboxes", "1 inbox", "2 mails", "1 mail"]
    assert counted(12_000, "mail", spec=",") == "12,000 mails"
