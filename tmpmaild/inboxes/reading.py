"""Reading an inbox: pages of its mail, one message, its source, attachments and HTML. Nothing is changed here.

What a method returns is true when it returns: mail that is deleted or expires while it is being read is not shown.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, InvalidRequest, MessageNotFound
from tmpmaild.findings import codes, links
from tmpmaild.inboxes.access import Access, present
from tmpmaild.inboxes.caches import FindingsCache, ListingCache, Loss, message_characters, page_characters
from tmpmaild.inboxes.delivering import Check
from tmpmaild.mail import extracts, htmltext
from tmpmaild.model import (
    Attachment,
    Feature,
    Findings,
    FullMessage,
    HeaderDetails,
    Inbox,
    InboxChange,
    Link,
    Listing,
    Message,
    Page,
    Source,
    Texts,
    unchecked,
)
from tmpmaild.storage.base import ANY_SIZE, Permit, Storage

MOST_LOOKED_AT = 200
_PORTION = 50


def is_filter(page: Page) -> bool:
    """Return whether messages must be looked at to tell whether they are on this page."""
    return not page.has <= {"attachment"}


def rest_of(page: Page, message_id: str) -> Page:
    """Return the page with what comes after a message, in the order of the page."""
    return replace(page, after=message_id) if page.ascending else replace(page, before=message_id)


async def filtered(page: Page, read: Callable[[Page], Awaitable[Listing]]) -> Listing:
    """Return a page of messages that have what ``page`` says; ``read`` reads messages with their codes and links."""
    filtering = _Filtering(page)
    while True:
        part = await read(filtering.next_part())
        filtering.take(part)
        if filtering.ended:
            return filtering.listing(part)


class _Filtering:
    """One page that is being put together."""

    def __init__(self, page: Page) -> None:
        self.ended = False
        self._page = page
        self._rest = page
        self._kept: list[Message] = []
        self._left = MOST_LOOKED_AT
        self._has_more = False
        self._searched_to: str | None = None
        self._looked_to: str | None = None
        self._is_waiting = False

    def next_part(self) -> Page:
        """Return which messages to look at next."""
        return replace(self._rest, limit=min(_PORTION, self._left))

    def take(self, part: Listing) -> None:
        """Keep what belongs on the page."""
        looked_at = self._keep(part.messages)
        self._left -= looked_at
        # Newest first, mail that comes between two parts is above both: it is left to the next wait.
        self._searched_to = part.searched_to if self._page.ascending else self._searched_to or part.searched_to
        if looked_at:
            self._looked_to = part.messages[looked_at - 1].id
            self._rest = rest_of(self._bounded(), self._looked_to)
        if self._is_waiting:
            self._searched_to = None
        self._has_more = not self._is_waiting and looked_at > 0 and (part.has_more or looked_at < len(part.messages))
        has_room = len(self._kept) < self._page.limit and self._rest.other_characters > 0
        self.ended = not self._has_more or not has_room or self._left == 0

    def _keep(self, messages: Sequence[Message]) -> int:
        """Keep what matches until the page is full; return how many messages were looked at."""
        for number, message in enumerate(messages):
            if len(self._kept) == self._page.limit:
                return number
            if not _has_all(message, self._page):
                continue
            if "verdict" not in self._page.has or message.authentication is not None:
                self._kept.append(message)
            elif self._page.ascending:  # its verdict comes: nothing that follows may go before
                self._is_waiting = True
                return number
        return len(messages)

    def _bounded(self) -> Page:
        """Return the page with what is left of its two bounds."""
        bodies = [message.body for message in self._kept]
        bodies_bytes = sum([len(body.encode()) for body in bodies])
        others = sum([message_characters(message) for message in self._kept]) - sum(map(len, bodies))
        return replace(
            self._rest,
            bodies_bytes=max(self._page.bodies_bytes - bodies_bytes, 0),
            other_characters=max(self._page.other_characters - others, 0),
        )

    def listing(self, last_part: Listing) -> Listing:
        """Return what was kept."""
        return replace(
            last_part,
            messages=tuple(self._kept),
            has_more=self._has_more,
            searched_to=self._searched_to,
            looked_to=self._looked_to,
        )


def _has_all(message: Message, page: Page) -> bool:
    """Return whether a message has the findings that are asked for."""
    found = message.findings
    return ("code" not in page.has or bool(found.codes)) and ("link" not in page.has or bool(found.links))


log = logging.getLogger(__name__)

_TEXT_CHARACTERS = 128 * 1024
_LINKS_CHARACTERS = 32 * 1024  # of one message: a list may hold a hundred
_MESSAGES_AT_ONCE = 8
_BYTES_AT_ONCE = 64 * 1024


class Detector:
    """Adds the detected codes and links to messages."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache = FindingsCache()
        # A little at a time, so that a page of hundreds does not delay other requests until it is done; and large mail
        # by itself, so that much of it does not delay the readers of small mail.
        self._small_turn, self._large_turn = anyio.Lock(), anyio.Lock()
        self.update = self._cache.update
        self.forget_expired = self._cache.forget_expired

    async def add_findings(self, inbox: Inbox, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with their codes and links."""
        found = {message.id: self._cache.get(message.id) for message in messages}
        unknown = [message for message in messages if found[message.id] is None]
        for portion in _portions(unknown):
            async with self._small_turn if portion[0].size_bytes <= _BYTES_AT_ONCE else self._large_turn:
                found |= await self._find(inbox, portion)
        return tuple([replace(message, findings=found[message.id] or Findings()) for message in messages])

    async def _find(self, inbox: Inbox, messages: Sequence[Message]) -> dict[str, Findings | None]:
        found = {message.id: self._cache.get(message.id) for message in messages}
        still_unknown = [message for message in messages if found[message.id] is None]
        generation = self._cache.generation
        to_read = [message.id for message in still_unknown if message.has_html or message.truncated]
        read = await self._storage.read_texts(inbox.id, to_read, _TEXT_CHARACTERS) if to_read else ()
        texts = {one.message_id: one for one in read}
        pairs = [(message, texts.get(message.id) or _texts(message)) for message in still_unknown]
        for (message, _), findings in zip(pairs, await anyio.to_thread.run_sync(_look, pairs), strict=True):
            found[message.id] = findings
            self._cache.put(inbox, message.id, findings, generation)
        return found


def _portions(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a few messages at a time that are small together, or a large one alone."""
    portion: list[Message] = []
    room_bytes = _BYTES_AT_ONCE
    for message in messages:
        if portion and (message.size_bytes > room_bytes or len(portion) == _MESSAGES_AT_ONCE):
            yield portion
            portion, room_bytes = [], _BYTES_AT_ONCE
        portion.append(message)
        room_bytes -= message.size_bytes
    if portion:
        yield portion


def _texts(message: Message) -> Texts:
    return Texts(message.id, message.body[:_TEXT_CHARACTERS], "")


def _look(pairs: Sequence[tuple[Message, Texts]]) -> list[Findings]:
    return [_findings_or_none(message.subject, texts) for message, texts in pairs]


def _findings_or_none(subject: str, texts: Texts) -> Findings:
    try:
        return _findings(subject, texts)
    except Exception:  # a mail must be readable even if this fails
        log.exception("looking for codes and links failed")
        return Findings()


def _findings(subject: str, texts: Texts) -> Findings:
    # Once, for codes and links; not again where that was done at the delivery.
    to_text = (lambda _: texts.body) if texts.is_of_html else cache(htmltext.to_text)
    found = codes.find(subject, texts.body)
    if not found and texts.html:  # the text part may only say that the mail is to be read as HTML
        text = to_text(texts.html)
        found = () if text == texts.body else codes.find(subject, text)
    return Findings(found, tuple(_bounded(links.find(texts.body, texts.html, to_text))))


def _bounded(found: Iterable[Link]) -> Iterator[Link]:
    room = _LINKS_CHARACTERS
    for link in found:
        room -= len(link.href) + len(link.text)
        if room < 0:
            return
        yield link


T = TypeVar("T")

NOT_CHECKED = unchecked("none", "not checked")
"""What is shown as long as too many others wait to be checked."""

ReadOne = Callable[..., Awaitable[tuple[Inbox, T | None] | None]]


class ShownMessage(Struct, frozen=True):
    """One message with what is shown next to it; its texts are left out if ``full.complete`` is False."""

    inbox: Inbox
    full: FullMessage
    details: HeaderDetails


class MailReader:
    """Reads mail for clients. ``clock`` gives Unix milliseconds.

    ``hostname``, which may be changed, is our name in ``Received`` lines.
    """

    def __init__(self, storage: Storage, access: Access, *, clock: Callable[[], int], hostname: str) -> None:
        self._storage = storage
        self._access = access
        self._clock = clock
        self.hostname = hostname
        self._listings = ListingCache(storage.is_fresh)
        self._detector = Detector(storage)
        self._extractors = anyio.CapacityLimiter(2)
        self.check: Check | None = None
        storage.on_committed(self._on_committed)

    async def list(self, address: str, page: Page, token: str | None = None) -> Listing:
        """Read one page of a live address.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, as all methods here do.
        """
        canonical = self._access.canonical_address(address, token)
        now_ms = self._clock()
        listing = self._listings.get(canonical, page, now_ms)
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
            since = self.last_loss
            formed = await form(listing)
            left = await self.remaining(listing, since)
            if left.messages == listing.messages:
                return left, formed
            listing = left if left.messages else await self.list(address, page, token)

    @property
    def last_loss(self) -> Loss:
        """The latest loss, to be taken before reading; for ``remaining`` and ``confirm``."""
        return self._access.last_loss

    async def remaining(self, listing: Listing, since: Loss) -> Listing:
        """Return what is left of a page that was read after ``since``. Raises ``AddressExpired``."""
        inbox = await self._access.recheck(listing.inbox, since)
        gone = since.deleted_messages()
        if inbox is listing.inbox and not gone:
            return listing
        messages = tuple([message for message in listing.messages if message.id not in gone])
        return replace(listing, inbox=inbox, messages=messages, characters=page_characters(messages))

    async def confirm(self, inbox: Inbox, message_id: str, since: Loss) -> None:
        """Return if a message that was read after ``since`` may still be shown.

        Raises ``AddressExpired``, ``MessageNotFound``.
        """
        await self._access.confirm(inbox, message_id, since)

    async def _read_page(self, canonical: str, page: Page, permit: Callable[[int], Permit]) -> Listing:
        while True:
            since = self.last_loss
            listing = await self.remaining(await self._read_once(canonical, page, permit), since)
            if listing.messages or not listing.has_more or listing.looked_to:
                return listing

    def ensure_possible(self, has: Collection[Feature]) -> None:
        """Return if messages can have all of this here. Raises ``InvalidRequest``."""
        if "verdict" in has and self.check is None:
            raise InvalidRequest(("has", "expected no verdict: the operator has not set senders.resolver"))

    async def _read_once(self, canonical: str, page: Page, permit: Callable[[int], Permit]) -> Listing:
        self.ensure_possible(page.has)
        generation, now_ms = self._listings.generation, self._clock()

        async def read(part: Page) -> Listing:
            found = await self._storage.list_messages(canonical, part, now_ms, permit(now_ms))
            if found is None:
                raise AddressNotFound("no such address")
            messages = [self._looked_at(canonical, message) for message in found.messages]
            return replace(found, messages=await self._detector.add_findings(found.inbox, messages))

        listing = await (filtered(page, read) if is_filter(page) else read(page))
        listing = replace(listing, characters=page_characters(listing.messages))
        if self.check is None or all(one.authentication not in (None, NOT_CHECKED) for one in listing.messages):
            self._listings.put(canonical, page, listing, generation)
        return listing

    def _looked_at(self, address: str, message: Message) -> Message:
        """Have a message checked that has no verdict yet, such as one from before a restart."""
        if self.check is None or message.authentication is not None or self.check(address, message.id):
            return message
        return replace(message, authentication=NOT_CHECKED)

    async def message(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> ShownMessage:
        """Read one message, without its texts if its source has more than so many octets.

        Raises ``MessageNotFound``.
        """
        since = self.last_loss
        inbox, full = await self._read(self._storage.read_message, address, message_id, token, up_to_bytes=up_to_bytes)
        (message,) = await self._detector.add_findings(inbox, [self._looked_at(inbox.address, full.message)])
        details = await anyio.to_thread.run_sync(extracts.details, full.head)
        inbox = await self._access.confirm(inbox, message_id, since)
        return ShownMessage(inbox, replace(full, message=message), details)

    async def message_as(
        self, address: str, message_id: str, token: str | None, form: Callable[[ShownMessage], Awaitable[T]]
    ) -> T:
        """Read one whole message and call ``form`` with it, which may take long. Raises as ``message``."""
        shown = await self.message(address, message_id, token)
        since = self.last_loss
        formed = await form(shown)
        await self.confirm(shown.inbox, message_id, since)
        return formed

    async def _read(
        self, read: ReadOne[T], address: str, message_id: str, token: str | None, *, up_to_bytes: int
    ) -> tuple[Inbox, T]:
        """Read something of a message by a method of the storage."""
        canonical, now_ms = self._access.canonical_address(address, token), self._clock()
        permit = self._access.permit(token, now_ms)
        return present(await read(canonical, message_id, now_ms, permit, up_to_bytes=up_to_bytes))

    async def source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[bytes, bytes | None]:
        """Read a message as it came: our trace fields, and the octets below them.

        These are None when they are more than ``up_to_bytes``. Raises ``MessageNotFound``.
        """
        since = self.last_loss
        inbox, source = await self._read(self._storage.read_source, address, message_id, token, up_to_bytes=up_to_bytes)
        shown = await self._as_shown(inbox, source)
        await self.confirm(inbox, message_id, since)
        return shown

    async def _as_shown(self, inbox: Inbox, source: Source) -> tuple[bytes, bytes | None]:
        trace, raw = extracts.fields(source, self.hostname), source.raw
        if self.check is not None:
            if source.authentication is None:
                self.check(inbox.address, source.id)
            trace = extracts.results(source, self.hostname) + trace
            if raw is not None:
                raw = await anyio.to_thread.run_sync(extracts.without_results_of, raw, self.hostname)
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
        since = self.last_loss
        read = self._storage.read_next_source
        inbox, source = await self._read(read, address, after, token, up_to_bytes=ANY_SIZE)
        trace, raw = await self._as_shown(inbox, source)
        assert raw is not None
        part = await anyio.to_thread.run_sync(extracts.entry, source, trace, raw, limiter=self._extractors)
        try:
            await self.confirm(inbox, source.id, since)
        except MessageNotFound:
            return source.id, b""
        return source.id, part

    async def find_attachment(
        self, address: str, message_id: str, index: str, token: str | None = None
    ) -> tuple[Attachment, int]:
        """Find an attachment by its index as it is written; the number is of octets in the source of its message.

        Raises ``MessageNotFound``, also where there is none.
        """
        since = self.last_loss
        inbox, full = await self._read(self._storage.read_message, address, message_id, token, up_to_bytes=0)
        await self.confirm(inbox, message_id, since)
        for attachment in full.message.attachments:
            if str(attachment.index) == index:
                return attachment, full.message.size_bytes
        raise MessageNotFound("no such attachment")

    async def attachment_content(
        self, address: str, message_id: str, attachment: Attachment, token: str | None = None
    ) -> bytes:
        """Read the content of an attachment that was found, decoded. Raises ``MessageNotFound``."""
        since = self.last_loss
        inbox, source = await self._read(self._storage.read_source, address, message_id, token, up_to_bytes=ANY_SIZE)
        assert source.raw is not None
        content = await anyio.to_thread.run_sync(
            extracts.attachment, source.raw, attachment.index, limiter=self._extractors
        )
        assert content is not None
        await self.confirm(inbox, message_id, since)
        return content

    def forget_expired(self) -> None:
        """Drop expired entries from memory."""
        now_ms = self._clock()
        self._listings.forget_expired(now_ms)
        self._detector.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._listings.update(changes)
        self._detector.update(changes)
