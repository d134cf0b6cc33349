"""How the process logs: one line an event on standard error, as text or JSON, written by a thread of its own."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue

import msgspec

# aiosmtpd logs every command with its addresses at INFO, and asyncio is of no interest to an operator.
_QUIET = ("mail.log", "asyncio", "aiosqlite", "hypercorn.error")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, and ``exception`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class _RawQueueHandler(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # The stock one formats here, which would hide the exception from JSON. Arguments are ours and immutable.
        return record


@contextmanager
def logging_to_stderr(level: str, log_format: str) -> Iterator[None]:
    """Set logging up, and write out what is left when done. A slow reader of stderr never holds the event loop."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
    listener = QueueListener(queue, handler)
    root = logging.getLogger()
    root.handlers = [_RawQueueHandler(queue)]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
