"""Writes to a command's standard output and standard error, and makes text safe and short enough for a terminal."""

import errno
import os
import select
import shutil
import stat
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_SMALLEST_COLUMNS = 20
_LARGEST_COLUMNS = 100  # longer lines are hard to read
# Control characters, bidirectional marks, surrogates, line separators (UAX #44, table 12).
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # characters of category Cf that emoji and Persian need
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
_CHARACTERS_PER_COLUMN = 4  # a letter may be followed by any number of combining marks


def say(line: str) -> None:
    """Write a line to standard output and flush. The line must not contain control characters (see ``shown``)."""
    write(line + "\n")


def write(text: str) -> None:
    """Write text without control characters to standard output and flush."""
    _write(sys.stdout, text)


def print_to_stderr(text: str) -> None:
    """Write lines to standard error, without control characters; failures to write are ignored."""
    if _is_closed(sys.stderr):
        return
    harmless = shown(text, keep="\n")
    try:
        _write(sys.stderr, f"tmpmaild: {harmless}\n")
    except OSError:
        _forget(sys.stderr)


def _write(stream: TextIO, text: str) -> None:
    stream.buffer.write(text.encode(stream.encoding, "replace"))
    stream.buffer.flush()


def expect_output() -> None:
    """Raise OSError if standard output is closed, for example by ``>&-``."""
    if _is_closed(sys.stdout):
        raise OSError(errno.EBADF, "standard output is closed")


@contextmanager
def output(exit_code: int) -> Iterator[None]:
    """Wrap code that writes to standard output; if writing fails, print the reason and exit with the given code."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        print_to_stderr(f"cannot write: {error.strerror or error}")
        forget_output()
        sys.exit(exit_code)


def encoding() -> str:
    """Return the encoding of standard output."""
    return "utf-8" if _is_closed(sys.stdout) else sys.stdout.encoding


def _is_closed(stream: TextIO | None) -> bool:
    return stream is None  # None is possible at run time, despite the type


def is_terminal() -> bool:
    """Return whether standard output is a terminal that can show a countdown."""
    return not _is_closed(sys.stdout) and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def can_prompt() -> bool:
    """Return whether a terminal is available for prompting the user."""
    return not _is_closed(sys.stdin) and sys.stdin.isatty() and not _is_closed(sys.stderr)


def is_stderr_visible() -> bool:
    """Return whether standard error is a terminal."""
    return not _is_closed(sys.stderr) and sys.stderr.isatty()


def has_colours() -> bool:
    """Return whether output may be bold or coloured (no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def columns() -> int:
    """Return the maximum width of text, in columns."""
    return max(_SMALLEST_COLUMNS, min(shutil.get_terminal_size().columns, _LARGEST_COLUMNS))


def reader_is_gone() -> bool:
    """Return whether standard output is a pipe whose reader has exited, for example ``head -1``."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # an in-memory stream
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def is_hang_up(error: OSError) -> bool:
    """Return whether standard output was a terminal that has since been closed (for which ``isatty`` returns False)."""
    return error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)


def forget_output() -> None:
    """Discard any further output to standard output."""
    if not _is_closed(sys.stdout):
        _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def shown(text: str, keep: str = "") -> str:
    """Replace characters that move the cursor, change the terminal's state or hide other text with U+FFFD."""
    unshown = {
        ord(character): "\ufffd"
        for character in set(text) - set(keep + _JOINERS)
        if unicodedata.category(character) in _UNSHOWN
    }
    return text.translate(unshown)


def width(text: str) -> int:
    """Count the columns that a text occupies on a terminal (UAX #11)."""
    return sum(map(_columns, text))


def cut(text: str, columns: int) -> str:
    """Shorten a text to at most ``columns``, ending in an ellipsis if it was cut."""
    return text if _fitting(text, columns) == len(text) else text[: _fitting(text, columns - 1)] + "…"


def wrapped(line: str, columns: int) -> Iterator[str]:
    """Break a line into pieces of at most ``columns`` (2 or more), between words if possible."""
    while (fitting := _fitting(line, columns)) < len(line):
        at = line.rfind(" ", 0, fitting + 1)
        at = at if at > 0 else fitting
        yield line[:at].rstrip()
        line = line[at:].lstrip()
    yield line


def _fitting(text: str, columns: int) -> int:
    """Count the leading characters that fit into ``columns``."""
    left = columns
    for index, character in enumerate(text):
        left -= _columns(character)
        if left < 0 or index == columns * _CHARACTERS_PER_COLUMN:
            return index
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
