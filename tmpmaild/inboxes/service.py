"""The use cases: create an address, change it, deliver mail to it; ``Deliverer`` parses a mail and stores it.

No SMTP, no HTTP, no SQL. Reading is in ``reading.py``, ``viewing.py`` and ``following.py``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tmpmaild.checks import Mistakes
from tmpmaild.clients import LOCAL, client_name
from tmpmaild.errors import AddressNotFound, InvalidRequest, MailboxFull, MessageNotFound, RequestError
from tmpmaild.hostnames import Domains
from tmpmaild.inboxes.access import Access, feed_secret
from tmpmaild.inboxes.audit import Audit
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.caches import Caches, RecipientCache
from tmpmaild.inboxes.creating import AddressFactory, Destination, NewAddress, Rules, UnknownAddress
from tmpmaild.inboxes.faults import Fault, Faults, Refusals
from tmpmaild.inboxes.following import Bus, Follower
from tmpmaild.inboxes.reading import Check, MailReader
from tmpmaild.inboxes.viewing import Viewer
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.mail import addresses, mime
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Inbox, InboxChange, NewMail, ParsedMail, Webhook, counted
from tmpmaild.scheduling import FairScheduler, HeavyPlace
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Storage

_HEAVY_BYTES = 1024 * 1024  # larger mails go one at a time: parsing and storing one copies it several times
_OPERATOR_READ_MS = 1000
_GIVE_BACK_MS = 1000  # not more often: what is given back must be fetched from the system again


class InboxService:
    """Addresses and their mail: puts the parts of this package together. One instance per process.

    Its methods are what changes an inbox, and the way of a mail into it. What a client reads is in its parts, which
    callers use directly: ``mail``, ``viewer``, ``follower``, and ``blocks``, ``faults``, ``refusals``, ``webhooks``.

    What takes long is done in turns that ``scheduler`` gives to clients. ``choice`` picks one of a string's characters,
    ``new_token`` makes a secret.
    ``give_memory_back`` is called in a thread, at most once a second, after a large mail has been parsed. With
    ``check`` senders are checked: of new mail, and of older mail when it is looked at. ``hear`` must be called after
    each commit. ``rules`` are those of now.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        scheduler: FairScheduler,
        *,
        choice: Callable[[str], str],
        new_token: Callable[[], str],
        give_memory_back: Callable[[], None] = lambda: None,
        check: Check | None = None,
    ) -> None:
        self._storage = storage
        self.scheduler = scheduler
        self.rules, config = rules, rules.config
        self._clock = clock = storage.clock
        self.blocks = Blocks(clock)
        self.faults = Faults(allowed=config.smtp.faults)
        self.refusals = Refusals(clock, wanted=config.smtp.keep_refusals)
        self.webhooks = Webhooks(storage, config.webhooks.allow, senders_are_checked=check is not None)
        self._audit = audit = Audit(storage, config)
        self._factory = AddressFactory(
            storage, rules, self.blocks, self.faults, audit, choice=choice, new_token=new_token
        )
        self.caches = Caches(may_cache=storage.may_cache)
        self._recipients = self.caches.recipients
        self._deliverer = Deliverer(
            storage, self._recipients, scheduler, audit, give_memory_back=give_memory_back, check=check
        )
        self._operator_refuses: Callable[[str], bool] | None = None
        self._operator_read_at_ms = 0
        self.bus = Bus()
        self._access = Access(storage, self.caches, require_token=config.http.require_token)
        self.mail = MailReader(storage, self._access, self.caches, scheduler, hostname=config.host_name, check=check)
        self.viewer = Viewer(storage, self._access, self.caches, scheduler, new_secret=new_token)
        self.follower = Follower(self.mail, self._access, self.bus, clock=clock)
        storage.watch(self.bus.listened, self.bus.overflow, self.blocks.replace)

    def hear(self, changes: Sequence[InboxChange]) -> None:
        """Note a commit. In this order: listeners read, so what is outdated must be gone."""
        self.caches.update(changes)
        if self.faults.ordered:
            self.faults.update(changes)
        if self.bus.listeners:
            self.bus.publish(changes)

    def change_rules(self, rules: Rules) -> None:
        """Go by other rules from now on. Addresses and streams that exist go on."""
        self.rules = self._factory.rules = rules
        self._audit.config = config = rules.config
        self._access.require_token = config.http.require_token
        self.mail.hostname = config.host_name
        self._recipients.clear()  # they may be full by the new limits
        self.faults.allow(allowed=config.smtp.faults)
        self.refusals.want(wanted=config.smtp.keep_refusals)
        self.webhooks.allowed = config.webhooks.allow

    @property
    def mail_domains(self) -> Domains:
        """The domains whose mail is accepted."""
        return self.rules.accepting(self._clock())

    def stop_waiting(self) -> None:
        """Raise ``Stopping`` in all calls that wait for mail or events, now and later."""
        self.bus.stop()

    def has_room(self) -> bool:
        """Return whether new mail and addresses can be stored now."""
        return self._storage.has_room()

    def ensure_creatable(self, wanted: NewAddress) -> None:
        """Raise ``InvalidRequest`` with all that is wrong with an address that ``create`` is to create."""
        self._factory.ensure_creatable(wanted)

    async def create(self, wanted: NewAddress, creator: str | None, client: str = LOCAL) -> tuple[Inbox, str]:
        """Create an address; return its inbox with its owner token.

        ``creator`` is the client whose share the mail counts against, None for none; ``client`` is the one that the
        audit names. Raises ``InvalidRequest``, ``AddressTaken``, ``MailboxFull`` while that share is used up,
        ``StorageFull``.
        """
        inbox, token = await self._factory.create(wanted, creator, client)
        if wanted.webhook is not None:
            await self._set_first_webhook(inbox, wanted.webhook)
        return inbox, token

    async def _set_first_webhook(self, inbox: Inbox, webhook: Webhook) -> None:
        """Set the webhook of a new inbox, or end that: nobody will have its token."""
        try:
            await self.webhooks.set(inbox.id, webhook)
        except RequestError:
            with suppress(RequestError):
                await self._end(inbox)
            raise

    async def find(self, address: str, token: str | None = None) -> Inbox:
        """Find a live address as a client wrote it.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return await self._access.find(address, token)

    def feed_secret(self, inbox: Inbox) -> str | None:
        """Return the secret that a feed of an inbox needs in its URL; None if it needs none."""
        return feed_secret(inbox) if self._access.needs_token(inbox) else None

    def _new_expiry_ms(self, inbox: Inbox, lifetime_seconds: int, now_ms: int) -> int:
        """Return the expiry so long from now. Raises ``InvalidRequest``."""
        last_ms = self.rules.extendable_until_ms(inbox)
        expires_at_ms = now_ms + lifetime_seconds * 1000
        if expires_at_ms > last_ms:
            left_seconds, at_most_seconds = (last_ms - now_ms) // 1000, (last_ms - inbox.created_at_ms) // 1000
            at_most = counted(at_most_seconds, "second")
            expected = f"expected at most {left_seconds} now: an address here lives {at_most} at most"
            raise InvalidRequest(("/expires_in_seconds", expected))
        return expires_at_ms

    async def change(
        self,
        address: str,
        token: str,
        lifetime_seconds: int | None = None,
        faults: Sequence[Fault] | None = None,
        webhook: Webhook | UnsetType | None = UNSET,
        *,
        mistakes: Mistakes | None = None,
    ) -> Inbox:
        """Set the expiry to ``lifetime_seconds`` from now; the faults and the webhook in place of those before.

        Raises ``AddressNotFound``, ``AddressExpired``, and ``InvalidRequest`` beyond what the operator allows, or with
        ``mistakes`` that were found before; then nothing is changed.
        """
        inbox = await self._access.find_for_change(address, token)
        mistakes, now_ms = mistakes or Mistakes(), self._clock()
        mistakes.of(self.faults.ensure_possible, faults or (), inbox.id)
        expires_at_ms = lifetime_seconds and mistakes.of(self._new_expiry_ms, inbox, lifetime_seconds, now_ms)
        mistakes.end()
        if expires_at_ms is not None:
            await self._storage.move_expiry(inbox.id, expires_at_ms, now_ms)
            inbox = replace(inbox, expires_at_ms=expires_at_ms)
        if faults is not None:
            self.faults.order(inbox, faults)
        if webhook is not UNSET:
            await self.webhooks.set(inbox.id, webhook)
        return inbox

    async def delete(self, address: str, token: str) -> None:
        """Delete an address and its mail. Raises ``AddressNotFound``, ``AddressExpired``."""
        inbox = await self._access.find_for_change(address, token)
        await self._end(inbox)

    async def _end(self, inbox: Inbox) -> None:
        now_ms = self._clock()
        await self._storage.move_expiry(inbox.id, now_ms, now_ms)

    async def delete_message(self, address: str, message_id: str, token: str) -> None:
        """Delete one message. Raises as ``delete``, and ``MessageNotFound``."""
        inbox = await self._access.find_for_change(address, token)
        if not await self._storage.delete_messages(inbox.id, [message_id]):
            raise MessageNotFound("no such message in this inbox")

    async def delete_messages(
        self, address: str, token: str, message_ids: Collection[str] | None = None, *, up_to: str | None = None
    ) -> int:
        """Delete those of ``message_ids`` that are there, else all up to ``up_to``, else all; return how many.

        Raises as ``delete``.
        """
        inbox = await self._access.find_for_change(address, token)
        return await self._storage.delete_messages(inbox.id, message_ids, up_to=up_to)

    def recipient_now(self, mailbox: Mailbox) -> str | None:
        """Return the id of a mailbox's inbox if it is known without waiting; None: call ``recipient``."""
        inbox = self._recipients.get(addresses.inbox_address(mailbox), self._clock())
        return inbox.id if inbox else None

    async def recipient(self, mailbox: Mailbox, client: str | None = None) -> Destination:
        """Return the id of a mailbox's inbox; with ``accept_unknown`` it may be an address without one.

        ``client`` has a share of the operator's inbox; None is a client without limits.
        Raises ``AddressNotFound`` alike for what never existed, has expired, or was deleted; ``MailboxFull``.
        """
        if addresses.is_operator(mailbox, self.mail_domains):
            return await self._operator(client)
        now_ms, address = self._clock(), addresses.inbox_address(mailbox)
        inbox = await self._storage.find_inbox(address, now_ms)
        if inbox is None and self._factory.may_be_created(mailbox, address):
            return UnknownAddress(address)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            raise AddressNotFound("no live address")
        if inbox.full:
            raise MailboxFull("the inbox takes no more")
        self._recipients.put(inbox)
        return inbox.id

    async def _operator(self, client: str | None) -> str:
        """Return the operator's inbox, as it was within the last second: the storage checks the share again."""
        now_ms = self._clock()
        if client is not None:
            if self._operator_refuses is None or abs(now_ms - self._operator_read_at_ms) >= _OPERATOR_READ_MS:
                box = await self._storage.operator_box()
                self._operator_refuses, self._operator_read_at_ms = box.refuses, now_ms
            if self._operator_refuses(client):
                raise MailboxFull("the client's share of the operator's inbox is used up")
        return OPERATOR_INBOX_ID

    def deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None = None
    ) -> Awaitable[str]:
        """Store a mail in all of its inboxes that are live; it is on disk when the first one's message id is returned.

        ``creator`` is the client whose share pays for inboxes that the mail creates, and in the operator's inbox, None
        for nobody's. Raises ``AddressNotFound`` when no inbox is left, ``MailboxFull``, ``StorageFull``,
        ``StorageUnavailable``.
        """
        for destination in destinations:
            if isinstance(destination, UnknownAddress):
                return self._create_and_deliver(envelope, destinations, raw, creator)
        return self._deliverer.deliver(envelope, cast("Sequence[str]", destinations), raw, creator)

    async def _create_and_deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None
    ) -> str:
        envelope, inbox_ids = await self._factory.create_unknown(envelope, destinations, creator)
        return await self._deliverer.deliver(envelope, inbox_ids, raw, creator)

    def forget_expired(self) -> None:
        """Drop expired entries from memory."""
        now_ms = self._clock()
        self.caches.forget_expired(now_ms)
        if self.blocks.has_any:
            self.blocks.forget_expired()
        if self.faults.ordered:
            self.faults.forget_expired(now_ms)
        if self.refusals.wanted:
            self.refusals.forget_expired(now_ms)


class Deliverer:
    """Parses mails, in turns of their senders unless it takes hardly any time, and stores them.

    ``give_memory_back`` is called in a thread, at most once a second, after a
    large mail has been parsed, ``check`` after a mail has been stored.
    """

    def __init__(
        self,
        storage: Storage,
        recipients: RecipientCache,
        scheduler: FairScheduler,
        audit: Audit,
        *,
        give_memory_back: Callable[[], None],
        check: Check | None,
    ) -> None:
        self._storage = storage
        self._recipients = recipients
        self._audit = audit
        self._clock = storage.clock
        self._give_memory_back = give_memory_back
        self._check = check
        self._gave_back_ms = 0
        self._scheduler = scheduler

    def deliver(
        self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes, client: str | None = None
    ) -> Awaitable[str]:
        """Parse a mail and store it in its live inboxes; return the first message id once it is on disk.

        Raises ``AddressNotFound`` when none of the inboxes is left, ``MailboxFull``, ``StorageFull``,
        ``StorageUnavailable``.
        """
        if len(raw) > _HEAVY_BYTES:
            return self._deliver_heavy(envelope, inbox_ids, raw, client)
        return self._deliver(envelope, inbox_ids, raw, client)

    async def _deliver_heavy(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes, client: str | None) -> str:
        with self._scheduler.heavy_place() as place:
            return await self._deliver(envelope, inbox_ids, raw, client, place)

    def _parse(self, raw: bytes) -> ParsedMail:
        parsed = mime.parse(raw, is_checked=self._check is not None)
        now_ms = self._clock()
        if len(raw) > _HEAVY_BYTES and abs(now_ms - self._gave_back_ms) >= _GIVE_BACK_MS:
            self._gave_back_ms = now_ms
            self._give_memory_back()
        return parsed

    async def _deliver(
        self,
        envelope: Envelope,
        inbox_ids: Sequence[str],
        raw: bytes,
        client: str | None,
        heavy_place: HeavyPlace | None = None,
    ) -> str:
        sending = client_name(envelope.remote_ip)  # also of clients that are exempt from limits
        if mime.is_cheap(raw):
            parsed = mime.parse(raw, is_checked=self._check is not None)
        else:
            parsed = await self._scheduler.run(
                self._parse, raw, work_bytes=len(raw), client=sending, heavy_place=heavy_place
            )
        mail = NewMail(envelope=envelope, inbox_ids=tuple(inbox_ids), raw=raw, parsed=parsed, client=client)
        try:
            stored = self._storage.add_message(mail)
            message_id = await self._audit.written(stored, "accepted", envelope.recipients, sending)
        except (AddressNotFound, MailboxFull):
            for inbox_id in inbox_ids:
                self._recipients.forget(inbox_id)
            raise
        if self._check is not None:
            # After its sender was answered. In the other inboxes of the mail it is checked when it is looked at.
            asyncio.get_running_loop().call_soon(self._check, envelope.recipients[0], message_id, sending)
        return message_id
