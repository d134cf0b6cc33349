"""Each event is logged at most once a minute, and the total number of lines is bounded."""

import importlib
import logging
import math
import time

import pytest

from tmpmaild.host import logs
from tmpmaild.host.logs import MAX_LINES, Repeats


def record(template="refused: %s", *args, level=logging.INFO, name="tmpmaild.x", **extra):
    made = logging.LogRecord(name, level, "x", 1, template, args, None)
    made.__dict__.update(extra)
    return made


def said(records):
    return [one.getMessage() for one in records]


def test_only_events_repeated_within_a_minute_are_counted_in_a_line():
    repeats = Repeats()
    assert [repeats.passes(record("refused: %s", "192.0.2.1"), now) for now in (0, 1, 59.9)] == [True, False, False]
    assert repeats.due(59.9) == []
    assert said(repeats.due(60)) == ["refused: 192.0.2.1 (2 more times within a minute)"]
    assert repeats.is_idle
    assert repeats.passes(record("refused: %s", "192.0.2.1"), 60)
    repeats = Repeats()
    assert repeats.passes(record("stopped"), 0)
    assert not repeats.is_idle
    assert repeats.due(60) == []
    assert repeats.is_idle


def test_no_line_has_a_future_time_when_the_process_ends_within_the_minute():
    repeats = Repeats()
    for _ in range(2):
        repeats.passes(record("refused"), 0)
    (counted,) = repeats.due(math.inf)
    assert counted.created <= time.time()


def test_events_differ_by_logger_template_and_arguments_or_their_subject():
    repeats = Repeats()
    different = [record("a %s", 1), record("a %s", 2), record("b %s", 1), record("a %s", 1, name="tmpmaild.y")]
    assert all(repeats.passes(one, 0) for one in different)
    assert repeats.passes(record("took %d s", 3, about="slow"), 0)
    assert not repeats.passes(record("took %d s", 4, about="slow"), 0)
    assert repeats.passes(record("took %s", ["no hash"]), 0)
    assert not repeats.passes(record("took %s", ["no hash"]), 0)


def test_lines_beyond_a_hundred_a_minute_are_counted():
    repeats = Repeats()
    passed = [repeats.passes(record("refused: %s", number), 0) for number in range(MAX_LINES + 5)]
    assert passed == [True] * MAX_LINES + [False] * 5
    assert said(repeats.due(60)) == ["5 more INFO lines were omitted in the last minute: the limit is 100"]
    assert repeats.is_idle
    assert repeats.passes(record("refused: %s", 0), 60)


@pytest.mark.parametrize("crowd", [logging.INFO, logging.WARNING, logging.ERROR])
@pytest.mark.parametrize("other", [logging.INFO, logging.WARNING, logging.ERROR])
def test_lines_of_one_level_never_displace_lines_of_a_different_level(crowd, other):
    repeats = Repeats()
    for number in range(MAX_LINES + 1):
        repeats.passes(record("crowd: %s", number, level=crowd), 0)
    assert repeats.passes(record("other", level=other), 0) == (crowd != other)


@pytest.mark.parametrize(
    "name", ["inboxes.commands", "webhooks.commands", "host.process", "daemon", "access", "audit", "smtp.connections"]
)
def test_actions_of_operators_are_always_written(name):
    repeats = Repeats()
    for number in range(MAX_LINES + 1):
        repeats.passes(record("refused: %s", number), 0)
    written = [repeats.passes(record("done: %s", number, name=f"tmpmaild.{name}"), 0) for number in range(1000)]
    assert written == [name != "smtp.connections"] * 1000


def test_debug_access_log_and_audit_lines_are_never_counted():
    repeats = Repeats()
    for _ in range(MAX_LINES + 1):
        assert repeats.passes(record("debug", level=logging.DEBUG), 0)
        assert repeats.passes(record("GET / 200", name="tmpmaild.access"), 0)
        assert repeats.passes(record("mail", name="tmpmaild.audit"), 0)
    assert repeats.is_idle


def test_the_loggers_of_operator_actions_belong_to_our_modules():
    assert [
        name for name in logs._OF_OPERATORS if importlib.import_module(f"tmpmaild.{name}").log.name[9:] != name
    ] == []
