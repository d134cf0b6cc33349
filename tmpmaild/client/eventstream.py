"""Server-Sent Events, octets in and events out (HTML standard, section 9.2.6); not what an event means."""

import codecs
import re

from msgspec import Struct

_line_end = re.compile(r"\r\n|\n|\r")


class ServerSentEvent(Struct, frozen=True):
    """One event; ``id`` is None where the event itself has none."""

    name: str
    data: str
    id: str | None


class EventStreamParser:
    """Takes a stream in pieces, however they were cut. What is not complete when it ends was never sent."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._ended_in_cr = False
        self._line: list[str] = []
        self._data: list[str] = []
        self._name = ""
        self._id: str | None = None
        self.retry_ms: int | None = None

    def feed(self, octets: bytes) -> list[ServerSentEvent]:
        """Take a piece, and return the events it completes."""
        text = self._decoder.decode(octets)
        if self._ended_in_cr and text:
            text = text.removeprefix("\n")
            self._ended_in_cr = False
        if not text:
            return []
        self._ended_in_cr = text.endswith("\r")
        first, *others = _line_end.split(text)
        self._line.append(first)
        events = []
        for begun in others:
            events += self._take_line("".join(self._line))
            self._line = [begun]
        return events

    def _take_line(self, line: str) -> list[ServerSentEvent]:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if re.fullmatch("[0-9]{1,9}", value):
                self.retry_ms = int(value)
        return []

    def _dispatch(self) -> list[ServerSentEvent]:
        event = ServerSentEvent(self._name or "message", "\n".join(self._data), self._id)
        has_data = bool(self._data)
        self._name, self._data, self._id = "", [], None
        return [event] if has_data else []
