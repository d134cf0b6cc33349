"""The delivery use cases: look up a recipient, and store a message in the inboxes of all its recipients."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.clients import client_name
from tmpmaild.errors import AddressNotFound, AddressTaken, InvalidRequest, MailboxFull
from tmpmaild.hostnames import Domains
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.audit import Audit
from tmpmaild.inboxes.caches import RecipientCache
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.creating import AddressFactory
from tmpmaild.inboxes.reading import Check
from tmpmaild.mail import addresses, cost, mime
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, NewMail, ParsedMail
from tmpmaild.scheduling.turns import FairScheduler, HeavySlot
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Storage

_HEAVY_BYTES = 1024 * 1024  # larger messages are handled one at a time, because each is copied several times
_OPERATOR_READ_MS = 1000
_RELEASE_INTERVAL_MS = 1000  # the minimum interval, because returned memory must be requested from the system again


class UnknownAddress(Struct, frozen=True, gc=False):
    """A recipient without an inbox; ``deliver`` creates the inbox."""

    address: str


Destination = str | UnknownAddress
"""A destination for ``deliver``: an inbox id or, with ``accept_unknown``, an address without an inbox."""


class Deliverer:
    """Looks up recipients; parses and stores messages.

    Parsing uses one of the sending client's turns, unless the message can be parsed quickly. After a large message has
    been parsed, ``release_memory`` is called in a thread, at most once a second. ``check`` is called after a message
    has been stored.
    """

    def __init__(
        self,
        storage: Storage,
        recipients: RecipientCache,
        factory: AddressFactory,
        scheduler: FairScheduler,
        audit: Audit,
        *,
        release_memory: Callable[[], None],
        check: Check | None,
        catcher: Catcher | None,
    ) -> None:
        self._storage = storage
        self._catcher = catcher
        self._recipients = recipients
        self._factory = factory
        self._scheduler = scheduler
        self._audit = audit
        self._clock = storage.clock
        self._release_memory = release_memory
        self._released_at_ms = 0
        self._check = check
        self._operator_refuses: Callable[[str], bool] | None = None
        self._operator_read_at_ms = 0

    @property
    def mail_domains(self) -> Domains:
        """The domains for which mail is accepted."""
        return self._factory.rules.accepting(self._clock())

    def has_room(self) -> bool:
        """Return whether new mail can be stored now."""
        return self._storage.has_room()

    def recipient_now(self, mailbox: Mailbox) -> str | None:
        """Return the id of a mailbox's inbox from the cache.

        If it is not cached, return None; the caller then calls ``recipient``.
        """
        inbox = self._recipients.get(addresses.inbox_address(mailbox), self._clock())
        return inbox.id if inbox else None

    async def recipient(self, mailbox: Mailbox, client: str | None = None) -> Destination:
        """Return the id of a mailbox's inbox; with ``accept_unknown``, the result may be an address without an inbox.

        ``client`` is limited to a client's share of the operator's inbox; None means that there is no limit. Raises
        ``MailboxFull``, and ``AddressNotFound`` if the address never existed, has expired or was deleted.
        """
        rules = self._factory.rules
        if rules.catch_all:
            mailbox = rules.with_domain(mailbox)
        elif addresses.is_operator(mailbox, self.mail_domains):
            return await self._operator(client)
        now_ms, address = self._clock(), addresses.inbox_address(mailbox)
        inbox = await self._storage.find_inbox(address, now_ms)
        if inbox is not None and inbox.expires_at_ms + rules.name_held_ms <= now_ms:
            inbox = None  # the name is available again
        if inbox is None and self._may_be_created(mailbox, address):
            return UnknownAddress(address)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            raise AddressNotFound("no live address")
        if inbox.full:
            raise MailboxFull("the inbox is full")
        self._recipients.put(inbox)
        return inbox.id

    async def _operator(self, client: str | None) -> str:
        """Return the operator's inbox.

        The share used for this check may be up to one second out of date; the storage repeats the check.
        """
        now_ms = self._clock()
        if client is not None:
            if self._operator_refuses is None or abs(now_ms - self._operator_read_at_ms) >= _OPERATOR_READ_MS:
                box = await self._storage.operator_box()
                self._operator_refuses, self._operator_read_at_ms = box.refuses, now_ms
            if self._operator_refuses(client):
                raise MailboxFull("the client's share of the operator's inbox is used up")
        return OPERATOR_INBOX_ID

    def _may_be_created(self, mailbox: Mailbox, address: str) -> bool:
        """Return whether mail to an address that has never existed creates the address."""
        rules = self._factory.rules
        if rules.catch_all:
            return True
        if rules.config.smtp.accept_unknown != "create" or mailbox.domain not in rules.own_domains:
            return False
        try:
            self._factory.allowed_local_part(address.rpartition("@")[0])
        except InvalidRequest:
            return False
        return True

    async def deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None = None
    ) -> str:
        """Store a message in all of its live inboxes; once the message is on disk, return its id in the first inbox.

        Inboxes that the message creates, and the space that it uses in the operator's inbox, are charged to
        ``creator``; if this is None, no client is charged. Raises ``AddressNotFound`` if no inbox remains,
        ``MailboxFull``, ``StorageFull``, ``StorageUnavailable``.
        """
        inbox_ids = [one for one in destinations if isinstance(one, str)]
        if len(inbox_ids) < len(destinations):
            envelope, inbox_ids = await self._create_unknown(envelope, destinations, creator)
        if cost.is_cheap(raw):
            return await self._store(
                envelope, inbox_ids, raw, mime.parse(raw, is_checked=self._check is not None), creator
            )
        with self._scheduler.heavy_slot() if len(raw) > _HEAVY_BYTES else nullcontext() as heavy_slot:
            parsed = await self._parse(raw, client_name(envelope.remote_ip), heavy_slot)
            return await self._store(envelope, inbox_ids, raw, parsed, creator)

    async def _create_unknown(
        self, envelope: Envelope, destinations: Sequence[Destination], creator: str | None
    ) -> tuple[Envelope, list[str]]:
        """Create the missing inboxes; return an envelope with the remaining recipients, and their inbox ids."""
        recipients, inbox_ids, client = [], [], client_name(envelope.remote_ip)
        # Create them concurrently, so that a thousand recipients' inboxes take only a few transactions.
        found = await asyncio.gather(*[self._inbox_id(one, creator, client) for one in destinations])
        for recipient, inbox_id in zip(envelope.recipients, found, strict=True):
            if inbox_id is not None:
                recipients.append(recipient)
                inbox_ids.append(inbox_id)
        if not inbox_ids:
            raise AddressNotFound("no recipient is left")
        return replace(envelope, recipients=tuple(recipients)), inbox_ids

    async def _inbox_id(self, destination: Destination, creator: str | None, client: str) -> str | None:
        """Return the id of an inbox, creating it if it does not exist; None if it has just been deleted."""
        if isinstance(destination, str):
            return destination
        try:
            inbox = await self._factory.create_for_recipient(destination.address, creator, client)
        except AddressTaken:
            # The inbox has been created since RCPT: by this message with a different spelling, or by another client.
            known = await self._storage.find_inbox(destination.address, self._clock())
            return known.id if known else None
        return inbox.id

    async def _parse(self, raw: bytes, client: str, heavy_slot: HeavySlot | None) -> ParsedMail:
        """Parse a message in one of the client's turns, even if the client is exempt from other limits."""

        def parse() -> ParsedMail:
            parsed = mime.parse(raw, is_checked=self._check is not None)
            now_ms = self._clock()
            if heavy_slot is not None and abs(now_ms - self._released_at_ms) >= _RELEASE_INTERVAL_MS:
                self._released_at_ms = now_ms
                self._release_memory()
            return parsed

        return await self._scheduler.run(parse, work_bytes=len(raw), client=client, heavy_slot=heavy_slot)

    async def _store(
        self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes, parsed: ParsedMail, creator: str | None
    ) -> str:
        client = client_name(envelope.remote_ip)
        mail = NewMail(envelope=envelope, inbox_ids=tuple(inbox_ids), raw=raw, parsed=parsed, client=creator)
        address = envelope.recipients[0]
        if self._catcher is not None:
            mail, address = self._catcher.with_all_mail(mail), ALL_MAIL
        try:
            stored = self._storage.add_message(mail)
            message_id = await self._audit.written(stored, "accepted", envelope.recipients, client)
        except (AddressNotFound, MailboxFull):
            for inbox_id in inbox_ids:
                self._recipients.forget(inbox_id)
            raise
        if self._check is not None:
            # The check is only queued here, and runs after the reply. Copies in other inboxes are checked when they are
            # read.
            asyncio.get_running_loop().call_soon(self._check, address, message_id, client)
        return message_id
