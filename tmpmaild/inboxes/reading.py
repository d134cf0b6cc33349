"""Reads an inbox: pages of its messages, single messages, and their sources and attachments.

This module does not modify any data. Results are current when a method returns: a message that expires or is deleted
while it is being read is not returned.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, InvalidRequest, MessageNotFound
from tmpmaild.findings import links
from tmpmaild.findings.detecting import TEXT_CHARACTERS
from tmpmaild.inboxes.access import Access, present
from tmpmaild.inboxes.caches import Caches, Invalidation, page_characters
from tmpmaild.inboxes.filtering import MessageSource, filtered, is_filter
from tmpmaild.inboxes.finding import Detector, text_bytes
from tmpmaild.mail import claimedresults, extracts, mbox, tracefields
from tmpmaild.model import (
    Attachment,
    BodyLink,
    Feature,
    FullMessage,
    HeaderDetails,
    Inbox,
    Listing,
    Message,
    Page,
    unchecked,
)
from tmpmaild.scheduling.clients import current_client
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.storage.base import ANY_SIZE, Permit, Storage

NOT_CHECKED = unchecked("none", "not checked")
"""The verdict shown for a message while too many other messages are waiting to be checked."""

# Extracting, comparing and copying take less than a sixteenth of the time needed to detect codes and links.
_COPYING = 16

T = TypeVar("T")
Check = Callable[[str, str, str], bool]
"""Schedules a check of a message's sender (address, message id, client); False if too many checks are waiting."""


class ShownMessage(Struct, frozen=True):
    """One message with its details; body and HTML are omitted if ``full.complete`` is False."""

    inbox: Inbox
    full: FullMessage
    details: HeaderDetails
    body_links: tuple[BodyLink, ...]


class MailReader:
    """Reads mail for clients.

    ``hostname`` is our name in ``Received`` fields; it may be changed. With ``check``, reading a message that has no
    verdict yet starts a check of its sender.
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
        """Return one page of a live address's messages.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, like all methods of this class that read mail.
        """
        canonical = self._access.canonical_address(address, token)
        now_ms = self._clock()
        listing = self._listings.get((canonical, page), now_ms)
        if listing is not None:
            self._access.admit(listing.inbox, token, now_ms)
            return listing
        return await self._read_page(canonical, page, partial(self._access.permit, token))

    async def list_without_token(self, canonical: str, page: Page) -> Listing:
        """Return one page like ``list``, but without a token, because the inbox's owner requested this earlier."""
        return await self._read_page(canonical, page, self._access.permit_daemon)

    async def list_as(
        self, address: str, page: Page, token: str | None, form: Callable[[Listing], Awaitable[T]]
    ) -> tuple[Listing, T]:
        """Return one page and the result of ``form``, which may take a long time.

        Raises the same errors as ``list``.
        """
        listing = await self.list(address, page, token)
        while True:
            since = self._caches.last_invalidation
            formed = await form(listing)
            remaining = await self.remaining(listing, since)
            if remaining.messages == listing.messages:
                return remaining, formed
            listing = remaining if remaining.messages else await self.list(address, page, token)

    @property
    def last_invalidation(self) -> Invalidation:
        """The latest invalidation; save it before reading, and pass it to ``remaining`` or ``confirm``."""
        return self._caches.last_invalidation

    async def remaining(self, listing: Listing, since: Invalidation) -> Listing:
        """Remove messages that have since been deleted from a page that was read after ``since``, and return the page.

        Raises ``AddressExpired``.
        """
        if since.next is None and self._clock() < listing.inbox.expires_at_ms:
            return listing
        inbox = await self._access.recheck(listing.inbox, since)
        gone = since.deleted_messages()
        if inbox is listing.inbox and not gone:
            return listing
        messages = tuple([message for message in listing.messages if message.id not in gone])
        return replace(listing, inbox=inbox, messages=messages, characters=page_characters(messages))

    async def confirm(self, inbox: Inbox, message_id: str, since: Invalidation) -> None:
        """Check that a message that was read after ``since`` may still be shown.

        Raises ``AddressExpired``, ``MessageNotFound``.
        """
        await self._access.confirm(inbox, message_id, since)

    async def _read_page(self, canonical: str, page: Page, permit: Callable[[int], Permit]) -> Listing:
        while True:
            since = self._caches.last_invalidation
            listing = await self.remaining(await self._read_once(canonical, page, permit), since)
            if listing.messages or not listing.has_more or listing.examined_to:
                return listing

    def ensure_possible(self, has: Collection[Feature]) -> None:
        """Raise ``InvalidRequest`` if this service cannot provide one of these features."""
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
            listing = await filtered(page, MessageSource(read, self._bodies, self._complete, self._scheduler))
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
        """Add codes and links to messages.

        Schedule a check of messages without a verdict, such as older messages after a restart.
        """
        if self.check is not None:
            messages = [self._scheduled_for_check(inbox.address, message, self.check) for message in messages]
        return await self._detector.add_findings(inbox, messages)

    def _scheduled_for_check(self, address: str, message: Message, check: Check) -> Message:
        if message.authentication is not None or check(address, message.id, current_client()):
            return message
        return replace(message, authentication=NOT_CHECKED)

    async def message(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> ShownMessage:
        """Return one message, without body and HTML if its source is larger than ``up_to_bytes``.

        Raises ``MessageNotFound``.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, up_to_bytes=up_to_bytes)
        (message,) = await self._complete(inbox, [full.message])
        details, body_links = await self._scheduler.run(_details, full, work_bytes=text_bytes(full.message))
        inbox = await self._access.confirm(inbox, message_id, since)
        return ShownMessage(inbox, replace(full, message=message), details, body_links)

    async def message_as(
        self, address: str, message_id: str, token: str | None, form: Callable[[ShownMessage], Awaitable[T]]
    ) -> T:
        """Return the result of ``form`` for a message, which may take a long time.

        Raises the same errors as ``message``.
        """
        shown = await self.message(address, message_id, token)
        since = self._caches.last_invalidation
        formed = await form(shown)
        await self.confirm(shown.inbox, message_id, since)
        return formed

    async def _read(
        self,
        address: str,
        message_id: str,
        token: str | None,
        *,
        up_to_bytes: int = ANY_SIZE,
        source: bool = False,
        is_next: bool = False,
    ) -> tuple[Inbox, FullMessage]:
        """Read a message from the storage; the keyword arguments are those of ``Storage.read_message``."""
        canonical, now_ms = self._access.canonical_address(address, token), self._clock()
        permit = self._access.permit(token, now_ms)
        found = await self._storage.read_message(
            canonical,
            now_ms,
            permit,
            message_id=message_id,
            up_to_bytes=up_to_bytes,
            source=source,
            is_next=is_next,
        )
        return present(found)

    async def source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, bytes, bytes | None]:
        """Return a message as received: its inbox, our trace fields, and the bytes after the trace fields.

        The bytes are None if there are more than ``up_to_bytes``. Raises ``MessageNotFound``.
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
        if raw is not None:
            # This is done even if senders are not checked, because a program that trusts our name would trust these
            # fields.
            work_bytes = len(raw) // _COPYING
            raw = await self._scheduler.run(claimedresults.without_ours, raw, self.hostname, work_bytes=work_bytes)
        return trace, raw

    async def mbox(self, address: str, token: str | None = None) -> AsyncGenerator[bytes, None]:
        """Yield all messages, oldest first, as mbox entries; each entry contains the message as returned by ``source``.

        Messages that are deleted before they are read are omitted, and the file ends if the inbox expires or is
        deleted. Raises the same errors as ``list`` before the first entry, but only ``StorageUnavailable`` afterwards.
        """
        last_id = ""
        while True:
            try:
                last_id, part = await self._mbox_entry(address, last_id, token, is_next=True)
            except MessageNotFound:
                return  # there are no more messages
            except (AddressExpired, AddressNotFound):
                if last_id:
                    return
                raise
            if part:
                yield part

    async def mbox_of(self, address: str, message_ids: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
        """Yield the messages with these ids as mbox entries, like ``mbox``; deleted messages are omitted."""
        async with aclosing(message_ids):
            async for message_id in message_ids:
                try:
                    _, part = await self._mbox_entry(address, message_id, None)
                except MessageNotFound:
                    continue  # it has been deleted
                if part:
                    yield part

    async def _mbox_entry(
        self, address: str, message_id: str, token: str | None, *, is_next: bool = False
    ) -> tuple[str, bytes]:
        """Return a message's id and mbox entry; the entry is empty if the message has since been deleted.

        With ``is_next``, the message is the next one after ``message_id``. Raises ``MessageNotFound``.
        """
        since = self._caches.last_invalidation
        inbox, full = await self._read(address, message_id, token, source=True, is_next=is_next)
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
        """Return an inbox, the attachment at an index (as in the URL), and the size of its message's source in bytes.

        Raises ``MessageNotFound`` if the message or the attachment does not exist.
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
        """Return the decoded content of an attachment from ``find_attachment``. Raises ``MessageNotFound``."""
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
