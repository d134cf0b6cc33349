"""The operator's commands about inboxes: list them, end them, and hand over a copy of everything."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from tmpmaild.commands import Answer, Command, NoArguments, Octets
from tmpmaild.errors import AddressExpired, AddressNotFound, CommandError
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.mail import addresses
from tmpmaild.model import InboxEntry
from tmpmaild.peers import client_name
from tmpmaild.storage.base import Storage

_PART_BYTES = 256 * 1024

log = logging.getLogger(__name__)


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """Which inboxes to list: all that are alive, or those that the client with this IP address has created."""

    client: str | None = None


class Purged(Struct, frozen=True, forbid_unknown_fields=True):
    """Which inboxes to end: exactly one of these is given."""

    address: str | None = None
    client: str | None = None
    expired: bool = False
    all: bool = False


class Inboxes(Struct, frozen=True):
    """Some lines of a list."""

    inboxes: Sequence[InboxEntry]


class Ended(Struct, frozen=True):
    """How many inboxes have ended so far. ``erased``: their mail is in no file any more; None: not tried yet."""

    ended: int
    erased: bool | None = None


class InboxCommands:
    """What an operator may do with everybody's inboxes. ``clock`` gives Unix milliseconds."""

    def __init__(self, storage: Storage, cleaner: Cleaner, *, clock: Callable[[], int]) -> None:
        self._storage = storage
        self._cleaner = cleaner
        self._clock = clock

    def commands(self) -> dict[str, Command]:
        """Return what the control socket answers by this."""
        return {
            "inboxes": Command(Listed, self._list),
            "purge": Command(Purged, self._purge),
            "backup": Command(NoArguments, self._backup),
        }

    async def _list(self, wanted: Listed) -> Answer:
        async for inboxes in self._pages(wanted.client):
            if inboxes:
                yield Inboxes(inboxes)

    async def _purge(self, wanted: Purged) -> Answer:
        if [wanted.address is not None, wanted.client is not None, wanted.expired, wanted.all].count(True) != 1:
            raise CommandError("exactly one of an address, a client, the expired and all is expected")
        ended = 0
        if wanted.address is not None:
            ended = await self._end_address(wanted.address)
        else:
            async for some in self._end_many(wanted):
                ended += some
                yield Ended(ended)
        yield Ended(ended, erased=await self._cleaner.sweep())
        log.info("purge: inboxes that have been ended by the operator: %d", ended)

    async def _backup(self, _: NoArguments) -> Answer:
        async with self._storage.backup() as copy:
            size_bytes = await asyncio.to_thread(copy.seek, 0, os.SEEK_END)
            await asyncio.to_thread(copy.seek, 0)
            yield Octets(size_bytes)
            while part := await asyncio.to_thread(copy.read, _PART_BYTES):
                yield part
        log.info("backup: a copy of everything has been handed to the operator, %d octets", size_bytes)

    async def _end_address(self, text: str) -> int:
        now_ms = self._clock()
        address = addresses.canonical(text)
        inbox = await self._storage.find_inbox(address, now_ms) if address else None
        if inbox is None or inbox.expires_at_ms <= now_ms or not await self._end(inbox.id):
            raise CommandError("no live inbox has this address")
        return 1

    async def _end_many(self, wanted: Purged) -> AsyncIterator[int]:
        """End a page of inboxes after the other, and yield how many each had."""
        begun_ms = self._clock()
        async for inboxes in self._pages(wanted.client, expired=wanted.expired):
            if wanted.expired:
                yield len(inboxes)
            else:  # those that were created meanwhile are not meant
                ids = [inbox.id for inbox in inboxes if inbox.created_at_ms <= begun_ms]
                yield sum(await asyncio.gather(*map(self._end, ids)))

    async def _end(self, inbox_id: str) -> bool:
        with suppress(AddressNotFound, AddressExpired):
            await self._storage.delete_inbox(inbox_id, self._clock())
            return True
        return False

    async def _pages(self, client: str | None, *, expired: bool = False) -> AsyncIterator[Sequence[InboxEntry]]:
        creator = None if client is None else client_name(client)
        after: str | None = ""
        while after is not None:
            page = await self._storage.list_inboxes(self._clock(), creator=creator, expired=expired, after=after)
            yield page.inboxes
            after = page.next
