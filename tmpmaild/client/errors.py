"""Every error the client raises on purpose, as one tree, and what is shown of mails; ``remote.py`` chooses the error.

    TmpmaildError
    ├── ServiceUnreachable    no answer
    │   └── ConnectionLost    the request went out, and no answer of the service came back
    ├── NotTmpmaild           there was an answer, but not one of tmpmaild
    ├── WaitTimeout           (a TimeoutError too) the mail did not come in time; says which did
    ├── UnexpectedMail        (an AssertionError too) a mail came that was not to come; says which
    ├── NotInMail             (a LookupError too) the mail has no such code, link or attachment; shows its text
    └── Problem               the service refused; one class below it for each ``code`` that a caller can meet

Text of a server is in a message only with its control characters replaced: it may be printed on a terminal.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from tmpmaild.client.models import Message

_MAX_CHARACTERS = 200
_MAX_EXCERPT_LINES = 15
_MAX_EXCERPT_MAILS = 3
_UNSAFE = re.compile(  # control characters, ends of lines and paragraphs, bidirectional controls, lone surrogates
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class FieldError(Struct, frozen=True):
    """One part of a request that was not as expected; ``pointer`` is a JSON pointer or a parameter's name."""

    pointer: str = ""
    detail: str = ""

    def __str__(self) -> str:
        name = self.pointer.strip("/").replace("/", ".")
        return f"{name}: {self.detail}" if name else self.detail


class TmpmaildError(Exception):
    """Base of everything below."""


class ServiceUnreachable(TmpmaildError):
    """No answer at the URL: connection refused, no such host, a TLS error, no connection in time."""


class ConnectionLost(ServiceUnreachable):
    """The request went out, and then the connection or a proxy gave up; whether it was carried out is not known."""


class NotTmpmaild(TmpmaildError):
    """The answer is not one of this API: the URL is wrong, or it is another server."""


class WaitTimeout(TmpmaildError, TimeoutError):
    """No matching mail came in time.

    ``arrived`` holds what did come instead, oldest first; if listing them failed too, those seen until then.
    """

    def __init__(self, message: str, *, arrived: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.arrived = tuple(arrived)


class UnexpectedMail(TmpmaildError, AssertionError):
    """A mail came although none was to come."""


class NotAuthenticated(TmpmaildError, AssertionError):
    """It is not proven that the mail is from a domain. The message says why, with the DNS answers."""


class NotInMail(TmpmaildError, LookupError):
    """The mail has no such code, link or attachment. The message shows the beginning of its text."""


class Problem(TmpmaildError):
    """The service refused (RFC 9457). A code without a class below is of this class itself.

    ``status`` is the HTTP status, ``code`` the stable name, ``detail`` is for people, ``errors`` says which parts of an
    invalid request were wrong, ``retry_after_seconds`` is None where the server did not say.
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
        # What is wrong with each part says more than that something is.
        text = "; ".join(map(str, self.errors)) or self.detail or self.code
        return f"{printable(text.rstrip('.'), 10 * _MAX_CHARACTERS)} ({self.status} {self.code})"


class BadHost(Problem):
    """The server is not served under the name in the URL (``http.allowed_hosts``)."""


class Unauthorized(Problem):
    """A token is needed and none was given."""


class AddressNotFound(Problem):
    """There is no such address, or not for this token."""


class MessageNotFound(Problem):
    """The inbox holds no message with that id, or the message no such attachment."""


class NotFound(Problem):
    """The path is not known, or what it serves is switched off there."""


class CatchAllOff(Problem):
    """The service does not catch all mail (``tmpmaild catch``, ``serve --for-tests --catch-all``)."""


class Blocked(Problem):
    """The operator has blocked this client."""


class WebhooksOff(Problem):
    """The operator allows no webhooks (``webhooks.allow``)."""


class AddressTaken(Problem):
    """The name is in use, or was in the last 24 hours."""


class AddressExpired(Problem):
    """The address expired, or its owner deleted it."""


class InvalidRequest(Problem):
    """A value in the request is not allowed; ``errors`` says which."""


class RateLimited(Problem):
    """Too many requests; ``retry_after_seconds`` until the next one may pass."""


class TooManyStreams(Problem):
    """One machine waits and follows as often as the server allows; one must end first."""


class InternalError(Problem):
    """A fault of the server; ``detail`` has the id that finds it in its log."""


class Busy(Problem):
    """The server sends as many large answers as it can; asking again helps."""


class StorageFull(Problem):
    """The server has no room at the moment."""


class StorageUnavailable(Problem):
    """The server's database did not answer; asking again may help."""


class Stopping(Problem):
    """The server is stopping."""


def printable(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    """Return a line for a terminal: control characters and line ends are shown as U+FFFD."""
    line = _UNSAFE.sub("\ufffd", text[:max_characters])
    return line if len(text) <= max_characters else line + "…"


def _code(kind: type[Problem]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


PROBLEMS: dict[str, type[Problem]] = {_code(kind): kind for kind in Problem.__subclasses__()}
"""The class of each code of the API."""


TEMPORARY = (RateLimited, TooManyStreams, Busy, StorageUnavailable, Stopping)
"""Problems after which asking again helps."""


def heading(received_at: datetime, sender: str, subject: str) -> str:
    """Return one line: when a mail came, from whom, about what."""
    time = received_at.isoformat(sep=" ", timespec="seconds")
    return f"{time}  {printable(sender) or 'unknown sender'}  {printable(subject) or '(no subject)'}"


def beginning(text: str) -> Iterator[str]:
    """Yield the first lines of a text that are not empty, each after a bar; the last says if there is more."""
    lines = [line for line in text[: _MAX_EXCERPT_LINES * _MAX_CHARACTERS].split("\n") if line.strip()]
    yield from (f"  | {printable(line)}" for line in lines[:_MAX_EXCERPT_LINES])
    if len(lines) > _MAX_EXCERPT_LINES or len(text) > _MAX_EXCERPT_LINES * _MAX_CHARACTERS:
        yield "  | …"


def listing(
    messages: Sequence[Message], *, with_text: bool, notes: Callable[[Message], Iterable[str]] = lambda _message: ()
) -> str:
    """Return a line for each message and each of its notes, with a line end before it.

    On demand with the texts of the newest messages.
    """
    lines: list[str] = []
    for number, message in enumerate(messages):
        lines.append(f"  {heading(message.received_at, message.sender, message.subject)}")
        lines += [f"    {note}" for note in notes(message)]
        if with_text and number >= len(messages) - _MAX_EXCERPT_MAILS:
            lines += beginning(message.text)
    return "".join(f"\n{line}" for line in lines)
