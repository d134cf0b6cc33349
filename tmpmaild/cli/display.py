"""Displays the events of an inbox: for a person at a terminal, as plain lines, or as JSON."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import msgspec

from tmpmaild.cli import console
from tmpmaild.cli.console import cut, shown, wrapped
from tmpmaild.client import Arrived, Deleted, Event, Expired, Extended, Message
from tmpmaild.client.remote import RemoteInbox
from tmpmaild.model import counted, rfc3339

_TEXT_LINES = 6
_ATTACHMENTS = 6
_TEXT_CHARACTERS = 4000
_ERASE_LINE = "\r\x1b[K"
_BOLD, _BOLD_GREEN, _DIM, _PLAIN = "\x1b[1m", "\x1b[1;32m", "\x1b[2m", "\x1b[0m"


class Display:
    """Displays one inbox. All methods may raise ``BrokenPipeError`` when the reader of the output has exited."""

    def begin(self, inbox: RemoteInbox, *, shows_token: bool = False, deletes_at_the_end: bool = False) -> None:
        """Show the inbox; JSON always includes the token, and text includes it only with ``shows_token``."""
        raise NotImplementedError

    def show(self, event: Event[Message]) -> None:
        """Show an event."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Write a message from the command to standard error."""
        console.print_to_stderr(text)

    def tick(self) -> None:
        """Run the once-per-second tasks; raise ``BrokenPipeError`` if the reader of the output has exited."""
        if console.reader_is_gone():
            raise BrokenPipeError

    def end(self) -> None:
        """Restore the terminal, if the output is a terminal."""


def fitting_display(*, as_json: bool) -> Display:
    """Return the display to use: JSON if requested, else a terminal or plain text, depending on standard output."""
    if as_json:
        return JsonLines()
    return Terminal() if console.is_terminal() else PlainLines()


class JsonLines(Display):
    """JSON with one object per line; the first object is the address."""

    def begin(self, inbox: RemoteInbox, *, shows_token: bool = False, deletes_at_the_end: bool = False) -> None:  # noqa: ARG002
        """Print the address."""
        members = {"address": inbox.address, "expires_at": timestamp(inbox.expires_at), "token": inbox.token}
        if inbox.webhook_secret:
            members["webhook_secret"] = inbox.webhook_secret
        console.say(json_line({"event": "address", **members}))

    def show(self, event: Event[Message]) -> None:
        """Print an event."""
        console.say(json_line(_json_event(event)))


class PlainLines(Display):
    """Plain lines of ``Name: value``, with the text indented and an empty line after each message."""

    def begin(self, inbox: RemoteInbox, *, shows_token: bool = False, deletes_at_the_end: bool = False) -> None:  # noqa: ARG002
        """Print the address on a line of its own, followed by its expiry and its token."""
        console.say(shown(inbox.address))
        console.say(f"Expires: {timestamp(inbox.expires_at)}")
        if shows_token and inbox.token:
            console.say(f"Token: {shown(inbox.token)}")
        if inbox.webhook_secret:
            console.say(f"Secret: {shown(inbox.webhook_secret)}")

    def show(self, event: Event[Message]) -> None:
        """Print an event."""
        match event:
            case Arrived(mail):
                console.write("".join(f"{line}\n" for line in self._lines(mail)) + "\n")
            case Extended(expires_at):
                console.say(f"Expires: {timestamp(expires_at)}")
            case _:
                console.say(_sentence(event))

    def _lines(self, mail: Message) -> Iterator[str]:
        fields = {
            "Code": mail.code,
            "Link": mail.link,
            "From": _sender(mail),
            "Subject": mail.subject,
            "Received": timestamp(mail.received_at),
            "Id": mail.id,
        }
        yield from (f"{name}: {shown(value)}" for name, value in fields.items() if value is not None)
        yield from (f"Attached: {shown(name)}" for name in _attached(mail))
        yield from (f"  {line}" for line in _beginning(mail.text, _TEXT_CHARACTERS))


class Terminal(Display):
    """Output for a person: the code and the link first, and a countdown on the bottom line."""

    def __init__(self) -> None:
        self._expires_at: datetime | None = None
        self._ctrl_c = ""
        self._messages = 0
        self._has_status = False

    def begin(self, inbox: RemoteInbox, *, shows_token: bool = False, deletes_at_the_end: bool = False) -> None:
        """Show the address, the token if requested, and the countdown."""
        self._expires_at = inbox.expires_at
        self._ctrl_c = "ctrl-C: delete" if deletes_at_the_end else "ctrl-C: stop"
        self._say(_styled(shown(inbox.address), _BOLD))
        if shows_token and inbox.token:
            self._say(f"Token    {shown(inbox.token)}")
        if inbox.webhook_secret:
            self._say(f"Secret   {shown(inbox.webhook_secret)}")
        self.tick()

    def show(self, event: Event[Message]) -> None:
        """Show an event above the countdown."""
        match event:
            case Arrived(mail):
                self._messages += 1
                for line in self._lines(mail, console.columns()):
                    self._say(line)
            case Extended(expires_at):
                self._expires_at = expires_at
                self.note(f"Now expires at {_time_of_day(expires_at)}")
            case _:
                self.note(_sentence(event))
        if event in (Expired(), Deleted(None)):
            self._expires_at = None
        self.tick()

    def note(self, text: str) -> None:
        """Show a dimmed message."""
        for line in wrapped(shown(text), console.columns()):
            self._say(_styled(line, _DIM))

    def tick(self) -> None:
        """Redraw the countdown."""
        if self._expires_at is not None:
            left_seconds = max(0, int((self._expires_at - datetime.now(UTC)).total_seconds()))
            messages = counted(self._messages, "message")
            # Leave the last column free: otherwise the line would wrap and could not be erased.
            status = cut(f"{_countdown(left_seconds)} left, {messages}, {self._ctrl_c}", console.columns() - 1)
            console.write(_ERASE_LINE + _styled(status, _DIM))
            self._has_status = True

    def end(self) -> None:
        """Erase the countdown."""
        if self._has_status:
            console.write(_ERASE_LINE)
            self._has_status = False

    def _say(self, line: str) -> None:
        self.end()
        console.say(line)

    def _lines(self, mail: Message, columns: int) -> Iterator[str]:
        yield ""
        if mail.code is not None:
            yield from ("", f"    {_styled(shown(mail.code), _BOLD_GREEN)}", "")
        if mail.link is not None:
            # The link is not split into lines: if the terminal wraps it, it can still be clicked or copied as a whole.
            yield from (_styled(shown(mail.link), _BOLD), "")
        fields = {"From": _sender(mail), "Subject": mail.subject, "Time": _time_of_day(mail.received_at)}
        yield from (cut(f"{name:<8} {shown(value)}", columns) for name, value in fields.items() if value)
        yield from (cut(f"Attached {shown(name)}", columns) for name in _attached(mail))
        yield ""
        yield from (f"  {line}" for line in _beginning(mail.text, columns - 2))


def _styled(text: str, style: str) -> str:
    return f"{style}{text}{_PLAIN}" if console.has_colours() else text


def _sender(mail: Message) -> str:
    return f"{mail.sender_name} <{mail.sender}>" if mail.sender_name else mail.sender


def _attached(mail: Message) -> Iterator[str]:
    """Describe attachments, except the images that are part of the HTML."""
    files = [one for one in mail.attachments if not (one.is_inline and mail.has_html)]
    for one in files[:_ATTACHMENTS]:
        yield f"{one.filename or 'unnamed'} ({one.content_type}, {counted(one.size_bytes, 'byte')})"
    if len(files) > _ATTACHMENTS:
        yield f"and {len(files) - _ATTACHMENTS} more"


def _time_of_day(moment: datetime) -> str:
    return f"{moment.astimezone():%H:%M:%S}"


def _countdown(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _beginning(text: str, columns: int) -> Iterator[str]:
    """Return the first nonempty lines."""
    lines = (line.strip().expandtabs(4) for line in text[:_TEXT_CHARACTERS].splitlines())
    pieces = (piece for line in lines if line for piece in wrapped(shown(line), columns))
    return islice(pieces, _TEXT_LINES)


def _sentence(event: Event[Message]) -> str:
    match event:
        case Deleted(None):
            return "The address was deleted"
        case Deleted(message_id):
            return f"A message was deleted: {shown(message_id or '')}"
        case _:
            return "The address expired"


def json_line(members: dict[str, object]) -> str:
    """Return an object as one line of JSON; control characters are escaped."""
    return json.dumps(members)


def _json_event(happened: Event[Message]) -> dict[str, object]:
    """Return an event as an object.

    ``expired``, and ``deleted`` without an ``id``, mean that the address no longer exists.
    """
    match happened:
        case Arrived(arrived):
            return {"event": "message", **json_mail(arrived)}
        case Deleted(None):
            return {"event": "deleted"}
        case Deleted(message_id):
            return {"event": "deleted", "id": message_id}
        case Extended(expires_at):
            return {"event": "extended", "expires_at": timestamp(expires_at)}
        case Expired():
            return {"event": "expired"}


def json_mail(message: Message) -> dict[str, object]:
    """Return the fields that a message has in the API's lists, and the message's best ``code`` and ``link``."""
    found = {"received_at": timestamp(message.received_at), "code": message.code, "link": message.link}
    return {**msgspec.to_builtins(message), **found}


def timestamp(moment: datetime) -> str:
    """Format a time as the API does (RFC 3339, UTC, milliseconds)."""
    return rfc3339(round(moment.timestamp() * 1000))
