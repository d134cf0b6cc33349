"""Waiting for messages with the server's ``wait`` parameter, and the goals of a wait: a message, a code, a link."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.client import errors
from tmpmaild.client.models import LIKELY, AttachmentItem, Details, Link, Message, MessageList
from tmpmaild.client.remote import (
    MAX_PAGE,
    Feature,
    Filter,
    RemoteInbox,
    RemoteService,
    decoded,
    next_page_query,
    urlencoded,
)
from tmpmaild.client.transport import CheckLoop, Reply, SendRequest, Sleep, Steps

T = TypeVar("T")

Pattern: TypeAlias = str | re.Pattern[str]

_LONGEST_WAIT_SECONDS = 50
_GRACE_SECONDS = 5
_LATE_SECONDS = 1
_MIN_READ_SECONDS = 0.1
_SLACK_SECONDS = 0.5  # the server's empty list must arrive before our timeout
_PAUSE_SECONDS = 1
_FIRST_PAUSE_SECONDS = 0.1
_MAX_LISTED = 20
_MAX_REFUSALS = 3
_MAX_FOUND = 10
_REFUSED = "; refused: "
_BLOCKED = (
    "this call without await blocked the event loop of its thread, so an application in that loop could not send: in "
    "an async test use the async_inbox fixture (or AsyncClient) with await"
)
_MAX_REASON_CHARACTERS = 4000


class Goal(Struct, Generic[T], frozen=True):
    """The goal of a wait: ``take`` receives the matching messages, oldest first, and returns a result or None.

    ``take`` is called for each new message, which is the last in the list; None continues the wait. ``name`` appears in
    error texts, and ``count`` is the number of messages needed. ``others`` returns a message's other values of this
    kind. ``has`` lets the server skip messages without a feature. With ``reads_text``, ``take`` needs the whole text.
    """

    name: str
    take: Callable[[Sequence[Message]], T | None]
    count: int = 1
    others: Callable[[Message], Iterable[str]] = lambda _message: ()
    has: tuple[Feature, ...] = ()
    reads_text: bool = False


MAIL: Goal[Message] = Goal("", lambda messages: messages[-1])


def several(count: int) -> Goal[list[Message]]:
    """Return the goal of receiving ``count`` messages. Raises ValueError if ``count`` is less than 1."""
    if count < 1:
        raise ValueError(f"count is {count}, expected 1 or more; use assert_no_mail() to expect no messages")
    return Goal("", lambda messages: list(messages) if len(messages) == count else None, count=count)


def code(pattern: Pattern | None) -> Goal[str]:
    """Return the goal of finding a code, or a match of a regular expression. Raises ``re.error``."""
    if pattern is None:
        return Goal("a code", lambda messages: messages[-1].code, has=("code",))
    expression = re.compile(pattern, re.MULTILINE) if isinstance(pattern, str) else pattern
    return Goal(f"a match of {_shown(pattern)}", lambda messages: _matched(expression, messages[-1]), reads_text=True)


def link(text: Pattern | None, url: Pattern | None) -> Goal[str]:
    """Return the goal of finding the best link with this text and URL.

    If neither is given, its confidence must be at least LIKELY.
    """
    given = {"text": text, "URL": url}
    wanted = " and ".join(f"{name} {_shown(value)}" for name, value in given.items() if value is not None)

    least = 0 if wanted else LIKELY

    def take(messages: Sequence[Message]) -> str | None:
        likely = (one for one in messages[-1].links if one.confidence >= least)
        return next((one.href for one in likely if _is_meant(one, text, url)), None)

    name = f"a link with {wanted}" if wanted else f"a link with a confidence of at least {LIKELY}"
    return Goal(name, take, others=lambda message: (f"{one.href}  {one.text}" for one in message.links), has=("link",))


def attachment(name: str) -> Goal[AttachmentItem]:
    """Return the goal of finding the first attachment with this name, ignoring case (wildcards: * ? […])."""

    def take(messages: Sequence[Message]) -> AttachmentItem | None:
        items = messages[-1].attachments
        return next((one for one in items if fnmatchcase(one.filename.lower(), name.lower())), None)

    def names(message: Message) -> Iterable[str]:
        return (one.filename for one in message.attachments)

    return Goal(f"an attachment {_shown(name)}", take, others=names)


def _matched(expression: re.Pattern[str], message: Message) -> str | None:
    """Search the subject, then the text; return the match's first group, or the whole match if there is no group."""
    match = expression.search(message.subject) or expression.search(message.text)
    if match is None:
        return None
    found: str | None = match[1] if expression.groups else match[0]
    return found


def _is_meant(one: Link, text: Pattern | None, url: Pattern | None) -> bool:
    return _contains(one.text, text, ignore_case=True) and _contains(one.href, url, ignore_case=False)


def _contains(found: str, part: Pattern | None, *, ignore_case: bool) -> bool:
    if part is None:
        return True
    if isinstance(part, re.Pattern):
        return part.search(found) is not None
    return part.lower() in found.lower() if ignore_case else part in found


def _shown(pattern: Pattern) -> str:
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    return repr(errors.printable(text))


def _comparable(recipient: str) -> str:
    """Return the form in which the service compares recipients: case-folded, with A-labels in the domain."""
    local_part, at, domain = recipient.rpartition("@")
    if not at or domain.isascii():
        return recipient.casefold()
    labels = unicodedata.normalize("NFC", domain.lower()).split(".")
    ascii_labels = [one if one.isascii() else f"xn--{one.encode('punycode').decode()}" for one in labels]
    return f"{local_part.casefold()}@{'.'.join(ascii_labels)}"


def _any_contains(texts: Iterable[str], part: str) -> bool:
    return any(part.casefold() in text.casefold() for text in texts)


def existing(service: RemoteService, address: str, token: str | None, timeout_seconds: float) -> Steps[RemoteInbox]:
    """Find an address, waiting up to the timeout for the message that creates it. Raises ``AddressNotFound``.

    With a timeout, raises ``WaitTimeout`` instead of ``AddressNotFound``. Raises ValueError if the timeout is not a
    number.
    """
    _ensure_number(timeout_seconds)
    deadline = service.clock() + timeout_seconds
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return (yield from service.find(address, token))
        except errors.AddressNotFound as error:
            if timeout_seconds <= 0:
                raise
            left_seconds = deadline - service.clock()
            if left_seconds <= 0:
                raise (yield from _never_existed(service, address, timeout_seconds)) from error
        yield Sleep(min(pause_seconds, left_seconds))
        pause_seconds = min(pause_seconds * 2, _PAUSE_SECONDS)


def _never_existed(service: RemoteService, address: str, timeout_seconds: float) -> Steps[errors.WaitTimeout]:
    text = (
        f"no message to {errors.printable(address)} arrived within {timeout_seconds:g} s, and there is no such address"
    )
    text += "; a message creates an address only where smtp.accept_unknown is create, or on a catcher"
    if (yield CheckLoop()):
        text += f"; {_BLOCKED}"
    try:
        refusals = yield from service.refusals()
    except errors.TmpmaildError:  # most services do not record refusals
        refusals = []
    lines = [errors.printable(f"{one.command}: {one.reason}") for one in refusals[-_MAX_REFUSALS:]]
    return errors.WaitTimeout(text + (f"; refused lately: {'; '.join(lines)}" if lines else ""))


def _ensure_number(timeout_seconds: float) -> None:
    if math.isnan(timeout_seconds):
        raise ValueError("a timeout is a number of seconds, not nan")


class Waiting(Generic[T]):
    """A wait for the oldest messages that match a filter and reach the goal.

    Raises ``WaitTimeout``, and ValueError for a timeout that is not a number. Errors that make waiting useless are also
    raised: ``AddressExpired`` immediately, and ``ServiceUnreachable`` only if the service has never responded.
    """

    def __init__(self, inbox: RemoteInbox, wanted: Filter, goal: Goal[T], timeout_seconds: float) -> None:
        _ensure_number(timeout_seconds)
        self._inbox = inbox
        self._clock = inbox.service.clock
        self._wanted = wanted
        self._goal = goal
        self._requested = replace(wanted, has=tuple(dict.fromkeys((*wanted.has, *goal.has))))
        self._timeout_seconds = timeout_seconds
        self._deadline = self._clock() + max(timeout_seconds, 0)
        self._messages_at_once = 1 if goal is MAIL else MAX_PAGE
        self._longest_wait_seconds = _LONGEST_WAIT_SECONDS
        self._after = wanted.after
        self._seen: list[Message] = []
        self._has_responded = False
        self._reason = ""
        self._last_error: errors.TmpmaildError | None = None

    def steps(self) -> Steps[T]:
        """Wait until the goal is reached; return its result."""
        found = yield from self._found()
        if found is None:
            raise (yield from self._timed_out()) from self._last_error
        return found

    def ensure_none(self) -> Steps[None]:
        """Wait until the deadline.

        Raises ``UnexpectedMail`` if a message arrives, or the error of the last request if it failed.
        """
        if (yield from self._found()) is not None:
            raise errors.UnexpectedMail(
                f"{self._what('a message')} arrived at {self._place()} although none was expected within "
                f"{self._timeout_seconds:g} s:{errors.listing(self._seen, with_text=True)}"
            )
        if self._last_error is not None:
            raise self._last_error

    def _found(self) -> Steps[T | None]:
        """Send requests until the goal is reached; return None at the deadline."""
        while True:
            found, pause_seconds = yield from self._poll()
            if found is not None:
                return found
            if pause_seconds is None:
                continue
            left_seconds = self._left_seconds()
            if left_seconds <= 0 or pause_seconds > max(left_seconds, _PAUSE_SECONDS):
                return None
            if pause_seconds > 0:
                yield Sleep(min(pause_seconds, left_seconds))

    def _left_seconds(self) -> float:
        return self._deadline - self._clock()

    def _poll(self) -> Steps[tuple[T | None, float | None]]:
        """Send one request; return its result, and the number of seconds to pause before the next request, if any."""
        left_seconds = max(self._left_seconds(), 0)
        wait_seconds = math.ceil(min(self._longest_wait_seconds, max(left_seconds - _SLACK_SECONDS, 0)))
        read_seconds = min(wait_seconds + _GRACE_SECONDS, left_seconds + _LATE_SECONDS)
        started = self._clock()
        try:
            reply = yield SendRequest(self._inbox.list_request(self._query(wait_seconds), read_seconds))
            found = decoded(reply, MessageList)
            self._has_responded = True
            taken = yield from self._first_match(found.messages)
        except (*errors.TEMPORARY, errors.ServiceUnreachable) as error:
            return None, self._after_error(error, self._clock() - started)
        self._reason, self._last_error = found.reason or self._reason, None
        if found.messages or (not wait_seconds and self._moved_on(reply)):
            return taken, None
        return None, max(_PAUSE_SECONDS - (self._clock() - started), 0)

    def _query(self, wait_seconds: int) -> str:
        after = {"after": self._after} if self._after else {}
        wait = {"wait": wait_seconds, "explain": "true"} if wait_seconds else {}
        return urlencoded({**self._requested.query(), **after, "order": "asc", "limit": self._messages_at_once, **wait})

    def _first_match(self, messages: Sequence[Message]) -> Steps[T | None]:
        for message in messages:
            is_cut = self._goal.reads_text and message.truncated
            self._seen.append((yield from self._whole(message)) if is_cut else message)
            self._after = message.id
            taken = self._goal.take(self._seen)
            if taken is not None:
                return taken
        return None

    def _whole(self, message: Message) -> Steps[Message]:
        """Return a truncated message with its whole text, unless it has been deleted."""
        read_seconds = max(self._left_seconds() + _LATE_SECONDS, _MIN_READ_SECONDS)
        try:
            reply = yield SendRequest(self._inbox.details_request(message.id, read_seconds))
            return replace(message, text=decoded(reply, Details).text, truncated=False)
        except errors.MessageNotFound:
            return message

    def _moved_on(self, reply: Reply) -> bool:
        """Skip an empty page if more pages follow: with ``has``, the server checks a limited number of messages."""
        after = parse_qs(next_page_query(reply) or "").get("after", [""])[0]
        if after <= (self._after or ""):
            return False
        self._after = after
        return True

    def _after_error(self, error: errors.Problem | errors.ServiceUnreachable, took_seconds: float) -> float:
        self._last_error = error
        if isinstance(error, errors.Problem):
            return error.retry_after_seconds or _PAUSE_SECONDS
        if isinstance(error, errors.ConnectionLost):
            # Most likely a proxy cut off a long request: use a shorter wait.
            shorter = max(int(took_seconds * 0.8), self._longest_wait_seconds // 8)
            self._longest_wait_seconds = min(shorter, self._longest_wait_seconds)
        elif not self._has_responded:
            raise error
        return max(_PAUSE_SECONDS - took_seconds, 0)

    def _timed_out(self) -> Steps[errors.WaitTimeout]:
        count = f"{len(self._seen)} of {self._goal.count} messages" if self._goal.count > 1 else "no message"
        after_it = " after it" if self._wanted.after else ""
        text = f"{self._what(count)} arrived at {self._place()} within {self._timeout_seconds:g} s"
        arrived = self._seen
        if self._last_error is None and not self._requested.takes_any:
            arrived = (yield from self._arrived()) or self._seen
        is_blocking = yield CheckLoop()
        if is_blocking:
            text += f"; {_BLOCKED}"
        if self._last_error is not None:
            text += f"; the last request failed: {self._last_error}"
        elif reason := self._reason_for(arrived, only_refusals=is_blocking):
            text += f"; {errors.printable(reason, _MAX_REASON_CHARACTERS)}"
        elif not arrived:
            text += f"; no other message did{after_it}"
        if arrived:
            listed = errors.listing(arrived, with_text=bool(self._goal.name), notes=self._shortcomings)
            text += f"; what arrived{after_it}:{listed}"
        return errors.WaitTimeout(text, arrived=arrived)

    def _reason_for(self, arrived: Sequence[Message], *, only_refusals: bool) -> str:
        """Return the service's reason for the result of the last request, or only its refusals if messages arrived."""
        if not arrived and not only_refusals:
            return self._reason
        _, refused, what = self._reason.partition(_REFUSED)
        return f"refused: {what}" if refused else ""

    def _shortcomings(self, message: Message) -> Iterable[str]:
        """Yield notes about a message: the criteria that it does not meet, and the codes and links that it contains."""
        wanted, goal = self._wanted, self._goal
        heads = (message.subject, message.sender, message.sender_name)
        searched = {
            f"subject {_shown(wanted.subject or '')}": (wanted.subject, heads[:1]),
            f"sender {_shown(wanted.sender or '')}": (wanted.sender, heads[1:]),
            f"text {_shown(wanted.text or '')}": (None if message.truncated else wanted.text, (*heads, message.text)),
        }
        recipients = message.recipients or (message.recipient,)
        to = wanted.to or ""
        is_elsewhere = to != "" and _comparable(to) not in map(_comparable, recipients)
        lacks = [f"recipient {_shown(to)}"] if is_elsewhere else []
        lacks += [name for name, (part, texts) in searched.items() if part and not _any_contains(texts, part)]
        found = {"code": message.codes, "link": message.links, "attachment": message.attachments}
        lacks += [f"a {one}" for one in wanted.has if not found.get(one, True)]
        if goal.name and goal.count == 1 and goal.take([message]) is None:
            lacks.append(goal.name)
        if lacks:
            yield f"lacks {' and '.join(dict.fromkeys(lacks))}"
        for name, values in (
            ("recipients", recipients if is_elsewhere else ()),
            ("codes", [one.value for one in message.codes if goal.name]),
            ("links", [f"{one.href} ({one.confidence:g})" for one in message.links if goal.name]),
        ):
            if values:
                yield f"{name}: {errors.printable(', '.join(values[:_MAX_FOUND]), _MAX_REASON_CHARACTERS)}"

    def _what(self, count: str) -> str:
        wanted = " and ".join(part for part in (str(self._wanted), self._goal.name) if part)
        return f"{count} with {wanted}" if wanted else count

    def _place(self) -> str:
        after = f" after {errors.printable(self._wanted.after)}" if self._wanted.after else ""
        return f"{self._inbox.address}{after}"

    def _arrived(self) -> Steps[list[Message]]:
        """List the messages that arrived, whether or not they match."""
        read_seconds = max(self._left_seconds() + _LATE_SECONDS, _MIN_READ_SECONDS)
        query = urlencoded({**Filter(after=self._wanted.after).query(), "limit": _MAX_LISTED})
        try:
            reply = yield SendRequest(self._inbox.list_request(query, read_seconds))
            return list(reversed(decoded(reply, MessageList).messages))
        except errors.TmpmaildError as error:
            self._last_error = error
            return self._seen
