"""Reading an inbox: pages of its mail, one message, its source and attachments. Nothing is changed here.

What a method returns is true when it returns: mail that is deleted or expires while it is being read is not shown.
Below ``MailReader`` are the filter, which keeps what matches of a list, and the ``Detector`` of codes and links.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, InvalidRequest, MessageNotFound
from tmpmaild.findings import links
from tmpmaild.findings.detecting import TEXT_CHARACTERS, detect
from tmpmaild.inboxes.access import Access, present
from tmpmaild.inboxes.caches import Caches, FindingsCache, Invalidation, message_characters, page_characters
from tmpmaild.mail import claimedresults, extracts, mbox, tracefields
from tmpmaild.model import (
    SEARCHED_CHARACTERS,
    Attachment,
    BodyLink,
    Feature,
    Findings,
    FullMessage,
    HeaderDetails,
    Inbox,
    Listing,
    Message,
    Page,
    Texts,
    unchecked,
)
from tmpmaild.scheduling.clients import current_client
from tmpmaild.scheduling.turns import FairScheduler, Turn
from tmpmaild.storage.base import ANY_SIZE, Permit, Storage, bodies_to_read, cut

log = logging.getLogger(__name__)

MOST_LOOKED_AT = 200
"""In how many messages one page looks for codes and links."""

NOT_CHECKED = unchecked("none", "not checked")
"""What is shown as long as too many others wait to be checked."""

# Extracting, comparing and copying take less than a sixteenth of the time that finding takes.
_COPYING = 16

_PORTION = 50  # messages that a filter reads at once
_MATCHED_IN_LOOP_CHARACTERS = 128 * 1024

_FINDING_MESSAGES_AT_ONCE = 8
_FINDING_BYTES_AT_ONCE = 64 * 1024

T = TypeVar("T")
Check = Callable[[str, str, str], bool]
"""Has the message of an address checked soon as to who sent it, for a client; False if too many wait already."""


class ShownMessage(Struct, frozen=True):
    """One message with what is shown next to it; its texts are left out if ``full.complete`` is False."""

    inbox: Inbox
    full: FullMessage
    details: HeaderDetails
    body_links: tuple[BodyLink, ...]


class MailReader:
    """Reads mail for clients.

    ``hostname``, which may be changed, is our name in ``Received`` lines. With ``check`` senders are checked: mail that
    has no verdict yet when it is looked at.
    """

    def __init__(
        self,
        storage: Storage,
        access: Access,
        caches: Caches,
        scheduler: FairScheduler,
        *,
        hostname: str,
        check: Check | None,
    ) -> None:
        self._storage = storage
        self._access = access
        self._clock = storage.clock
        self.hostname = hostname
        self._caches = caches
        self._listings = caches.listings
        self._scheduler = scheduler
        self._detector = Detector(storage, caches.findings, scheduler)
        self.check = check

    async def list(self, address: str, page: Page, token: str | None = None) -> Listing:
        """Read one page of a live address.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, as all methods here do.
        """
        canonical = self._access.canonical_address(address, token)
        now_ms = self._clock()
        listing = self._listings.get((canonical, page), now_ms)
        if listing is not None:
            self._access.admit(listing.inbox, token, now_ms)
            return listing
        return await self._read_page(canonical, page, partial(self._access.permit, token))

    async def list_for_holder(self, canonical: str, page: Page) -> Listing:
        """Read one page of an inbox whose holder has asked for it before. Raises as ``list``, but needs no token."""
        return await self._read_page(canonical, page, self._access.permit_daemon)

    async def list_as(
        self, address: str, page: Page, token: str | None, form: Callable[[Listing], Awaitable[T]]
    ) -> tuple[Listing, T]:
        """Read one page and call ``form`` with it, which may take long. Raises as ``list``."""
        listing = await self.list(address, page, token)
        while True:
            since = self._caches.last_invalidation
            formed = await form(listing)
            left = await self.remaining(listing, since)
            if left.messages == listing.messages:
                return left, formed
            listing = left if left.messages else await self.list(address, page, token)

    @property
    def last_invalidation(self) -> Invalidation:
        """The latest invalidation, to be taken before reading; for ``remaining`` and ``confirm``."""
        return self._caches.last_invalidation

    async def remaining(self, listing: Listing, since: Invalidation) -> Listing:
        """Return what is left of a page that was read after ``since``. Raises ``AddressExpired``."""
        if since.next is None and self._clock() < listing.inbox.expires_at_ms:
            return listing
        inbox = await self._access.recheck(listing.inbox, since)
        gone = since.deleted_messages()
        if inbox is listing.inbox and not gone:
            return listing
        messages = tuple([message for message in listing.messages if message.id not in gone])
        return replace(listing, inbox=inbox, messages=messages, characters=page_characters(messages))

    async def confirm(self, inbox: Inbox, message_id: str, since: Invalidation) -> None:
        """Return if a message that was read after ``since`` may still be shown.

        Raises ``AddressExpired``, ``MessageNotFound``.
        """
        await self._access.confirm(inbox, message_id, since)

    async def _read_page(self, canonical: str, page: Page, permit: Callable[[int], Permit]) -> Listing:
        while True:
            since = self._caches.last_invalidation
            listing = await self.remaining(await self._read_once(canonical, page, permit), since)
            if listing.messages or not listing.has_more or listing.looked_to:
                return listing

    def ensure_possible(self, has: Collection[Feature]) -> None:
        """Return if messages can have all of this here. Raises ``InvalidRequest``."""
        if "verdict" in has and self.check is None:
            raise InvalidRequest(("has", "expected no verdict: the operator has not set senders.resolver"))

    async def _read_once(self, canonical: str, page: Page, permit: Callable[[int], Permit]) -> Listing:
        if page.has:
            self.ensure_possible(page.has)
        generation, now_ms = self._listings.generation, self._clock()
        may_read = permit(now_ms)

        async def read(part: Page) -> Listing:
            found = await self._storage.list_messages(canonical, part, now_ms, may_read)
            if found is None:
                raise AddressNotFound("no such address")
            return found

        if is_filter(page):
            listing = await filtered(page, Shelf(read, self._bodies, self._complete, self._scheduler))
        else:
            listing = await read(page)
            listing = replace(listing, messages=await self._complete(listing.inbox, listing.messages))
        listing = replace(listing, characters=page_characters(listing.messages))
        if self.check is None or all(one.authentication not in (None, NOT_CHECKED) for one in listing.messages):
            self._listings.put(canonical, page, listing, generation)
        return listing

    async def _bodies(self, inbox: Inbox, message_ids: Sequence[str], up_to_characters: int) -> dict[str, str]:
        texts = await self._storage.read_texts(inbox.id, message_ids, up_to_characters)
        return {one.message_id: one.body for one in texts}

    async def _complete(self, inbox: Inbox, messages: Sequence[Message]) -> Sequence[Message]:
        """Add codes and links. Have those checked that have no verdict yet, such as mail from before a restart."""
        if self.check is not None:
            messages = [self._looked_at(inbox.address, message, self.check) for message in messages]
        return await self._detector.add_findings(inbox, messages)

    def _looked_at(self, address: str, message: Message, check: Check) -> Message:
        if message.authentication is not None or check(address, message.id, current_client()):
            return message
        return replace(message, authentication=NOT_CHECKED)

    async def message(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> ShownMessage:
        """Read one message, without its texts if its source has more than so many octets.

        Raises ``MessageNotFound``.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, up_to_bytes=up_to_bytes)
        (message,) = await self._complete(inbox, [full.message])
        details, body_links = await self._scheduler.run(_details, full, work_bytes=_text_bytes(full.message))
        inbox = await self._access.confirm(inbox, message_id, since)
        return ShownMessage(inbox, replace(full, message=message), details, body_links)

    async def message_as(
        self, address: str, message_id: str, token: str | None, form: Callable[[ShownMessage], Awaitable[T]]
    ) -> T:
        """Read one whole message and call ``form`` with it, which may take long. Raises as ``message``."""
        shown = await self.message(address, message_id, token)
        since = self._caches.last_invalidation
        formed = await form(shown)
        await self.confirm(shown.inbox, message_id, since)
        return formed

    async def _read(
        self, address: str, message_id: str, token: str | None, *, up_to_bytes: int = ANY_SIZE, **more: bool
    ) -> tuple[Inbox, FullMessage]:
        """Read a message, and ``more`` as the storage does."""
        canonical, now_ms = self._access.canonical_address(address, token), self._clock()
        permit = self._access.permit(token, now_ms)
        found = await self._storage.read_message(
            canonical, now_ms, permit, message_id=message_id, up_to_bytes=up_to_bytes, **more
        )
        return present(found)

    async def source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, bytes, bytes | None]:
        """Read a message as it came: its inbox, our trace fields, and the octets below them.

        The octets are None when they are more than ``up_to_bytes``. Raises ``MessageNotFound``.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, up_to_bytes=up_to_bytes, source=True)
        trace, raw = await self._as_shown(inbox, full)
        inbox = await self._access.confirm(inbox, message_id, since)
        return inbox, trace, raw

    async def _as_shown(self, inbox: Inbox, full: FullMessage) -> tuple[bytes, bytes | None]:
        trace, raw = tracefields.trace_fields(full, self.hostname), full.source
        if self.check is not None:
            if full.message.authentication is None:
                self.check(inbox.address, full.message.id, current_client())
            trace = tracefields.authentication_results(full, self.hostname) + trace
        if raw is not None:  # also where nothing is checked: who trusts our name would trust these
            work_bytes = len(raw) // _COPYING
            raw = await self._scheduler.run(claimedresults.without_ours, raw, self.hostname, work_bytes=work_bytes)
        return trace, raw

    async def mbox(self, address: str, token: str | None = None) -> AsyncGenerator[bytes, None]:
        """Read all mail, oldest first, as the parts of an mbox file: each is one mail as ``source`` returns it.

        Mail that is deleted before its turn is left out, and this ends when the inbox does. Raises before the first
        part as ``list``, later ``StorageUnavailable`` alone.
        """
        last_id = ""
        while True:
            try:
                last_id, part = await self._next_of_mbox(address, last_id, token)
            except MessageNotFound:
                return  # that was the last
            except (AddressExpired, AddressNotFound):
                if last_id:
                    return
                raise
            if part:
                yield part

    async def _next_of_mbox(self, address: str, after: str, token: str | None) -> tuple[str, bytes]:
        """Read the mail after this one; return its id and its part, an empty one if it was deleted meanwhile.

        Raises ``MessageNotFound`` after the last.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, after, token, source=True, is_next=True)
        trace, raw = await self._as_shown(inbox, full)
        assert raw is not None
        part = await self._scheduler.run(mbox.entry, full, trace, raw, work_bytes=len(raw) // _COPYING)
        try:
            await self.confirm(inbox, full.message.id, since)
        except MessageNotFound:
            return full.message.id, b""
        return full.message.id, part

    async def find_attachment(
        self, address: str, message_id: str, index: str, token: str | None = None
    ) -> tuple[Inbox, Attachment, int]:
        """Find an attachment by its index as it is written; the number is of octets in the source of its message.

        Raises ``MessageNotFound``, also where there is none.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, up_to_bytes=0)
        inbox = await self._access.confirm(inbox, message_id, since)
        for attachment in full.message.attachments:
            if str(attachment.index) == index:
                return inbox, attachment, full.message.size_bytes
        raise MessageNotFound("no such attachment")

    async def attachment_content(
        self, address: str, message_id: str, attachment: Attachment, token: str | None = None
    ) -> bytes:
        """Read the content of an attachment that was found, decoded. Raises ``MessageNotFound``."""
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, source=True)
        assert full.source is not None
        content = await self._scheduler.run(
            extracts.attachment, full.source, attachment, work_bytes=len(full.source) // _COPYING
        )
        if content is None:
            raise MessageNotFound("no such attachment")
        await self.confirm(inbox, message_id, since)
        return content


def _details(full: FullMessage) -> tuple[HeaderDetails, tuple[BodyLink, ...]]:
    details, found = extracts.details(full.head), full.message.authentication
    if found is not None and "date" in found.dmarc.unsigned:
        details = replace(details, date_ms=None)
    return details, links.in_body(full.message.body[:TEXT_CHARACTERS])


class Shelf(NamedTuple):
    """How a filter reads an inbox: pages of its list, beginnings of bodies, messages with what is shown besides."""

    read: Callable[[Page], Awaitable[Listing]]
    bodies: Callable[[Inbox, Sequence[str], int], Awaitable[dict[str, str]]]
    complete: Callable[[Inbox, Sequence[Message]], Awaitable[Sequence[Message]]]
    scheduler: FairScheduler


def is_filter(page: Page) -> bool:
    """Return whether messages must be looked at to tell whether they are on this page."""
    return bool(page.has or page.sender or page.subject or page.text or page.recipient)


def rest_of(page: Page, message_id: str) -> Page:
    """Return the page with what comes after a message, in the order of the page."""
    return replace(page, after=message_id) if page.ascending else replace(page, before=message_id)


def matches(message: Message, page: Page, body: str) -> bool:
    """Return whether a message has the texts and the attachment that a page asks for. No text goes on in the next.

    Upper and lower case are alike, as Unicode folds them: "ß" is "ss". ``body`` is what is looked at of the body.
    """
    address, name, subject = message.from_address.casefold(), message.from_name.casefold(), message.subject.casefold()
    sender, text = _folded(page.sender), _folded(page.text)
    return (
        (not page.recipient or page.recipient.casefold() in message.recipient.casefold().split("\n"))
        and (sender in address or sender in name)
        and _folded(page.subject) in subject
        and (text in address or text in name or text in subject or text in body.casefold())
        and ("attachment" not in page.has or not all(one.inline for one in message.attachments))
    )


def _folded(wanted: str | None) -> str:
    return (wanted or "").casefold()


async def filtered(page: Page, shelf: Shelf) -> Listing:
    """Return a page of messages that have what ``page`` says.

    The list is read a portion at a time, each by a read of its own, so that nobody waits for long.
    """
    filtering = _Filtering(page)
    while True:
        part = await shelf.read(filtering.rest)
        candidates = await _candidates(part, page, shelf)
        completed = await shelf.complete(part.inbox, candidates[: filtering.left])
        filtering.take(part, completed, len(candidates))
        if filtering.ended:
            return filtering.listing(part, await _settled(part.inbox, filtering.kept, page, shelf))


async def _candidates(part: Listing, page: Page, shelf: Shelf) -> Sequence[Message]:
    """Return the messages that match, before anybody looks for findings; in a thread where that takes long."""
    if not _is_matching(page):
        return part.messages
    cut_short = [message.id for message in part.messages if message.truncated and page.text]
    bodies = await shelf.bodies(part.inbox, cut_short, SEARCHED_CHARACTERS) if cut_short else {}

    def look() -> list[Message]:
        return [one for one in part.messages if matches(one, page, bodies.get(one.id, one.body)[:SEARCHED_CHARACTERS])]

    characters = page_characters(part.messages) + sum(map(len, bodies.values()))
    if characters <= _MATCHED_IN_LOOP_CHARACTERS:
        return look()
    return await shelf.scheduler.run(look, work_bytes=characters // _COPYING)


async def _settled(inbox: Inbox, messages: Sequence[Message], page: Page, shelf: Shelf) -> Sequence[Message]:
    """Return the messages of a page with whole bodies where the page has room for them, as in a list."""
    cut_short = {message.id for message in messages if message.truncated}
    missing = cut_short and cut_short & _whole(messages, page)
    bodies = await shelf.bodies(inbox, sorted(missing), page.bodies_bytes) if missing else {}
    return [
        replace(message, body=bodies[message.id], truncated=False) if message.id in bodies else message
        for message in messages
    ]


def _whole(messages: Sequence[Message], page: Page) -> set[str]:
    """Return the ids of the messages of a page whose bodies it has room for."""
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
    """Return whether ``matches`` tells messages apart."""
    return bool(page.sender or page.subject or page.text or page.recipient or "attachment" in page.has)


class _Filtering:
    """One page that is being put together."""

    def __init__(self, page: Page) -> None:
        self.ended = False
        self.kept: list[Message] = []
        self._page = page
        # Which messages to read next.
        self.rest = replace(page, limit=_PORTION, sender=None, subject=None, text=None, recipient=None, has=frozenset())
        self._is_looking = not page.has <= {"attachment"}
        self._may_look_at = MOST_LOOKED_AT if self._is_looking else page.limit
        self._other_characters = 0
        self._has_more = False
        self._searched_to: str | None = None
        self._looked_to: str | None = None
        self._is_waiting = False

    @property
    def left(self) -> int:
        """How many messages that match are looked at in the next part."""
        return self._may_look_at if self._has_room else 0

    @property
    def _has_room(self) -> bool:
        return len(self.kept) < self._page.limit

    def take(self, part: Listing, completed: Sequence[Message], matching: int) -> None:
        """Keep what belongs on the page, of so many that match."""
        looked_at = self._keep(completed)
        self._may_look_at -= looked_at
        if looked_at:
            self._looked_to = completed[looked_at - 1].id
        has_left = looked_at < matching
        self._has_more = not self._is_waiting and (has_left or part.has_more)
        is_enough = not self.left and not _is_matching(self._page)
        self.ended = has_left or is_enough or not part.has_more
        self._move_past(part)
        self._cut_to_size()

    def _keep(self, messages: Sequence[Message]) -> int:
        """Keep what has the findings until the page is full; return how many messages were looked at."""
        for number, message in enumerate(messages):
            characters = message_characters(message) - len(message.body)
            is_too_much = self.kept and self._other_characters + characters > self._page.other_characters
            if is_too_much or not self._has_room:
                return number
            if not _has_findings(message, self._page):
                continue
            if "verdict" in self._page.has and message.authentication is None:
                if not self._page.ascending:
                    continue
                self._is_waiting = True  # its verdict comes: nothing that follows may go before
                return number
            self.kept.append(message)
            self._other_characters += characters
        return len(messages)

    def _move_past(self, part: Listing) -> None:
        if part.messages:
            last = part.messages[-1].id
            # Newest first, mail that comes between two parts is above both: it is left to the next wait.
            self._searched_to = last if self._page.ascending else self._searched_to or part.messages[0].id
            self.rest = rest_of(self.rest, last)

    def _cut_to_size(self) -> None:
        """Keep no more octets of bodies than a page may have, so that they take no more memory."""
        if sum([message.body_bytes for message in self.kept]) > self._page.bodies_bytes:
            whole = _whole(self.kept, self._page)
            self.kept = [one if one.id in whole or one.truncated else _cut(one) for one in self.kept]

    def listing(self, last_part: Listing, messages: Sequence[Message]) -> Listing:
        """Return the page with these messages."""
        return replace(
            last_part,
            messages=tuple(messages),
            has_more=self._has_more,
            searched_to=None if self._is_waiting else self._searched_to,
            looked_to=self._looked_to if self._is_looking else None,
        )


def _has_findings(message: Message, page: Page) -> bool:
    """Return whether a message has the codes and links that are asked for."""
    found = message.findings
    return ("code" not in page.has or bool(found.codes)) and ("link" not in page.has or bool(found.links))


class Detector:
    """Adds the detected codes and links to messages."""

    def __init__(self, storage: Storage, cache: FindingsCache, scheduler: FairScheduler) -> None:
        self._storage = storage
        self._cache = cache
        self._scheduler = scheduler

    async def add_findings(self, inbox: Inbox, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with their codes and links."""
        found = {message.id: self._cache.get(message.id) for message in messages}
        unknown = [message for message in messages if found[message.id] is None]
        # A little in each turn, so that a page of hundreds does not delay other requests until it is done.
        for portion in _portions(unknown):
            async with self._scheduler.turn(sum(map(_text_bytes, portion))) as turn:
                found |= await self._find(turn, inbox, portion)
        return tuple([replace(message, findings=found[message.id] or Findings()) for message in messages])

    async def _find(self, turn: Turn, inbox: Inbox, messages: Sequence[Message]) -> dict[str, Findings | None]:
        found = {message.id: self._cache.get(message.id) for message in messages}
        still_unknown = [message for message in messages if found[message.id] is None]
        generation = self._cache.generation
        to_read = [message.id for message in still_unknown if message.has_html or message.truncated]
        read = await self._storage.read_texts(inbox.id, to_read, TEXT_CHARACTERS) if to_read else ()
        texts = {one.message_id: one for one in read}
        pairs = [(message, texts.get(message.id) or _texts(message)) for message in still_unknown]
        for (message, _), findings in zip(pairs, await turn.run(_look, pairs), strict=True):
            found[message.id] = findings
            self._cache.put(inbox, message.id, findings, generation)
        return found


def _text_bytes(message: Message) -> int:
    """Return how many bytes of a message are looked into at most: not its attachments."""
    return min(message.size_bytes if message.has_html else message.body_bytes, 2 * TEXT_CHARACTERS)


def _portions(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a few messages at a time that are small together, or a large one alone."""
    portion: list[Message] = []
    room_bytes = _FINDING_BYTES_AT_ONCE
    for message in messages:
        if portion and (message.size_bytes > room_bytes or len(portion) == _FINDING_MESSAGES_AT_ONCE):
            yield portion
            portion, room_bytes = [], _FINDING_BYTES_AT_ONCE
        portion.append(message)
        room_bytes -= message.size_bytes
    if portion:
        yield portion


def _texts(message: Message) -> Texts:
    return Texts(message.id, message.body[:TEXT_CHARACTERS], "")


def _look(pairs: Sequence[tuple[Message, Texts]]) -> list[Findings]:
    return [_findings_or_none(message.subject, texts) for message, texts in pairs]


def _findings_or_none(subject: str, texts: Texts) -> Findings:
    try:
        return detect(subject, texts)
    except Exception:  # a mail must be readable even if this fails
        log.exception("looking for codes and links failed")
        return Findings()
