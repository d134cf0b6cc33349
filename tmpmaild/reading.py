"""Reading an inbox: pages of its mail, one message, its source, attachments and HTML. Nothing is changed here."""

from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import extracts, trace
from tmpmaild.access import Access
from tmpmaild.errors import AddressNotFound, MessageNotFound
from tmpmaild.finding import Finder
from tmpmaild.listings import ListingCache
from tmpmaild.model import Attachment, Details, FullMessage, Inbox, InboxChange, Listing, Page
from tmpmaild.storage.base import Storage


class Letter(Struct, frozen=True):
    """One message as it is shown; without its texts where they were not to be read (``full.complete``)."""

    inbox: Inbox
    full: FullMessage
    details: Details


class MailReader:
    """Mail as its readers see it. ``clock`` gives Unix milliseconds, ``hostname`` is our name in ``Received`` lines."""

    def __init__(self, storage: Storage, access: Access, *, clock: Callable[[], int], hostname: str) -> None:
        self._storage = storage
        self._access = access
        self._clock = clock
        self._hostname = hostname
        self._listings = ListingCache()
        self._finder = Finder(storage)
        self._extractors = anyio.CapacityLimiter(2)
        storage.on_committed(self._on_committed)

    async def list(self, address: str, page: Page, token: str | None = None) -> Listing:
        """Read one page of a live address.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, as all methods here do.
        """
        folded = self._access.fold(address, token)
        now_ms = self._clock()
        listing = self._listings.get(folded, page, now_ms)
        if listing is not None:
            self._access.admit(listing.inbox, token, now_ms)
            return listing
        return await self._read_page(folded, page, token, now_ms)

    async def _read_page(self, folded: str, page: Page, token: str | None, now_ms: int) -> Listing:
        moment = self._listings.moment
        found = await self._storage.list_messages(folded, page, now_ms, self._access.permit(token, now_ms))
        if found is None:
            raise AddressNotFound("no such address")
        messages = await self._finder.complete(found.inbox, found.messages)
        listing = replace(found, messages=messages)
        self._listings.put(folded, page, listing, moment)
        return listing

    async def message(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int | None = None
    ) -> Letter:
        """Read one message, without its texts if its source has more than so many octets.

        Raises ``MessageNotFound``.
        """
        inbox, full = await self._read_message(address, message_id, token, up_to_bytes)
        (message,) = await self._finder.complete(inbox, [full.message])
        details = await anyio.to_thread.run_sync(extracts.details, full.head)
        return Letter(inbox, replace(full, message=message), details)

    async def _read_message(
        self, address: str, message_id: str, token: str | None, up_to_bytes: int | None
    ) -> tuple[Inbox, FullMessage]:
        folded = self._access.fold(address, token)
        now_ms = self._clock()
        permit = self._access.permit(token, now_ms)
        found = await self._storage.read_message(folded, message_id, now_ms, permit, up_to_bytes=up_to_bytes)
        if found is None:
            raise AddressNotFound("no such address")
        inbox, full = found
        if full is None:
            raise MessageNotFound("no such message in this inbox")
        return inbox, full

    async def source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int | None = None
    ) -> tuple[bytes, bytes | None]:
        """Read a message as it came: our trace fields, and the octets below them.

        These are None when they are more than ``up_to_bytes``. Raises ``MessageNotFound``.
        """
        folded = self._access.fold(address, token)
        now_ms = self._clock()
        permit = self._access.permit(token, now_ms)
        found = await self._storage.read_source(folded, message_id, now_ms, permit, up_to_bytes=up_to_bytes)
        if found is None:
            raise AddressNotFound("no such address")
        source = found[1]
        if source is None:
            raise MessageNotFound("no such message in this inbox")
        return trace.fields(source, self._hostname), source.raw

    async def find_attachment(
        self, address: str, message_id: str, index: str, token: str | None = None
    ) -> tuple[Attachment, int]:
        """Find an attachment by its index as it is written; the number is of octets in the source of its message.

        Raises ``MessageNotFound``, also where there is none.
        """
        _, full = await self._read_message(address, message_id, token, up_to_bytes=0)
        for attachment in full.message.attachments:
            if str(attachment.index) == index:
                return attachment, full.message.size_bytes
        raise MessageNotFound("no such attachment")

    async def attachment_content(
        self, address: str, message_id: str, attachment: Attachment, token: str | None = None
    ) -> bytes:
        """Read the content of an attachment that was found, decoded. Raises ``MessageNotFound``."""
        _, raw = await self.source(address, message_id, token)
        assert raw is not None
        content = await anyio.to_thread.run_sync(extracts.attachment, raw, attachment.index, limiter=self._extractors)
        assert content is not None
        return content

    def forget_expired(self) -> None:
        """Drop from memory what is over."""
        now_ms = self._clock()
        self._listings.forget_expired(now_ms)
        self._finder.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._listings.update(changes)
        self._finder.update(changes)
