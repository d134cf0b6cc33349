"""The order of calls: total and per-host limits, and slow hosts, which must not delay calls to other hosts."""

import sys
from collections import deque

import pytest

from tmpmaild.webhooks.schedule import Schedule


@pytest.fixture
def schedule():
    return Schedule()


def due(schedule, *names, host=None, now_ms=0):
    jobs = [schedule.know(name, host or f"{name}.example") for name in names]
    for job in jobs:
        schedule.call_at(job, now_ms, now_ms)
    return jobs


def taken(schedule, now_ms=0):
    """Take all webhooks that may be called now."""
    jobs = []
    while (job := schedule.take(now_ms)) is not None:
        jobs.append(job)
    return jobs


def numbered(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


def test_a_host_is_called_twice_at_once_and_its_webhooks_get_their_turns(schedule):
    due(schedule, *"abcd", host="one.example")
    first = taken(schedule)
    assert [job.inbox_id for job in first] == ["a", "b"]
    schedule.ended(first[0], 0.1)
    assert [job.inbox_id for job in taken(schedule)] == ["c"]


def test_calls_at_once_are_limited_and_unknown_hosts_get_a_share(schedule):
    due(schedule, *numbered("new", 100))
    assert len(taken(schedule)) == 24


def test_slow_hosts_leave_slots_to_new_hosts_and_both_to_quick_hosts(schedule):
    slow, quick = numbered("slow", 100), numbered("quick", 100)
    for names, seconds in ((slow, 10.0), (quick, 0.1)):
        due(schedule, *names)
        while jobs := taken(schedule):
            for job in jobs:
                schedule.ended(job, seconds)
    due(schedule, *slow)
    assert len(taken(schedule)) == 8
    due(schedule, *numbered("new", 100))
    assert len(taken(schedule)) == 16
    due(schedule, *quick)
    begun = taken(schedule)
    assert len(begun) == 8
    assert {job.inbox_id[:5] for job in begun} == {"quick"}
    assert schedule.calls == 32


def test_one_busy_host_does_not_delay_the_turns_of_others(schedule):
    due(schedule, *numbered("busy", 1000), host="busy.example")
    due(schedule, "other")
    assert [job.inbox_id for job in taken(schedule)] == ["busy0", "other", "busy1"]


def test_a_webhook_with_a_retry_time_or_an_expiry_is_called_once_at_that_time(schedule):
    job = schedule.know("a", "a.example")
    schedule.call_at(job, 5000, 1000)
    schedule.call_at(job, 5000, 2000)
    assert (taken(schedule, 4999), schedule.next_ms(), job.since_ms) == ([], 5000, 1000)
    assert taken(schedule, 5000) == [job]
    schedule.ended(job, 0.1)
    assert (taken(schedule, 9000), schedule.next_ms()) == ([], None)
    job = schedule.know("a", "a.example")
    schedule.end_at(job, 1000)
    schedule.end_at(job, 5000)
    assert (taken(schedule, 1000), taken(schedule, 5000)) == ([], [job])


def test_an_event_during_a_call_is_reported_after_it_but_not_before_a_retry(schedule):
    (job,) = due(schedule, "a")
    taken(schedule)
    schedule.call_now(job)
    assert taken(schedule) == []
    schedule.ended(job, 0.1)
    assert taken(schedule) == [job]
    schedule.call_now(job)
    schedule.call_at(job, 5000, 0)
    schedule.ended(job, 0.1)
    assert (taken(schedule), taken(schedule, 5000)) == ([], [job])


def test_a_forgotten_or_moved_webhook_is_not_called_at_its_old_host(schedule):
    gone, moved = due(schedule, *"ab", host="old.example")
    schedule.forget(gone)
    schedule.forget(gone)
    again = schedule.know("b", "new.example")
    assert (again is moved, len(schedule)) == (False, 1)
    assert taken(schedule) == []
    schedule.call_now(again)
    assert taken(schedule) == [again]
    schedule.forget(again)
    schedule.call_now(again)
    schedule.ended(again, 0.1)
    assert (taken(schedule), len(schedule), schedule._hosts) == ([], 0, {})


def test_moving_a_time_repeatedly_uses_no_memory(schedule):
    job = schedule.know("a", "a.example")
    for at_ms in range(1, 10_000):
        schedule.end_at(job, at_ms)
    assert len(schedule._times) < 100
    assert taken(schedule, 9999) == [job]


def test_removing_and_setting_webhooks_again_does_not_make_calls_to_a_host_more_frequent(schedule):
    for number in range(10):
        (job,) = due(schedule, f"inbox{number}", host="one.example")
        begun = taken(schedule)
        assert len(begun) == (1 if number < 2 else 0)
        schedule.forget(job)
    due(schedule, "last", host="one.example")
    assert (taken(schedule), schedule.calls) == ([], 2)


@pytest.mark.parametrize("host", [None, "one.example"])
def test_the_steps_of_a_call_do_not_grow_with_the_number_of_waiting_webhooks(host):
    def steps(waiting):
        schedule = Schedule()
        jobs = due(schedule, *numbered("waits", waiting), host=host)
        # Removing the first item of a list moves all other items, but that work does not count as lines of Python.
        assert all(isinstance(job.host.ready, deque) for job in jobs)
        begun = taken(schedule)
        return lines_run(lambda: [_turn(schedule, begun) for _ in range(20)])

    assert steps(20_000) == steps(100)


def lines_run(work):
    """Return the number of lines of Python that a function runs."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()  # such as a coverage tool's trace function
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _turn(schedule, jobs):
    job = jobs.pop(0)
    schedule.ended(job, 10.0)
    schedule.call_now(job)
    jobs.extend(taken(schedule))
