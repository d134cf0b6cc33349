"""The operator's commands: list and purge inboxes, block clients, names and senders, and back up all data."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_network
from typing import Annotated, Any

from msgspec import Meta, Struct

from tmpmaild.clients import Network, Networks, client_name, parse_network
from tmpmaild.errors import AddressExpired, AddressNotFound, CommandError, RequestError
from tmpmaild.host.control import Command, Lines, NoArguments, Octets
from tmpmaild.inboxes import blocks
from tmpmaild.inboxes.blocks import CLIENT, NAME, SENDER, Blocks
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.mail import addresses
from tmpmaild.model import Block, InboxEntry
from tmpmaild.storage.base import Storage

_MAX_NAMED = 10
_PART_BYTES = 256 * 1024
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_ROWS = 500
Seconds = Annotated[int, Meta(ge=1, le=365 * 86_400)] | None
"""The duration of a block, at most one year; None means until it is removed."""

log = logging.getLogger(__name__)


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The inboxes to list: all live inboxes, or the live inboxes that the client with this IP address created."""

    client: str | None = None


class PurgeArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The inboxes to purge, specified by exactly one of the fields."""

    address: str | None = None
    client: str | None = None
    expired: bool = False
    all: bool = False


class DeleteMailArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages to delete from the operator's inbox (postmaster and abuse): one message by its id, or all messages."""

    message_id: str | None = None
    all: bool = False


class Inboxes(Struct, frozen=True):
    """Part of the inbox list."""

    inboxes: Sequence[InboxEntry]


class Ended(Struct, frozen=True):
    """The number of inboxes purged so far.

    ``erased`` is true once no file contains the inboxes' mail, and None if erasing has not been attempted yet.
    ``trouble`` is the reason the command could not continue, such as a full disk, or "".
    """

    ended: int
    erased: bool | None = None
    trouble: str = ""


class Deleted(Struct, frozen=True):
    """The number of messages deleted; the other fields are the same as in ``Ended``."""

    deleted: int
    erased: bool | None = None
    trouble: str = ""


class InboxCommands:
    """The operator's commands for all inboxes."""

    def __init__(self, storage: Storage, cleaner: Cleaner) -> None:
        self._storage = storage
        self._cleaner = cleaner
        self._clock = storage.clock

    def commands(self) -> dict[str, Command]:
        """Return the control socket commands that this class handles."""
        return {
            "inboxes": Command(ListArguments, self._list),
            "purge": Command(PurgeArguments, self._purge),
            "postmaster-delete": Command(DeleteMailArguments, self._delete_operator_mail),
            "backup": Command(NoArguments, self._backup),
        }

    async def _list(self, arguments: ListArguments) -> Lines:
        async for inboxes in self._pages(arguments.client):
            if inboxes:
                yield Inboxes(inboxes)

    async def _purge(self, arguments: PurgeArguments) -> Lines:
        if [arguments.address is not None, arguments.client is not None, arguments.expired, arguments.all].count(
            True
        ) != 1:
            raise CommandError("specify exactly one of an address, a client, expired and all")
        ended, trouble, erased = 0, "", False
        try:
            if arguments.address is not None:
                ended = await self._end_address(arguments.address)
            else:
                async for some in self._end_many(arguments):
                    ended += some
                    yield Ended(ended)
            erased = await self._cleaner.sweep()
        except RequestError as error:
            trouble = str(error)
        yield Ended(ended, erased=erased, trouble=trouble)
        log.info("inboxes purged by the operator: %d", ended)

    async def _delete_operator_mail(self, arguments: DeleteMailArguments) -> Lines:
        if (arguments.message_id is None) != arguments.all:
            raise CommandError("specify either the id of a message or all")
        ids = None if arguments.message_id is None else [arguments.message_id]
        deleted = await self._storage.delete_operator_mail(ids)
        if ids and not deleted:
            raise CommandError("the operator's inbox has no such message; tmpmaild postmaster lists its messages")
        yield Deleted(deleted)
        trouble, erased = "", False
        try:
            erased = await self._cleaner.sweep()
        except RequestError as error:
            trouble = str(error)
        yield Deleted(deleted, erased=erased, trouble=trouble)
        log.info("messages to postmaster and abuse deleted by the operator: %d", deleted)

    async def _backup(self, _: NoArguments) -> Lines:
        async with self._storage.backup() as copy:
            size_bytes = await asyncio.to_thread(copy.seek, 0, os.SEEK_END)
            await asyncio.to_thread(copy.seek, 0)
            yield Octets(size_bytes)
            while part := await asyncio.to_thread(copy.read, _PART_BYTES):
                yield part
        log.info("backup: a copy of the database was sent to the operator, %d bytes", size_bytes)

    async def _end_address(self, text: str) -> int:
        now_ms = self._clock()
        address = addresses.canonical(text)
        inbox = await self._storage.find_inbox(address, now_ms) if address else None
        if inbox is None or inbox.expires_at_ms <= now_ms or not await self._end(inbox.id):
            raise CommandError("no live inbox has this address")
        return 1

    async def _end_many(self, arguments: PurgeArguments) -> AsyncIterator[int]:
        """Expire inboxes page by page, and yield the number expired in each page."""
        begun_ms = self._clock()
        async for inboxes in self._pages(arguments.client, expired=arguments.expired):
            if arguments.expired:
                yield len(inboxes)
            else:  # inboxes created since the command started are kept
                ids = [inbox.id for inbox in inboxes if inbox.created_at_ms <= begun_ms]
                outcomes = await asyncio.gather(*map(self._end, ids), return_exceptions=True)
                yield outcomes.count(True)
                if failed := next((one for one in outcomes if isinstance(one, BaseException)), None):
                    raise failed

    async def _end(self, inbox_id: str) -> bool:
        with suppress(AddressNotFound, AddressExpired):
            now_ms = self._clock()
            await self._storage.move_expiry(inbox_id, expires_at_ms=now_ms, now_ms=now_ms)
            return True
        return False

    async def _pages(self, client: str | None, *, expired: bool = False) -> AsyncIterator[Sequence[InboxEntry]]:
        creator = None if client is None else client_name(client)
        after: str | None = ""
        while after is not None:
            page = await self._storage.list_inboxes(self._clock(), creator=creator, expired=expired, after=after)
            yield page.inboxes
            after = page.next


class UnblockArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Client networks, inbox names, and sender domains or addresses."""

    clients: Sequence[str] = ()
    names: Sequence[str] = ()
    senders: Sequence[str] = ()


class BlockArguments(UnblockArguments, frozen=True, forbid_unknown_fields=True):
    """The entries to block, and the duration (None: until unblocked); ``force`` permits the operator's own networks."""

    seconds: Seconds = None
    force: bool = False


class BlockList(Struct, frozen=True):
    """Part of the block list."""

    blocks: Sequence[Block]


class Changed(Struct, frozen=True):
    """The number of blocks added or removed."""

    count: int


class BlockCommands:
    """The operator's commands for blocks in memory and storage; blocking an ``own`` network requires ``force``."""

    def __init__(self, storage: Storage, known: Blocks, own: Networks) -> None:
        self.own = own
        self._storage = storage
        self._known = known
        self._clock = storage.clock

    def commands(self) -> dict[str, Command]:
        """Return the control socket commands that this class handles."""
        return {
            "block": Command(BlockArguments, self._block),
            "unblock": Command(UnblockArguments, self._unblock),
            "blocks": Command(NoArguments, self._list),
        }

    async def _block(self, arguments: BlockArguments) -> Lines:
        entries = _entries(arguments)
        if not arguments.force:
            self._refuse_own(entries)
        now_ms = self._clock()
        until_ms = None if arguments.seconds is None else now_ms + arguments.seconds * 1000
        added = [Block(kind, value, now_ms, until_ms) for kind, value in entries]
        await self._storage.change_blocks(added)
        self._known.add(added)
        log.info("blocked by the operator: %d%s", len(added), _named(entries), extra={"about": now_ms})
        yield Changed(len(added))

    async def _unblock(self, arguments: UnblockArguments) -> Lines:
        entries = _entries(arguments)
        await self._storage.change_blocks(removed=entries)
        count = self._known.remove(entries)
        log.info("unblocked by the operator: %d", count, extra={"about": self._clock()})
        yield Changed(count)

    async def _list(self, _: NoArguments) -> Lines:
        known = sorted(self._known, key=lambda block: (block.kind, block.value))
        for start in range(0, len(known), _ROWS):
            yield BlockList(known[start : start + _ROWS])

    def _refuse_own(self, entries: Sequence[tuple[str, str]]) -> None:
        for kind, value in entries:
            if kind == CLIENT and (own := _overlapping(ip_network(value), (*_LOOPBACK, *self.own))):
                raise CommandError(
                    f"{value} includes addresses of {own}, which is this machine, a trusted proxy or exempt from"
                    " limits; use --force to block it anyway"
                )


def _overlapping(network: Network, others: Networks) -> Network | None:
    alike: Iterator[Any] = (other for other in others if other.version == network.version)
    return next((other for other in alike if other.overlaps(network)), None)


def _named(entries: Sequence[tuple[str, str]]) -> str:
    """Return the first blocks as text for the log.

    Local parts are omitted because they may belong to a local address.
    """
    named = [f"{kind} {value}" for kind, value in entries if kind != NAME]
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return f" ({', '.join(named[:_MAX_NAMED])}{more})" if named else ""


def _entries(arguments: UnblockArguments) -> list[tuple[str, str]]:
    """Return pairs of kind and value, without duplicates. Raises ``CommandError``."""
    entries = list(dict.fromkeys(_parsed(arguments)))
    if not entries:
        raise CommandError("expected a client network, a local part, or the domain or address of a sender")
    return entries


def _parsed(arguments: UnblockArguments) -> Iterator[tuple[str, str]]:
    kinds: tuple[tuple[str, Sequence[str], Callable[[str], Any], str], ...] = (
        (
            CLIENT,
            arguments.clients,
            parse_network,
            "an IP address, or a network such as 192.0.2.0/24 without host bits",
        ),
        (NAME, arguments.names, blocks.name, "a local part"),
        (SENDER, arguments.senders, blocks.sender, "a domain or an address"),
    )
    for kind, texts, parse, expected in kinds:
        for text in texts:
            try:
                yield kind, str(parse(text))
            except ValueError as error:
                raise CommandError(f"expected {expected}, not {text!r}") from error
