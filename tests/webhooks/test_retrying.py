"""The state after a call, and the time of the next call."""

import pytest
from msgspec.structs import replace

from tmpmaild.model import StoredWebhook, Webhook, WebhookState
from tmpmaild.webhooks.calling import Outcome
from tmpmaild.webhooks.retrying import state_after

NOW_MS = 1_790_000_000_000
WEBHOOK = Webhook("https://hooks.example.org/", frozenset({"message"}), frozenset(), "whsec_AAAA")
BEFORE = WebhookState("msg_1", "msg_0")
LEASED = StoredWebhook("7", "a@mail.example.com", NOW_MS + 86_400_000, 1, WEBHOOK, BEFORE, "msg_2")
TOLD = WebhookState("msg_2", "msg_0")


@pytest.fixture(autouse=True)
def without_jitter(monkeypatch):
    monkeypatch.setattr("random.random", lambda: 0.0)


def after(outcome, *, failures=0, told=TOLD, **more):
    leased = replace(LEASED, state=replace(BEFORE, failures=failures), **more)
    return state_after(outcome, leased, told, NOW_MS)


def delay_seconds(outcome, **more):
    return (after(outcome, **more).next_at_ms - NOW_MS) / 1000


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_an_event_is_finished_once_a_target_has_accepted_it(status):
    assert after(Outcome(status), failures=3) == replace(TOLD, called_at_ms=NOW_MS, result=str(status))


@pytest.mark.parametrize("outcome", [Outcome(302), Outcome(404), Outcome(500), Outcome(reason="timeout")])
def test_any_other_outcome_leads_to_a_retry_of_the_event(outcome):
    assert after(outcome) == replace(
        BEFORE, failures=1, next_at_ms=NOW_MS + 1000, called_at_ms=NOW_MS, result=outcome.text
    )


def test_the_delays_grow_to_a_quarter_of_an_hour_with_jitter(monkeypatch):
    delays = [delay_seconds(Outcome(500), failures=number) for number in (0, 1, 2, 3, 4, 5, 6, 7, 1000)]
    assert delays == [1, 5, 30, 120, 300, 600, 900, 900, 900]
    monkeypatch.setattr("random.random", lambda: 1.0)
    assert delay_seconds(Outcome(500), failures=6) == pytest.approx(1080)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        ("0", 1),
        pytest.param("99999999999999", 86_400, id="the inbox ends then"),
        ("Mon, 21 Sep 2026 14:18:20 GMT", 300),
        ("Mon, 21 Sep 2020 14:18:20 GMT", 1),
        ("soon", 1),
        ("-5", 1),
        ("1e9", 1),
        ("٣", 1),
        ("Mon, 99 Sep 99999 99:99:99 GMT", 1),
        ("", 1),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    for status in (429, 503):
        assert delay_seconds(Outcome(status, retry_after=text)) == seconds
    assert delay_seconds(Outcome(500, retry_after=text)) == 1


def test_retries_stop_at_the_expiry_and_webhooks_end_with_their_target_or_inbox():
    assert after(Outcome(500), expires_at_ms=NOW_MS + 10).next_at_ms == NOW_MS + 10
    assert delay_seconds(Outcome(500), expires_at_ms=NOW_MS - 10) == 1
    assert after(Outcome(410)) is None
    assert after(Outcome(200), told=None) is None
    assert after(Outcome(500), told=None).failures == 1
