"""Keeps repeated log lines few: each event once a minute, and a bounded number of lines a minute in all. No I/O.

A hostile client must not fill the disk with lines about itself, and a full disk must not be told 2,000 times a second.
"""

import copy
import logging
import time
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tmpmaild.counted import counted

WINDOW_SECONDS: Final = 60.0
MAX_LINES: Final = 100
ACCESS: Final = "tmpmaild.access"
"""Its records are not events: one for each request is what an operator who switches it on wants."""

_LEFT_OUT = "%s left out in the last minute: there were over %d"


class _Event(Struct):
    """An event of the last minute: the record that was written, and how often it has been repeated since."""

    record: logging.LogRecord
    until: float
    count: int = 0


class _Budget:
    """The lines that one group of levels may still write in the current minute."""

    def __init__(self) -> None:
        self.until = 0.0
        self.written = 0
        self.left_out = 0


class Repeats:
    """Decides which records are written; the caller asks ``due`` regularly for the lines that say how many were not.

    Two records are the same event when their logger, their template and their arguments are, or what they carry in
    ``extra={"about": …}`` in place of the arguments. Records below INFO and those of the access log always pass. Errors
    have a budget of their own, so that harmless lines cannot crowd them out. Times are seconds that never step.
    """

    def __init__(self) -> None:
        self._events: dict[tuple[str, str, str], _Event] = {}
        self._budgets = {False: _Budget(), True: _Budget()}

    def passes(self, record: logging.LogRecord, now: float) -> bool:
        """Return whether to write a record; count it if not."""
        if record.levelno < logging.INFO or record.name == ACCESS:
            return True
        key = _key(record)
        event = self._events.get(key)
        if event is not None and now < event.until:
            event.count += 1
            return False
        budget = self._budgets[record.levelno >= logging.ERROR]
        if now >= budget.until:
            budget.until, budget.written = now + WINDOW_SECONDS, 0
        if budget.written >= MAX_LINES:
            budget.left_out += 1
            return False
        budget.written += 1
        self._events[key] = _Event(record, now + WINDOW_SECONDS)
        return True

    def due(self, now: float) -> list[logging.LogRecord]:
        """Return the lines that are due about what was counted, each once."""
        ended = [key for key, event in self._events.items() if event.until <= now]
        lines = list(_counted(self._events.pop(key) for key in ended))
        for is_error, budget in self._budgets.items():
            if budget.left_out and budget.until <= now:
                lines.append(_left_out(budget.left_out, is_error=is_error))
                budget.left_out = 0
        return lines

    @property
    def is_idle(self) -> bool:
        """Whether ``due`` has nothing to return, now or later, until another record comes."""
        return not self._events and not any(budget.left_out for budget in self._budgets.values())


def _key(record: logging.LogRecord) -> tuple[str, str, str]:
    # By their text: two exceptions that say the same are not equal.
    return record.name, str(record.msg), repr(getattr(record, "about", record.args))


def _counted(events: Iterable[_Event]) -> Iterable[logging.LogRecord]:
    for event in events:
        if event.count:
            record = copy.copy(event.record)
            record.msg = f"{event.record.getMessage()} ({counted(event.count, 'more time')} within a minute)"
            record.args = ()
            record.exc_info = record.exc_text = None
            record.created = min(record.created + WINDOW_SECONDS, time.time())  # the process may end before that
            record.repeated = event.count
            yield record


def _left_out(count: int, *, is_error: bool) -> logging.LogRecord:
    level = logging.ERROR if is_error else logging.WARNING
    lines = f"{counted(count, 'more line')} {'was' if count == 1 else 'were'}"
    return logging.LogRecord(__name__, level, __file__, 0, _LEFT_OUT, (lines, MAX_LINES), None)
