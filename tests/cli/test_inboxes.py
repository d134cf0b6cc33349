"""The day that ``tmpmaild audit`` accepts."""

from datetime import UTC, date, datetime, timedelta

import pytest
from click.testing import CliRunner

from tmpmaild.cli.inboxes import audit, expect_day


@pytest.mark.parametrize(("given", "days_ago"), [("today", 0), ("yesterday", 1)])
def test_a_day_can_be_named_relative_to_today_in_utc(given, days_ago):
    before = datetime.now(UTC).date()
    found = expect_day(None, None, given)
    after = datetime.now(UTC).date()
    assert before <= found + timedelta(days=days_ago) <= after


def test_a_day_is_a_date():
    assert expect_day(None, None, "2026-11-28") == date(2026, 11, 28)


@pytest.mark.parametrize("given", ["28.11.2026", "2026-13-01", "2026-11-28T10:00:00", "tomorrow", "Sunday", "1d", ""])
def test_any_other_text_is_refused_with_an_error_that_states_the_expected_form(given):
    done = CliRunner().invoke(audit, ["ada@mail.example.com", "--day", given], env={})
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"expected a day such as 2026-11-28, or today or yesterday (in UTC), not {given!r}" in done.stderr
