"""The streams of a command: lines out at once, lines of trouble, and what is at the other end."""

import os
import select
import shutil
import sys
from typing import TextIO

from tmpmaild.terminal import shown

_SMALLEST_COLUMNS = 20
_LARGEST_COLUMNS = 100  # longer lines are hard to read


def say(line: str) -> None:
    """Write a line to standard output, now. It must be harmless already."""
    write(line + "\n")


def write(text: str) -> None:
    """Write harmless text as it is."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """Write lines to standard error, made harmless."""
    harmless = shown(text, keep="\n")
    _write(sys.stderr, f"tmpmaild: {harmless}\n")


def _write(stream: TextIO, text: str) -> None:
    stream.buffer.write(text.encode(stream.encoding, "replace"))
    stream.buffer.flush()


def is_terminal() -> bool:
    """Tell whether somebody looks on who can be shown a countdown."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_colours() -> bool:
    """Tell whether text may be bold or coloured (no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def columns() -> int:
    """Return how wide to write."""
    return max(_SMALLEST_COLUMNS, min(shutil.get_terminal_size().columns, _LARGEST_COLUMNS))


def reader_is_gone() -> bool:
    """Tell whether standard output is a pipe that nobody reads any more, as behind ``head -1``."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a stream in memory
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def forget_output() -> None:
    """Let nothing fail any more that is still written to standard output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
