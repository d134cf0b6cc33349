"""Reading an inbox: pages of its mail, one message, its source, attachments and HTML. Nothing is changed here.

What a method returns is true when it returns: mail that is deleted or expires while it is being read is not shown.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, InvalidRequest, MessageNotFound
from tmpmaild.inboxes.access import Access, present
from tmpmaild.inboxes.caches import ListingCache, page_characters
from tmpmaild.inboxes.delivering import Check
from tmpmaild.inboxes.filtering import filtered, is_filter
from tmpmaild.inboxes.finding import Detector
from tmpmaild.inboxes.losses import Loss
from tmpmaild.mail import extracts, mbox, tracefields
from tmpmaild.model import Attachment, Details, FullMessage, Held, Inbox, InboxChange, Listing, Message, Page, Source
from tmpmaild.storage.base import ANY_SIZE, Permit, Storage
from tmpmaild.verdicts import unchecked

T = TypeVar("T")

NOT_CHECKED = unchecked("none", "not checked")
"""What is shown as long as too many others wait to be checked."""

ReadOne = Callable[..., Awaitable[tuple[Inbox, T | None] | None]]


class ShownMessage(Struct, frozen=True):
    """One message with what is shown next to it; its texts are left out if ``full.complete`` is False."""

    inbox: Inbox
    full: FullMessage
    details: Details


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

    def ensure_possible(self, has: Collection[Held]) -> None:
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
        trace, raw = tracefields.fields(source, self.hostname), source.raw
        if self.check is not None:
            if source.authentication is None:
                self.check(inbox.address, source.id)
            trace = tracefields.results(source, self.hostname) + trace
            if raw is not None:
                raw = await anyio.to_thread.run_sync(tracefields.without_results_of, raw, self.hostname)
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
        part = await anyio.to_thread.run_sync(mbox.entry, source, trace, raw, limiter=self._extractors)
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
