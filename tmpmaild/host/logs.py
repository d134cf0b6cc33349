"""Logging: one line per event on standard error, as text or JSON, written by a separate thread.

Lines for the systemd journal have a priority but no timestamp, because the journal adds a timestamp.
"""

import copy
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, Full, Queue
from typing import Final

import msgspec
from msgspec import Struct

from tmpmaild.model import counted

WINDOW_SECONDS: Final = 60.0
MAX_LINES: Final = 100
ACCESS: Final = "tmpmaild.access"
"""The access log, whose records are never treated as repetitions, because each record represents one request."""
AUDIT: Final = "tmpmaild.audit"
"""The audit log, with one line for each address and message; its records are never treated as repetitions either."""

FIELDS: Final = (
    *("event", "client", "session", "code", "limit", "id"),
    *("method", "path", "status", "milliseconds"),  # fields of the access log
    *("audited", "hashes"),  # fields of the audit log
)
"""Fields that callers may pass in ``extra`` for the JSON format, described in docs/operations.md.

Each field always has the same type.
"""

# Loggers whose lines only an operator can cause, by a command, a reload, a start or a stop. These loggers are not
# limited, so lines caused by untrusted clients cannot crowd out their lines.
_OF_OPERATORS: Final = ("daemon", "host.process", "inboxes.commands", "webhooks.commands")
_WITHOUT_BUDGET: Final = frozenset(f"tmpmaild.{name}" for name in _OF_OPERATORS)

# At INFO, aiosmtpd logs every command with its addresses, and asyncio logs nothing of interest to an operator.
_QUIET = ("mail.log", "asyncio", "aiosqlite", "hypercorn.error")
_MAX_WAITING = 5000  # the maximum number of queued records, each of about 1 KB
_STOP_SECONDS = 1.0
_REPORT_EVERY_SECONDS = 1.0
_TEXT = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
_TEXT_OF_JOURNAL = logging.Formatter("%(levelname)s %(name)s: %(message)s")
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}  # sd-daemon(3)
_LEFT_OUT = "%s omitted in the last minute: the limit is %d"


class _Event(Struct):
    """An event in the last minute: the record that was written, and the number of repetitions since then."""

    record: logging.LogRecord
    until: float
    count: int = 0


class _Budget(Struct):
    """The numbers of lines written and omitted in the current minute, for a group of levels."""

    until: float = 0.0
    written: int = 0
    left_out: int = 0


class Repeats:
    """Decides which records are written; ``due``, which must be called regularly, returns summaries of omitted records.

    Two records are the same event if their logger, template and arguments are equal; ``extra={"about": …}`` replaces
    the arguments in this comparison. Records below INFO, and records of the access log and the audit log, are always
    written. Errors, warnings and all other lines (mostly refusals) have separate budgets, so lines caused by untrusted
    clients cannot crowd out other lines. Lines about an operator's actions are not limited. Times are in seconds of a
    monotonic clock.
    """

    def __init__(self) -> None:
        self._events: dict[tuple[str, str, str], _Event] = {}
        self._budgets = {level: _Budget() for level in (logging.INFO, logging.WARNING, logging.ERROR)}

    def passes(self, record: logging.LogRecord, now: float) -> bool:
        """Return whether to write a record; if not, count it."""
        if record.levelno < logging.INFO or record.name in (ACCESS, AUDIT):
            return True
        key = _key(record)
        event = self._events.get(key)
        if event is not None and now < event.until:
            event.count += 1
            return False
        if record.name not in _WITHOUT_BUDGET and not self._take(record.levelno, now):
            return False
        self._events[key] = _Event(record, now + WINDOW_SECONDS)
        return True

    def _take(self, level: int, now: float) -> bool:
        """Use up one line of a level's budget; return False if no line is left."""
        budget = self._budgets[max(known for known in self._budgets if known <= level)]
        if now >= budget.until:
            budget.until, budget.written = now + WINDOW_SECONDS, 0
        if budget.written >= MAX_LINES:
            budget.left_out += 1
            return False
        budget.written += 1
        return True

    def due(self, now: float) -> list[logging.LogRecord]:
        """Return the lines about repeated and omitted records that are now due, each only once."""
        ended = [key for key, event in self._events.items() if event.until <= now]
        lines = list(_counted(self._events.pop(key) for key in ended))
        for level, budget in self._budgets.items():
            if budget.left_out and budget.until <= now:
                lines.append(_left_out(budget.left_out, level))
                budget.left_out = 0
        return lines

    @property
    def is_idle(self) -> bool:
        """Whether ``due`` has nothing to return until the next record arrives."""
        return not self._events and not any(budget.left_out for budget in self._budgets.values())


def _key(record: logging.LogRecord) -> tuple[str, str, str]:
    # Compare by text: two exceptions with the same text are not equal.
    return record.name, str(record.msg), repr(getattr(record, "about", record.args))


def _counted(events: Iterable[_Event]) -> Iterable[logging.LogRecord]:
    for event in events:
        if event.count:
            record = copy.copy(event.record)
            record.msg = f"{event.record.getMessage()} ({counted(event.count, 'more time')} within a minute)"
            record.args = ()
            record.exc_info = record.exc_text = None
            record.created = min(record.created + WINDOW_SECONDS, time.time())  # the process may exit earlier
            record.repeated = event.count
            yield record


def _left_out(count: int, level: int) -> logging.LogRecord:
    lines = f"{counted(count, f'more {logging.getLevelName(level)} line')} {'was' if count == 1 else 'were'}"
    level = max(level, logging.WARNING)
    return logging.LogRecord(__name__, level, __file__, 0, _LEFT_OUT, (lines, MAX_LINES), None)


def is_journal(descriptor: int) -> bool:
    """Return whether a descriptor is connected to the journal, according to JOURNAL_STREAM (systemd.exec(5))."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def with_priority(text: str, level: str) -> str:
    """Return lines for the journal, each prefixed with the priority of a level such as ``ERROR``."""
    return "\n".join(f"<{_PRIORITIES.get(level, 6)}>{line}" for line in text.split("\n"))


class JsonFormatter(logging.Formatter):
    """Formats one JSON object per line: ``time``, ``level``, ``logger``, ``message``, and ``exception`` if any.

    The object also has the ``FIELDS`` that the caller passed, and ``repeated`` in a line that reports repetitions.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        line: dict[str, str | int | float] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text:
            line["exception"] = record.exc_text
        if repeated := getattr(record, "repeated", 0):
            line["repeated"] = repeated
        passed = vars(record)
        line |= {name: passed[name] for name in FIELDS if passed.get(name, "") != ""}
        return msgspec.json.encode({name: _printable(value) for name, value in line.items()}).decode()


def _printable(value: str | float) -> str | float:
    """Escape lone surrogates, which occur in paths that are not UTF-8: JSON cannot represent them."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


class _Lines(logging.Handler):
    """Passes records to a thread that writes them to standard error; drops records that it cannot write in time.

    Repeated records are only counted. The thread writes directly to the descriptor: a blocked write to ``sys.stderr``
    would hold its lock and prevent the interpreter from exiting.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._queue: Queue[logging.LogRecord | None] = Queue(_MAX_WAITING)
        self._repeats = Repeats()  # protected by the handler's lock
        self._dropped = 0
        # Use our own descriptor: if standard error is closed, its number may be reused for a socket.
        self._stderr = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else os.dup(2)
        self.is_journal = is_journal(self._stderr)
        self._thread = threading.Thread(target=self._write_all, name="tmpmaild-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record. The record is formatted later, which is safe because its arguments are our own and immutable.

        An exception is formatted immediately, because its frames would keep whole messages in memory.
        """
        if not self._repeats.passes(record, time.monotonic()):
            return
        if record.exc_info and self.formatter:
            record.exc_text = self.formatter.formatException(record.exc_info)
            record.exc_info = None
        try:
            self._queue.put_nowait(record)
        except Full:
            self._dropped += 1  # protected by the lock that ``handle`` holds

    def stop(self) -> None:
        """Write the queued records, but wait only briefly."""
        with suppress(Full):
            self._queue.put(None, timeout=_STOP_SECONDS)
            self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            os.close(self._stderr)

    def _write_all(self) -> None:
        while True:
            try:
                record = self._queue.get(timeout=None if self._repeats.is_idle else _REPORT_EVERY_SECONDS)
            except Empty:
                self._write_repeated(time.monotonic())
                continue
            if record is None:
                break
            self._write(record)
            self._write_repeated(time.monotonic())
            self._report_dropped()
        self._write_repeated(math.inf)
        self._report_dropped()

    def _write_repeated(self, now: float) -> None:
        with self.lock or nullcontext():
            records = self._repeats.due(now)
        for record in records:
            self._write(record)

    def _report_dropped(self) -> None:
        with self.lock or nullcontext():
            dropped, self._dropped = self._dropped, 0
        if dropped:
            text = "%s of the log %s dropped: standard error did not accept them in time"
            arguments = (counted(dropped, "line"), "was" if dropped == 1 else "were")
            record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, arguments, None)
            self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            text = with_priority(text, record.levelname) if self.is_journal else text
            line = (text + "\n").encode(errors="backslashreplace")
            while line:
                line = line[os.write(self._stderr, line) :]
        except Exception:  # noqa: BLE001 - a line that cannot be written must not stop the thread
            with self.lock or nullcontext():
                self._dropped += record.name != __name__


def set_up(level: str, log_format: str) -> None:
    """Set the level and the format of the log."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        if isinstance(handler, _Lines):
            text = _TEXT_OF_JOURNAL if handler.is_journal else _TEXT
            handler.setFormatter(JsonFormatter() if log_format == "json" else text)


@contextmanager
def logging_to_stderr(level: str, log_format: str) -> Iterator[None]:
    """Set up logging, and write the remaining records on exit. A slow reader of stderr never blocks the loop."""
    lines = _Lines(_TEXT)
    logging.getLogger().handlers = [lines]
    set_up(level, log_format)
    for name in (ACCESS, AUDIT):
        logging.getLogger(name).setLevel(logging.INFO)  # log.access and log.audit decide whether records are created
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        lines.stop()
