"""What errors and reports show of a mail: a line about it and the beginning of its text, bounded and safe to print."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from tmpmaild.client.errors import printable
from tmpmaild.client.wire import Message

_MAX_LINES = 15
_MAX_CHARACTERS = 200
_MAX_MAILS = 3


class Headed(Protocol):
    """A mail, as any module has it."""

    @property
    def received_at(self) -> datetime:
        """When it came."""

    @property
    def sender(self) -> str:
        """Its sender's address."""

    @property
    def subject(self) -> str:
        """Its subject."""


def heading(message: Headed) -> str:
    """Return one line: when it came, from whom, about what."""
    time = message.received_at.isoformat(sep=" ", timespec="seconds")
    return f"{time}  {printable(message.sender) or 'unknown sender'}  {printable(message.subject) or '(no subject)'}"


def beginning(text: str) -> Iterator[str]:
    """Yield the first lines of a text that are not empty, each after a bar; the last says if there is more."""
    lines = [line for line in text[: _MAX_LINES * _MAX_CHARACTERS].split("\n") if line.strip()]
    yield from (f"  | {printable(line)}" for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES or len(text) > _MAX_LINES * _MAX_CHARACTERS:
        yield "  | …"


def listing(messages: Sequence[Message], *, with_text: bool) -> str:
    """Return a line for each mail, with a line end before it; with the texts of the newest ones on demand."""
    lines: list[str] = []
    for number, message in enumerate(messages):
        lines.append(f"  {heading(message)}")
        if with_text and number >= len(messages) - _MAX_MAILS:
            lines += beginning(message.text)
    return "".join(f"\n{line}" for line in lines)
