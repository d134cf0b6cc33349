"""The events of an inbox, parsed from a stream (WHATWG HTML §9.2) that reconnects."""

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from tmpmaild.client.errors import TEMPORARY, AddressExpired, NotTmpmaild, ServiceUnreachable, TmpmaildError
from tmpmaild.client.models import Deletion, Extension, Message
from tmpmaild.client.remote import Feature, RemoteInbox, not_tmpmaild
from tmpmaild.client.transport import ReadStream, Reply, Request, Sleep, Steps

M = TypeVar("M")

_SILENCE_SECONDS = 45  # more than five of the server's heartbeat intervals
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10
_GIVE_UP_SECONDS = 60
_line_end = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Arrived(Generic[M]):
    """A message arrived."""

    mail: M


@dataclass(frozen=True)
class Deleted:
    """A message was deleted. Without an id, the address was deleted, and this is the last event."""

    message_id: str | None = None


@dataclass(frozen=True)
class Extended:
    """The address has a new expiry, which may be earlier."""

    expires_at: datetime


@dataclass(frozen=True)
class Expired:
    """The address expired, or was deleted while disconnected; this is the last event."""


class ServerSentEvent(Struct, frozen=True):
    """An event; ``id`` is None if the event has no id."""

    name: str
    data: str
    id: str | None


Event: TypeAlias = Arrived[M] | Deleted | Extended | Expired
Decoded: TypeAlias = tuple[ServerSentEvent, Event[Message] | None]
"""An event as the service sent it, and its value; None for events without a value, such as unknown events."""
Missed: TypeAlias = Callable[[], Steps[Iterable[ServerSentEvent]]]
"""Requests the events that were missed while disconnected."""


class ReconnectingStream:
    """The event stream of an inbox, which reconnects when its connection breaks.

    Every message is returned once. Other events are lost while disconnected, except events that ``missed`` returns
    after reconnecting. After a minute without a connection, the error of the last attempt is raised.
    """

    def __init__(
        self, inbox: RemoteInbox, after: str | None, has: Sequence[Feature] = (), missed: Missed | None = None
    ) -> None:
        self._inbox = inbox
        self._has = has
        self._missed = missed
        self._clock = inbox.service.clock
        self._after = after
        self._last_id: str | None = None
        self._stream: Request | None = None  # None while disconnected
        self._parser = EventStreamParser()
        self._events: deque[Decoded] = deque()
        self._has_begun = False
        self._has_ended = False
        self._opened_at = 0.0
        self._failing_since: float | None = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._retry_seconds: float = _LONGEST_PAUSE_SECONDS

    def next(self) -> Steps[Event[Message] | None]:
        """Return the next event with a value, or None after the last event. Raises the errors of ``next_decoded``."""
        while (decoded := (yield from self.next_decoded())) is not None:
            if decoded[1] is not None:
                return decoded[1]
        return None

    def next_decoded(self) -> Steps[Decoded | None]:
        """Return the next event, or None after the last event.

        Raises the errors of a request, such as ``AddressNotFound`` if the service no longer knows the address.
        """
        while not self._events and not self._has_ended:
            if self._stream is None:
                yield from self._connect()
            else:
                yield from self._read(self._stream)
        return self._events.popleft() if self._events else None

    def _connect(self) -> Steps[None]:
        if self._has_begun:
            yield Sleep(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, self._retry_seconds)
        request = self._inbox.events_request(self._after, self._last_id, self._has, _SILENCE_SECONDS)
        try:
            reply = yield from self._inbox.service.open_stream(request)
            # The stream only contains new events. If this request fails, retry both the connection and the request.
            missed = (yield from self._missed()) if self._has_begun and self._missed else ()
            self._begin(reply)
            for event in missed:
                self._queue(event)
        except AddressExpired:
            if not self._has_begun:
                raise
            self._queue(ServerSentEvent("expired", "{}", None))
        except (ServiceUnreachable, *TEMPORARY) as error:
            if not self._has_begun:
                raise
            self._plan_retry(error)

    def _begin(self, reply: Reply) -> None:
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            raise not_tmpmaild(reply)
        self._has_begun = True
        self._opened_at = self._clock()
        self._stream = reply.request
        self._parser = EventStreamParser()

    def _plan_retry(self, error: TmpmaildError) -> None:
        """Schedule another attempt; raise the error if attempts have been failing for a minute."""
        now = self._clock()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since >= _GIVE_UP_SECONDS:
            raise error
        retry_after_seconds = getattr(error, "retry_after_seconds", None) or 0
        self._pause_seconds = max(self._pause_seconds, min(retry_after_seconds, _GIVE_UP_SECONDS))

    def _read(self, stream: Request) -> Steps[None]:
        try:
            chunk = yield ReadStream(stream)
        except ServiceUnreachable:
            chunk = b""
        if not chunk:
            self._stream = None
            return
        self._failing_since = None
        if self._clock() - self._opened_at >= _LONGEST_PAUSE_SECONDS:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
        for event in self._parser.feed(chunk):
            self._take(event)
        if self._parser.retry_ms is not None:
            self._retry_seconds = max(self._parser.retry_ms / 1000, _FIRST_PAUSE_SECONDS)

    def _take(self, event: ServerSentEvent) -> None:
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        try:
            self._queue(event)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotTmpmaild(f"{self._inbox.service.url} sent an unexpected event {event.name!r}") from error

    def _queue(self, event: ServerSentEvent) -> None:
        """Queue an event, unless it repeats an earlier message; ids sort by arrival."""
        value: Event[Message] | None = None
        match event.name:
            case "message":
                message = msgspec.json.decode(event.data, type=Message)
                if message.id <= (self._last_id or self._after or ""):
                    return
                self._last_id, value = message.id, Arrived(message)
            case "deleted":
                value = Deleted(msgspec.json.decode(event.data, type=Deletion).id)
            case "extended":
                value = Extended(msgspec.json.decode(event.data, type=Extension).expires_at)
            case "expired":
                value = Expired()
        self._has_ended |= value in (Deleted(), Expired())
        self._events.append((event, value))


class EventStreamParser:
    """Parses a stream in chunks of any size. An event that is incomplete when the stream ends is discarded."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._ended_in_cr = False
        self._line: list[str] = []
        self._data: list[str] = []
        self._name = ""
        self._id: str | None = None
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Parse a chunk, and return the events that it completes."""
        text = self._decoder.decode(chunk)
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
