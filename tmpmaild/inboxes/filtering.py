"""Filtered pages of messages that match ``sender``, ``subject``, ``q`` and ``has``; messages are read in portions."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tmpmaild.inboxes.caches import message_characters, page_characters
from tmpmaild.mail import addresses
from tmpmaild.model import SEARCHED_CHARACTERS, Inbox, Listing, Message, Page
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.storage.base import bodies_to_read, cut

MAX_EXAMINED = 200
"""The number of messages that are searched for codes and links to fill one page."""

_PORTION = 50  # the number of messages that a filter reads in one query
# Comparing text takes less than a sixteenth of the time needed to detect codes and links.
_COMPARING = 16
_MATCHED_IN_LOOP_CHARACTERS = 128 * 1024
# Comparing a recipient at an internationalised domain takes as long as searching this many times its length.
_UTF8_RECIPIENT = 64


class MessageSource(NamedTuple):
    """The functions that a filter uses to read pages, beginnings of bodies, and messages with findings."""

    read: Callable[[Page], Awaitable[Listing]]
    bodies: Callable[[Inbox, Sequence[str], int], Awaitable[dict[str, str]]]
    complete: Callable[[Inbox, Sequence[Message]], Awaitable[Sequence[Message]]]
    scheduler: FairScheduler


def is_filter(page: Page) -> bool:
    """Return whether this page has filters, so that messages must be examined before they are added to it."""
    return bool(page.has or page.sender or page.subject or page.text or page.recipient)


def rest_of(page: Page, message_id: str) -> Page:
    """Return the part of a page that follows a message, in the page's order."""
    return replace(page, after=message_id) if page.ascending else replace(page, before=message_id)


def matches(message: Message, page: Page, body: str) -> bool:
    """Return whether a message has the text and attachments that a page requires. Each field is searched separately.

    Matching ignores case, using Unicode case folding: "ß" matches "ss". ``body`` is the part of the body to search. The
    recipient is compared with ``addresses.comparable``.
    """
    address, name, subject = message.from_address.casefold(), message.from_name.casefold(), message.subject.casefold()
    sender, text = _folded(page.sender), _folded(page.text)
    return (
        (not page.recipient or _is_to(message, page.recipient))
        and (sender in address or sender in name)
        and _folded(page.subject) in subject
        and (text in address or text in name or text in subject or text in body.casefold())
        and ("attachment" not in page.has or not all(one.inline for one in message.attachments))
    )


def _is_to(message: Message, recipient: str) -> bool:
    return addresses.comparable(recipient) in map(addresses.comparable, message.recipient.split("\n"))


def _folded(wanted: str | None) -> str:
    return (wanted or "").casefold()


async def filtered(page: Page, source: MessageSource) -> Listing:
    """Return a page of the messages that match ``page``.

    The list is read in portions with one query each, so that other requests do not have to wait long.
    """
    filtering = _Filtering(page)
    while True:
        part = await source.read(filtering.rest)
        candidates = await _candidates(part, page, source)
        completed = await source.complete(part.inbox, candidates[: filtering.to_examine])
        filtering.take(part, completed, len(candidates))
        if filtering.ended:
            return filtering.listing(part, await _settled(part.inbox, filtering.selected, page, source))


async def _candidates(part: Listing, page: Page, source: MessageSource) -> Sequence[Message]:
    """Return the messages whose text matches, without checking for findings; expensive comparisons run in a thread."""
    if not _is_matching(page):
        return part.messages
    cut_short = [message.id for message in part.messages if message.truncated and page.text]
    bodies = await source.bodies(part.inbox, cut_short, SEARCHED_CHARACTERS) if cut_short else {}

    def matching() -> list[Message]:
        return [one for one in part.messages if matches(one, page, bodies.get(one.id, one.body)[:SEARCHED_CHARACTERS])]

    characters = page_characters(part.messages) + sum(map(len, bodies.values()))
    if page.recipient:
        recipients = [message.recipient for message in part.messages]
        characters += _UTF8_RECIPIENT * sum(len(one) for one in recipients if not one.isascii())
    if characters <= _MATCHED_IN_LOOP_CHARACTERS:
        return matching()
    return await source.scheduler.run(matching, work_bytes=characters // _COMPARING)


async def _settled(inbox: Inbox, messages: Sequence[Message], page: Page, source: MessageSource) -> Sequence[Message]:
    """Return a page's messages in the form used in lists, with complete bodies as long as they fit on the page."""
    cut_short = {message.id for message in messages if message.truncated}
    missing = cut_short and cut_short & _whole(messages, page)
    bodies = await source.bodies(inbox, sorted(missing), page.bodies_bytes) if missing else {}
    return [
        replace(message, body=bodies[message.id], truncated=False) if message.id in bodies else message
        for message in messages
    ]


def _whole(messages: Sequence[Message], page: Page) -> set[str]:
    """Return the ids of the messages whose whole bodies fit into the page."""
    up_to_bytes = page.small_bytes
    small = [message for message in messages if message.body_bytes <= up_to_bytes]
    large = [message for message in messages if message.body_bytes > up_to_bytes]
    large.sort(key=lambda message: message.id, reverse=True)
    read = bodies_to_read(large, page.bodies_bytes - sum([message.body_bytes for message in small]))
    return {message.id for message in small} | {message.id for message, is_whole in read if is_whole}


def _cut(message: Message) -> Message:
    body, truncated = cut(message.body)
    return replace(message, body=body, truncated=truncated)


def _is_matching(page: Page) -> bool:
    """Return whether ``matches`` could exclude any message."""
    return bool(page.sender or page.subject or page.text or page.recipient or "attachment" in page.has)


class _Filtering:
    """A page that is being assembled."""

    def __init__(self, page: Page) -> None:
        self.ended = False
        self.selected: list[Message] = []
        self._page = page
        # The page that determines which messages to read next.
        self.rest = replace(page, limit=_PORTION, sender=None, subject=None, text=None, recipient=None, has=frozenset())
        self._examines_findings = not page.has <= {"attachment"}
        self._may_examine = MAX_EXAMINED if self._examines_findings else page.limit
        self._other_characters = 0
        self._has_more = False
        self._searched_to: str | None = None
        self._examined_to: str | None = None
        self._is_waiting = False

    @property
    def to_examine(self) -> int:
        """The number of matching messages to examine in the next part."""
        return self._may_examine if self._has_room else 0

    @property
    def _has_room(self) -> bool:
        return len(self.selected) < self._page.limit

    def take(self, part: Listing, completed: Sequence[Message], matching: int) -> None:
        """Keep the messages that belong on the page; ``matching`` is the number of matching messages."""
        examined = self._keep(completed)
        self._may_examine -= examined
        if examined:
            self._examined_to = completed[examined - 1].id
        has_unexamined = examined < matching
        self._has_more = not self._is_waiting and (has_unexamined or part.has_more)
        is_enough = not self.to_examine and not _is_matching(self._page)
        self.ended = has_unexamined or is_enough or not part.has_more
        self._move_past(part)
        self._cut_to_size()

    def _keep(self, messages: Sequence[Message]) -> int:
        """Keep the messages that have the required findings until the page is full; return the number examined."""
        for number, message in enumerate(messages):
            characters = message_characters(message) - len(message.body)
            is_too_much = self.selected and self._other_characters + characters > self._page.other_characters
            if is_too_much or not self._has_room:
                return number
            if not _has_findings(message, self._page):
                continue
            if "verdict" in self._page.has and message.authentication is None:
                if not self._page.ascending:
                    continue
                self._is_waiting = True  # its verdict is pending: no later message may be shown before it
                return number
            self.selected.append(message)
            self._other_characters += characters
        return len(messages)

    def _move_past(self, part: Listing) -> None:
        if part.messages:
            last = part.messages[-1].id
            # In newest-first order, mail that arrives between two reads would belong before both results; the next wait
            # finds it.
            self._searched_to = last if self._page.ascending else self._searched_to or part.messages[0].id
            self.rest = rest_of(self.rest, last)

    def _cut_to_size(self) -> None:
        """Truncate the bodies to the maximum size of a page, to limit memory use."""
        if sum([message.body_bytes for message in self.selected]) > self._page.bodies_bytes:
            whole = _whole(self.selected, self._page)
            self.selected = [one if one.id in whole or one.truncated else _cut(one) for one in self.selected]

    def listing(self, last_part: Listing, messages: Sequence[Message]) -> Listing:
        """Return a page that contains these messages."""
        return replace(
            last_part,
            messages=tuple(messages),
            has_more=self._has_more,
            searched_to=None if self._is_waiting else self._searched_to,
            examined_to=self._examined_to if self._examines_findings else None,
        )


def _has_findings(message: Message, page: Page) -> bool:
    """Return whether a message has the required codes and links."""
    found = message.findings
    return ("code" not in page.has or bool(found.codes)) and ("link" not in page.has or bool(found.links))
