"""The use cases: create an address, deliver mail to it, read the mail. No SMTP, no HTTP, no SQL."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tmpmaild.checks import Mistakes
from tmpmaild.errors import AddressNotFound, InvalidRequest, MailboxFull, RequestError
from tmpmaild.hostnames import Domains
from tmpmaild.inboxes.access import Access, feed_secret
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.caches import RecipientCache
from tmpmaild.inboxes.creating import AddressFactory, Destination, NewAddress, Rules, UnknownAddress
from tmpmaild.inboxes.delivering import Check, Deliverer
from tmpmaild.inboxes.events import Bus
from tmpmaild.inboxes.faults import Fault, Faults, Refusals
from tmpmaild.inboxes.following import Follower
from tmpmaild.inboxes.reading import MailReader
from tmpmaild.inboxes.viewing import Viewer
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Inbox, InboxChange, counted
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Storage
from tmpmaild.webhooks.model import Webhook
from tmpmaild.webhooks.owners import Webhooks


class InboxService:
    """Addresses and their mail. One instance per process; all collaborators are arguments.

    Its methods are what changes an inbox, and the way of a mail into it. What a client reads is in its parts, which
    callers use directly: ``mail``, ``viewer``, ``follower``, and ``blocks``, ``faults``, ``refusals``, ``webhooks``.

    ``clock`` gives Unix milliseconds, ``choice`` picks one of a string's characters, ``new_token`` makes a secret.
    ``give_memory_back`` is called in a thread, at most once a second, after a large mail has been parsed.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        *,
        clock: Callable[[], int],
        choice: Callable[[str], str],
        new_token: Callable[[], str],
        give_memory_back: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._rules = rules
        self._clock = clock
        self.blocks = Blocks(clock)
        self.faults = Faults(allowed=rules.faults)
        self.refusals = Refusals(clock, wanted=rules.keep_refusals)
        self.webhooks = Webhooks(storage, rules.webhooks, clock)
        self._factory = AddressFactory(
            storage, rules, self.blocks, self.faults, clock=clock, choice=choice, new_token=new_token
        )
        self._recipients = RecipientCache(storage.is_fresh)
        self._deliverer = Deliverer(storage, self._recipients, clock=clock, give_memory_back=give_memory_back)
        self._bus = Bus()
        self._access = Access(storage, clock, require_token=rules.require_token)
        self.mail = MailReader(storage, self._access, clock=clock, hostname=rules.hostname)
        self.viewer = Viewer(storage, self._access, clock=clock, new_secret=new_token)
        self.follower = Follower(self.mail, self._access, self._bus, clock=clock)
        storage.on_committed(self._on_committed)
        storage.watch(self._bus.listened, self._bus.overflow)
        storage.policy.watch_blocks(self.blocks.replace)

    def check_senders(self, check: Check) -> None:
        """Have new mail checked as to who sent it, and older mail when it is looked at."""
        self._deliverer.check = self.mail.check = check
        self.webhooks.senders_are_checked = True

    def change_rules(self, rules: Rules) -> None:
        """Go by other rules from now on. Addresses and streams that exist go on."""
        self._rules = self._factory.rules = rules
        self._access.require_token = rules.require_token
        self.mail.hostname = rules.hostname
        self._recipients.clear()  # they may be full by the new limits
        self.faults.allow(allowed=rules.faults)
        self.refusals.want(wanted=rules.keep_refusals)
        self.webhooks.allowed = rules.webhooks

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that new addresses can have, as the operator wrote them; the first is the default."""
        return self._rules.domains

    @property
    def mail_domains(self) -> Domains:
        """The domains whose mail is accepted."""
        return self._rules.accepting(self._clock())

    @property
    def lifetime_ms(self) -> int:
        """How long an address lives that asks for no other lifetime."""
        return self._rules.lifetime_ms

    @property
    def max_lifetime_ms(self) -> int:
        """How long an address may live, from its creation."""
        return self._rules.longest_lifetime_ms

    def stop_waiting(self) -> None:
        """Raise ``Stopping`` in all calls that wait for mail or events, now and later."""
        self._bus.stop()

    def has_room(self) -> bool:
        """Return whether new mail and addresses can be stored now."""
        return self._storage.has_room()

    def ensure_creatable(self, wanted: NewAddress) -> None:
        """Raise ``InvalidRequest`` with all that is wrong with an address that ``create`` is to create."""
        self._factory.ensure_creatable(wanted)

    async def create(self, wanted: NewAddress, creator: str | None) -> tuple[Inbox, str]:
        """Create an address; return its inbox with its owner token.

        ``creator`` is the client whose share the mail counts against, None for none. Raises ``InvalidRequest``,
        ``AddressTaken``, ``MailboxFull`` while that share is used up, ``StorageFull``.
        """
        inbox, token = await self._factory.create(wanted, creator)
        if wanted.webhook is not None:
            await self._set_first_webhook(inbox, wanted.webhook)
        return inbox, token

    async def _set_first_webhook(self, inbox: Inbox, webhook: Webhook) -> None:
        """Set the webhook of a new inbox, or end that: nobody will have its token."""
        try:
            await self.webhooks.set(inbox.id, webhook)
        except RequestError:
            with suppress(RequestError):
                await self._storage.delete_inbox(inbox.id, self._clock())
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
        last_ms = self._rules.extendable_until_ms(inbox)
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

    def extendable_until_ms(self, inbox: Inbox) -> int:
        """Return the latest expiry that ``change`` may set, never before the present one."""
        return self._rules.extendable_until_ms(inbox)

    async def delete(self, address: str, token: str) -> None:
        """Delete an address and its mail. Raises ``AddressNotFound``, ``AddressExpired``."""
        inbox = await self._access.find_for_change(address, token)
        await self._storage.delete_inbox(inbox.id, self._clock())

    async def delete_message(self, address: str, message_id: str, token: str) -> None:
        """Delete one message. Raises as ``delete``, and ``MessageNotFound``."""
        inbox = await self._access.find_for_change(address, token)
        await self._storage.delete_message(inbox.id, message_id)

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

    async def recipient(self, mailbox: Mailbox) -> Destination:
        """Return the id of a mailbox's inbox; with ``accept_unknown`` it may be an address without one.

        Raises ``AddressNotFound`` alike for what never existed, has expired, or was deleted; ``MailboxFull``.
        """
        if addresses.is_operator(mailbox, self.mail_domains):
            return await self._operator()
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

    async def _operator(self) -> str:
        if await self._storage.operator_is_full():
            raise MailboxFull("the operator's inbox takes no more")
        return OPERATOR_INBOX_ID

    def deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None = None
    ) -> Awaitable[str]:
        """Store a mail in all of its inboxes that are live; it is on disk when the first one's message id is returned.

        ``creator`` is the client whose share pays for inboxes that the mail creates, None for nobody's. Raises
        ``AddressNotFound`` when no inbox is left, ``MailboxFull``, ``StorageFull``, ``StorageUnavailable``.
        """
        for destination in destinations:
            if isinstance(destination, UnknownAddress):
                return self._create_and_deliver(envelope, destinations, raw, creator)
        return self._deliverer.deliver(envelope, cast("Sequence[str]", destinations), raw)

    async def _create_and_deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None
    ) -> str:
        envelope, inbox_ids = await self._factory.create_unknown(envelope, destinations, creator)
        return await self._deliverer.deliver(envelope, inbox_ids, raw)

    def forget_expired(self) -> None:
        """Drop expired entries from memory."""
        now_ms = self._clock()
        self._recipients.forget_expired(now_ms)
        self.blocks.forget_expired()
        self.mail.forget_expired()
        self.faults.forget_expired(now_ms)
        self.refusals.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._recipients.update(changes)
        self.faults.update(changes)
        self._bus.publish(changes)
