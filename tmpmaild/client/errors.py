"""The hierarchy of the client's errors, and the message excerpts that they show.

    TmpmaildError
    ├── ServiceUnreachable    no response
    │   └── ConnectionLost    the request was sent, but no response from the service arrived
    ├── NotTmpmaild           a response arrived, but not from tmpmaild
    ├── WaitTimeout           (also a TimeoutError) the message did not arrive in time; lists other messages
    ├── UnexpectedMail        (also an AssertionError) an unexpected message arrived; lists it
    ├── NotAuthenticated      (also an AssertionError) the domain is not the verified sender; gives the reason
    ├── NotInMail             (also a LookupError) the message has no such code, link or attachment; shows its text
    └── Problem               the service refused the request; has a subclass for each ``code`` that callers can get

Error texts may be printed on a terminal, so control characters in text from a server are replaced.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from tmpmaild.client.models import Message

_MAX_CHARACTERS = 200
_MAX_EXCERPT_LINES = 15
_MAX_EXCERPT_MAILS = 3
_UNSAFE = re.compile(  # control characters, line and paragraph separators, bidirectional controls, lone surrogates
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class FieldError(Struct, frozen=True):
    """An invalid part of a request; ``pointer`` is a JSON pointer or the name of a parameter."""

    pointer: str = ""
    detail: str = ""

    def __str__(self) -> str:
        name = self.pointer.strip("/").replace("/", ".")
        return f"{name}: {self.detail}" if name else self.detail


class TmpmaildError(Exception):
    """The base class of all errors of the client."""


class ServiceUnreachable(TmpmaildError):
    """The URL did not respond: connection refused, unknown host, TLS error or connection timeout."""


class ConnectionLost(ServiceUnreachable):
    """The connection or a proxy failed after the request was sent; the request may or may not have been carried out."""


class NotTmpmaild(TmpmaildError):
    """The response did not come from this API: the URL is wrong or points to a different server."""


class WaitTimeout(TmpmaildError, TimeoutError):
    """No matching message arrived in time.

    ``arrived`` contains the messages that arrived instead, oldest first. If listing them failed, ``arrived`` contains
    the messages received so far.
    """

    def __init__(self, message: str, *, arrived: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.arrived = tuple(arrived)


class UnexpectedMail(TmpmaildError, AssertionError):
    """An unexpected message arrived."""


class NotAuthenticated(TmpmaildError, AssertionError):
    """The domain is not the verified sender of the message. The error text gives the reason and the DNS answers."""


class NotInMail(TmpmaildError, LookupError):
    """The message has no such code, link or attachment. The error shows the beginning of the message's text."""


class Problem(TmpmaildError):
    """The service refused the request (RFC 9457). Problems whose code has no subclass below raise this class.

    ``status`` is the HTTP status, ``code`` is the problem's stable name, and ``detail`` is its description for people.
    ``errors`` lists the invalid parts of a request. ``retry_after_seconds`` is None if the server did not send
    Retry-After.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        errors: Sequence[FieldError] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        # The errors of the individual parts are more specific than the detail.
        text = "; ".join(map(str, self.errors)) or self.detail or self.code
        return f"{printable(text.rstrip('.'), 10 * _MAX_CHARACTERS)} ({self.status} {self.code})"


class BadHost(Problem):
    """The service does not accept the host name in the URL (``http.allowed_hosts``)."""


class Unauthorized(Problem):
    """The request needs a token."""


class AddressNotFound(Problem):
    """The address does not exist, or the token is not valid for it."""


class MessageNotFound(Problem):
    """The inbox has no message with this id, or the message has no such attachment."""


class NotFound(Problem):
    """The path does not exist, or its feature is disabled on this service."""


class CatchAllOff(Problem):
    """The service does not catch all mail (``tmpmaild catch``, ``serve --for-tests --catch-all``)."""


class Blocked(Problem):
    """The operator has blocked this client."""


class WebhooksOff(Problem):
    """The operator does not allow webhooks (``webhooks.allow``)."""


class AddressTaken(Problem):
    """The address is in use, or was in use in the last 24 hours."""


class AddressExpired(Problem):
    """The address expired, or its owner deleted it."""


class InvalidRequest(Problem):
    """A value in the request is not allowed; ``errors`` lists the invalid values."""


class RateLimited(Problem):
    """The client sent too many requests; the next request is allowed after ``retry_after_seconds``."""


class TooManyStreams(Problem):
    """The client has as many open waits and streams as the server allows; a wait or a stream must be closed first."""


class InternalError(Problem):
    """An internal error of the server; ``detail`` contains its id in the server's log."""


class Busy(Problem):
    """The server is sending as many large responses as it can; try again later."""


class StorageFull(Problem):
    """The server's storage is full at the moment."""


class StorageUnavailable(Problem):
    """The server's database did not respond; trying again later may help."""


class Stopping(Problem):
    """The server is stopping."""


def printable(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    """Return text as one line for a terminal: control characters and line breaks are replaced with U+FFFD."""
    line = _UNSAFE.sub("\ufffd", text[:max_characters])
    return line if len(text) <= max_characters else line + "…"


def _code(kind: type[Problem]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


PROBLEMS: dict[str, type[Problem]] = {_code(kind): kind for kind in Problem.__subclasses__()}
"""The exception class for each problem code of the API."""


TEMPORARY = (RateLimited, TooManyStreams, Busy, StorageUnavailable, Stopping)
"""Problems after which a request can be retried."""


def heading(received_at: datetime, sender: str, subject: str) -> str:
    """Return one line with the time, the sender and the subject of a message."""
    time = received_at.isoformat(sep=" ", timespec="seconds")
    return f"{time}  {printable(sender) or 'unknown sender'}  {printable(subject) or '(no subject)'}"


def beginning(text: str) -> Iterator[str]:
    """Yield the first nonempty lines of a text, each preceded by a bar; an ellipsis follows if there is more text."""
    lines = [line for line in text[: _MAX_EXCERPT_LINES * _MAX_CHARACTERS].split("\n") if line.strip()]
    yield from (f"  | {printable(line)}" for line in lines[:_MAX_EXCERPT_LINES])
    if len(lines) > _MAX_EXCERPT_LINES or len(text) > _MAX_EXCERPT_LINES * _MAX_CHARACTERS:
        yield "  | …"


def listing(
    messages: Sequence[Message], *, with_text: bool, notes: Callable[[Message], Iterable[str]] = lambda _message: ()
) -> str:
    """Return one line for each message and for each of its notes; every line starts with a line break.

    ``with_text`` adds the beginning of the text of the newest messages.
    """
    lines: list[str] = []
    for number, message in enumerate(messages):
        lines.append(f"  {heading(message.received_at, message.sender, message.subject)}")
        lines += [f"    {note}" for note in notes(message)]
        if with_text and number >= len(messages) - _MAX_EXCERPT_MAILS:
            lines += beginning(message.text)
    return "".join(f"\n{line}" for line in lines)
