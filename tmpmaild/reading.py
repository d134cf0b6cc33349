"""Reading an inbox: pages of its mail, one message, its source, attachments and HTML. Nothing is changed here."""

from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import extracts, trace
from tmpmaild.access import Access
from tmpmaild.errors import MessageNotFound
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
        found = await self._storage.list_messages(folded, page, now_ms)
        inbox = self._access.admit(found.inbox if found else None, token, now_ms)
        assert found is not None
        messages = await self._finder.complete(inbox, found.messages)
        listing = Listing(inbox, messages, has_more=found.has_more)
        self._listings.put(folded, page, listing, moment)
        return listing

    async def message(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int | None = None
    ) -> Letter:
        """Read one message, without its texts if its source has more than so many octets.

        Raises ``MessageNotFound``.
        """
        folded = self._access.fold(address, token)
        now_ms = self._clock()
        found = await self._storage.read_message(folded, message_id, now_ms, up_to_bytes)
        inbox, full = found or (None, None)
        inbox = self._access.admit(inbox, token, now_ms)
        if full is None:
            raise MessageNotFound("no such message in this inbox")
        (message,) = await self._finder.complete(inbox, [full.message])
        details = await anyio.to_thread.run_sync(extracts.details, full.head)
        return Letter(inbox, replace(full, message=message), details)

    async def source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int | None = None
    ) -> tuple[bytes, bytes | None]:
        """Read a message as it came: our trace fields, and the octets below them.

        These are None when they are more than ``up_to_bytes``. Raises ``MessageNotFound``.
        """
        folded = self._access.fold(address, token)
        now_ms = self._clock()
        found = await self._storage.read_source(folded, message_id, now_ms, up_to_bytes)
        inbox, source = found or (None, None)
        self._access.admit(inbox, token, now_ms)
        if source is None:
            raise MessageNotFound("no such message in this inbox")
        return trace.fields(source, self._hostname), source.raw

    async def attachment(
        self, address: str, message_id: str, index: int, token: str | None = None
    ) -> tuple[Attachment, bytes]:
        """Read an attachment and its content, decoded. Raises ``MessageNotFound``, also where there is none."""
        letter = await self.message(address, message_id, token, up_to_bytes=0)
        attachments = letter.full.message.attachments
        _, raw = await self.source(address, message_id, token) if index < len(attachments) else (b"", None)
        if raw is None:
            raise MessageNotFound("no such attachment")
        content = await anyio.to_thread.run_sync(extracts.attachment, raw, index, limiter=self._extractors)
        assert content is not None
        return attachments[index], content

    def forget_expired(self) -> None:
        """Drop from memory what is over."""
        now_ms = self._clock()
        self._listings.forget_expired(now_ms)
        self._finder.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._listings.update(changes)
        self._finder.update(changes)
