"""The token bucket, with a clock that the tests control."""

from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.ratelimit import Decision, TokenBuckets, changed_buckets


def test_a_burst_passes_and_then_a_token_is_added_every_six_seconds():
    buckets = TokenBuckets(10, 10)
    now = 1000.0
    assert [buckets.take("ada", now).remaining for _ in range(10)] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert buckets.take("ada", now) == Decision(allowed=False, remaining=0, next_token_seconds=6)
    assert buckets.take("ada", now + 5.5) == Decision(allowed=False, remaining=0, next_token_seconds=1)
    assert buckets.take("ada", now + 6) == Decision(allowed=True, remaining=0, next_token_seconds=6)
    assert not buckets.take("ada", now + 6).allowed


def test_a_refusal_uses_no_token_and_a_bucket_never_contains_more_than_a_burst():
    buckets = TokenBuckets(10, 1)
    buckets.take("ada", 0)
    for second in range(1, 6):
        assert buckets.take("ada", second) == Decision(False, 0, 6 - second)  # noqa: FBT003
    assert [buckets.take("ada", at).allowed for at in (6, 100_000, 100_000)] == [True, True, False]
    assert buckets.take("bob", 100_000).allowed  # bob has a separate bucket


def test_the_time_to_the_next_token_is_returned_even_with_tokens_left():
    buckets = TokenBuckets(10, 10)
    assert buckets.take("ada", 0) == Decision(allowed=True, remaining=9, next_token_seconds=6)
    assert buckets.take("ada", 2) == Decision(allowed=True, remaining=8, next_token_seconds=4)


def test_a_fast_rate_returns_a_retry_time_of_at_least_one_second():
    buckets = TokenBuckets(6000, 1)
    assert buckets.take("ada", 0).next_token_seconds == 1
    assert buckets.take("ada", 0).next_token_seconds == 1
    assert buckets.take("ada", 0.01).allowed


def test_clients_with_full_buckets_are_forgotten():
    buckets = TokenBuckets(10, 10)
    for number in range(5):
        buckets.take(f"client{number}", 0)
    buckets.take("late", 5)
    buckets.forget_idle(6)
    assert len(buckets) == 1
    buckets.take("other", 100)
    assert len(buckets) == 1
    buckets.put_back("ada")  # ada's bucket no longer exists
    assert [buckets.take("ada", 100).remaining for _ in range(3)] == [9, 8, 7]


def test_the_table_is_bounded_and_evicts_the_least_recent_client():
    buckets = TokenBuckets(10, 1, max_clients=3)
    for client in ("ada", "bob", "eve", "new"):
        assert buckets.take(client, 0).allowed
    assert len(buckets) == 3
    assert not buckets.take("bob", 0).allowed
    assert buckets.take("ada", 0).allowed


@given(st.lists(st.floats(0, 30), min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 120))
def test_requests_never_exceed_the_burst_plus_the_rate(pauses, burst, rate):
    buckets = TokenBuckets(rate, burst)
    now = allowed = 0
    for pause in pauses:
        now += pause
        decision = buckets.take("ada", 1e6 + now)
        allowed += decision.allowed
        assert 0 <= decision.remaining < burst
        if not decision.allowed:
            assert buckets.take("ada", 1e6 + now) == decision
    assert allowed <= burst + now * rate / 60 + 1e-3


@given(st.integers(1, 20), st.integers(1, 600))
def test_a_client_that_waits_for_the_returned_time_is_accepted(burst, rate):
    buckets = TokenBuckets(rate, burst)
    decision = buckets.take("ada", 0)
    while decision.allowed:
        decision = buckets.take("ada", 0)
    assert buckets.take("ada", decision.next_token_seconds).allowed


def test_buckets_are_kept_if_their_rate_is_unchanged():
    known = changed_buckets(None, TokenBuckets, 10, 5)
    assert changed_buckets(known, TokenBuckets, 10, 5) is known
    assert changed_buckets(known, TokenBuckets, 10) is not known
    assert changed_buckets(known, TokenBuckets, 11, 5).take("ada", 0.0).remaining == 4
    assert changed_buckets(known, TokenBuckets, 0, 5) is None
    assert changed_buckets(None, TokenBuckets, 0) is None


@given(st.lists(st.tuples(st.sampled_from(["take", "put back"]), st.integers(0, 30))))
def test_has_token_predicts_take_and_returned_tokens_can_be_taken_again(steps):
    buckets, now, taken = TokenBuckets(10, 4), 1000.0, 0
    for step, seconds in steps:
        now += seconds
        expected = buckets.has_token("ada", now)
        if step == "take":
            assert buckets.take("ada", now).allowed is expected
            taken += expected
        elif taken:
            buckets.put_back("ada")
            taken -= 1
            assert buckets.has_token("ada", now)
