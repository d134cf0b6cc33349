"""The use cases: create an address, deliver mail to it, read the mail. No SMTP, no HTTP, no SQL."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressNotFound, AddressTaken, InvalidRequest, MailboxFull, StorageFull
from tmpmaild.inboxes.access import Access, digest, is_holder
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.delivering import Deliverer
from tmpmaild.inboxes.events import Bus
from tmpmaild.inboxes.faults import Fault, Faults
from tmpmaild.inboxes.following import Follower
from tmpmaild.inboxes.reading import MailReader
from tmpmaild.inboxes.recipients import RecipientCache
from tmpmaild.inboxes.viewing import Viewer
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import LocalPartError, Mailbox
from tmpmaild.model import Envelope, Inbox, InboxChange, NewInbox
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Storage

_RANDOM_NAME_TRIES = 5


class UnknownAddress(Struct, frozen=True, gc=False):
    """A recipient that has no inbox yet: ``deliver`` creates it."""

    address: str


Destination = str | UnknownAddress
"""Where ``deliver`` stores a mail: an inbox id, or with ``accept_unknown`` an address that has no inbox yet."""


class NewAddress(Struct, frozen=True):
    """An address that a client wants; with None the service chooses."""

    local_part: str | None = None
    domain: str | None = None
    private: bool = False
    lifetime_seconds: int | None = None
    faults: tuple[Fault, ...] = ()


class Rules(Struct, frozen=True):
    """What the operator has configured: the domains (the first is the default), the lifetime, who may read.

    ``retired`` domains take no new addresses; each is kept until a time for those that it has.
    ``hostname`` is our name in the ``Received`` lines of sources. An address may live up to ``max_lifetime_ms`` after
    its creation, if that is more than ``lifetime_ms``. With ``accept_unknown`` mail to an address that never existed
    creates it. With ``faults`` holders of addresses may order faults.
    """

    domains: tuple[str, ...]
    lifetime_ms: int
    require_token: bool = False
    hostname: str = "localhost"
    max_lifetime_ms: int = 0
    accept_unknown: bool = False
    retired: Mapping[str, int] = {}
    faults: bool = False


class InboxService:
    """Addresses and their mail. One instance per process; all collaborators are arguments.

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
        self._choice = choice
        self._new_token = new_token
        self.blocks = Blocks(clock)
        self.faults = Faults(allowed=rules.faults)
        # Where other daemons end inboxes too, what was read a moment ago says nothing: it is read each time.
        self._recipients = RecipientCache() if storage.shared is None else RecipientCache(0)
        self._deliverer = Deliverer(storage, self._recipients, clock=clock, give_memory_back=give_memory_back)
        self._bus = Bus()
        self._access = Access(storage, clock, require_token=rules.require_token)
        self.mail = MailReader(storage, self._access, clock=clock, hostname=rules.hostname)
        self.viewer = Viewer(storage, self._access, clock=clock, new_secret=new_token)
        self.follower = Follower(self.mail, self._access, self._bus, clock=clock)
        storage.on_committed(self._on_committed)
        storage.watch(self._bus.listened, self._bus.overflow)
        storage.policy.watch_blocks(self.blocks.replace)

    def change_rules(self, rules: Rules) -> None:
        """Go by other rules from now on. Addresses and streams that exist go on."""
        self._rules = rules
        self._access.require_token = rules.require_token
        self.mail.hostname = rules.hostname
        self._recipients.clear()  # they may be full by the new limits
        self.faults.allow(allowed=rules.faults)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that new addresses can have; the first is the default."""
        return self._rules.domains

    @property
    def mail_domains(self) -> Sequence[str]:
        """The domains whose mail is accepted: also those that were retired while their addresses may live."""
        rules = self._rules
        if not rules.retired:
            return rules.domains
        now_ms = self._clock()
        return (*rules.domains, *(domain for domain, until_ms in rules.retired.items() if now_ms < until_ms))

    @property
    def lifetime_ms(self) -> int:
        """How long an address lives that asks for no other lifetime."""
        return self._rules.lifetime_ms

    @property
    def max_lifetime_ms(self) -> int:
        """How long an address may live, from its creation."""
        return max(self._rules.max_lifetime_ms, self._rules.lifetime_ms)

    def stop_waiting(self) -> None:
        """Raise ``Stopping`` in all calls that wait for mail or events, now and later."""
        self._bus.stop()

    def has_room(self) -> bool:
        """Return whether new mail and addresses can be stored now."""
        return self._storage.has_room()

    async def create(self, wanted: NewAddress, creator: str | None) -> tuple[Inbox, str]:
        """Create an address; return its inbox with its owner token.

        ``creator`` is the client whose share the mail counts against, None for none. Raises ``InvalidRequest``,
        ``AddressTaken``, ``MailboxFull`` while that share is used up, ``StorageFull``.
        """
        self.faults.ensure_possible(wanted.faults)
        if not self.has_room():
            raise StorageFull("no room for a new address")
        domain = self._domain(wanted.domain)
        if wanted.local_part is not None:
            return await self._create(self._checked(wanted.local_part), domain, wanted, creator)
        for _ in range(_RANDOM_NAME_TRIES):
            try:
                return await self._create(addresses.random_local_part(self._choice), domain, wanted, creator)
            except AddressTaken:
                continue
        raise AddressTaken("no free name was found")

    async def find(self, address: str, token: str | None = None) -> Inbox:
        """Find a live address as a client wrote it.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return await self._access.find(address, token)

    async def extend(self, address: str, token: str, lifetime_seconds: int) -> Inbox:
        """Set the expiry to ``lifetime_seconds`` from now, later or earlier than before.

        Raises ``AddressNotFound``, ``AddressExpired``, and ``InvalidRequest`` beyond what the operator allows.
        """
        return await self._extend(await self._access.find_for_change(address, token), lifetime_seconds)

    async def _extend(self, inbox: Inbox, lifetime_seconds: int) -> Inbox:
        now_ms = self._clock()
        last_ms = self.extendable_until_ms(inbox)
        expires_at_ms = now_ms + lifetime_seconds * 1000
        if expires_at_ms > last_ms:
            left_seconds, at_most_seconds = (last_ms - now_ms) // 1000, (last_ms - inbox.created_at_ms) // 1000
            expected = f"expected at most {left_seconds} now: an address here lives {at_most_seconds} seconds at most"
            raise InvalidRequest(("/expires_in_seconds", expected))
        await self._storage.move_expiry(inbox.id, expires_at_ms, now_ms)
        return replace(inbox, expires_at_ms=expires_at_ms)

    async def change(
        self, address: str, token: str, lifetime_seconds: int | None, faults: Sequence[Fault] | None
    ) -> Inbox:
        """Set the expiry as ``extend``, the faults in place of those before, or both. Raises as ``extend``."""
        inbox = await self._access.find_for_change(address, token)
        self.faults.ensure_possible(faults or (), inbox.id)
        if lifetime_seconds is not None:
            inbox = await self._extend(inbox, lifetime_seconds)
        if faults is not None:
            self.faults.order(inbox, faults)
        return inbox

    def faults_left(self, inbox: Inbox, token: str | None) -> Sequence[Fault] | None:
        """Return the faults that are still to come, to the holder only; None where there can be none."""
        return self.faults.left(inbox.id) if self.faults.allowed and is_holder(inbox, token) else None

    def extendable_until_ms(self, inbox: Inbox) -> int:
        """Return the latest expiry that ``extend`` may set, never before the present one."""
        last_ms = inbox.created_at_ms + self.max_lifetime_ms
        kept_until_ms = self._rules.retired.get(inbox.address.rpartition("@")[2], last_ms)
        # The operator may have allowed more when it was created or extended.
        return max(min(last_ms, kept_until_ms), inbox.expires_at_ms)

    async def delete(self, address: str, token: str) -> None:
        """Delete an address and its mail. Raises ``AddressNotFound``, ``AddressExpired``."""
        inbox = await self._access.find_for_change(address, token)
        await self._storage.delete_inbox(inbox.id, self._clock())

    async def delete_message(self, address: str, message_id: str, token: str) -> None:
        """Delete one message. Raises as ``delete``, and ``MessageNotFound``."""
        inbox = await self._access.find_for_change(address, token)
        await self._storage.delete_message(inbox.id, message_id)

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
        if inbox is None and self._may_be_created(mailbox, address):
            return UnknownAddress(address)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            raise AddressNotFound("no live address")
        if inbox.full:
            raise MailboxFull("the inbox takes no more")
        self._recipients.put(inbox)
        return inbox.id

    def _may_be_created(self, mailbox: Mailbox, address: str) -> bool:
        """Return whether mail creates this address, which never was."""
        if not self._rules.accept_unknown or mailbox.domain not in self._rules.domains:
            return False
        try:
            self._checked(address.rpartition("@")[0])
        except InvalidRequest:
            return False
        return True

    def _checked(self, local_part: str) -> str:
        try:
            name = addresses.check_local_part(local_part)
        except LocalPartError as error:
            raise InvalidRequest(("/local_part", str(error))) from error
        if self.blocks.has_name(name):
            raise InvalidRequest(("/local_part", "this name is reserved"))  # who asks need not know by whom
        return name

    async def _operator(self) -> str:
        if await self._storage.operator_is_full():
            raise MailboxFull("the operator's inbox takes no more")
        return OPERATOR_INBOX_ID

    async def deliver(
        self, envelope: Envelope, destinations: Sequence[Destination], raw: bytes, creator: str | None = None
    ) -> str:
        """Store a mail in all of its inboxes that are live; it is on disk when the first one's message id is returned.

        ``creator`` is the client whose share pays for inboxes that the mail creates, None for nobody's. Raises
        ``AddressNotFound`` when no inbox is left, ``MailboxFull``, ``StorageFull``, ``StorageUnavailable``.
        """
        if any(isinstance(destination, UnknownAddress) for destination in destinations):
            envelope, inbox_ids = await self._with_unknown_created(envelope, destinations, creator)
        else:
            inbox_ids = cast("Sequence[str]", destinations)
        return await self._deliverer.deliver(envelope, inbox_ids, raw)

    async def _with_unknown_created(
        self, envelope: Envelope, destinations: Sequence[Destination], creator: str | None
    ) -> tuple[Envelope, Sequence[str]]:
        """Create the inboxes that do not exist yet; return the recipients that are left, and their inbox ids."""
        recipients, inbox_ids = [], []
        for recipient, destination in zip(envelope.recipients, destinations, strict=True):
            inbox_id = await self._inbox_id(destination, creator)
            if inbox_id is not None:
                recipients.append(recipient)
                inbox_ids.append(inbox_id)
        if not inbox_ids:
            raise AddressNotFound("no recipient is left")
        return replace(envelope, recipients=tuple(recipients)), inbox_ids

    async def _inbox_id(self, destination: Destination, creator: str | None) -> str | None:
        """Return the id of an inbox, created now if it does not exist; None if it has just gone."""
        if isinstance(destination, str):
            return destination
        local_part, _, domain = destination.address.rpartition("@")
        try:
            inbox, _ = await self._create(local_part, domain, NewAddress(), creator)
        except AddressTaken:  # by another form of it in this mail, or by somebody since RCPT
            known = await self._storage.find_inbox(destination.address, self._clock())
            return known.id if known else None
        return inbox.id

    def forget_expired(self) -> None:
        """Drop expired entries from memory."""
        now_ms = self._clock()
        self._recipients.forget_expired(now_ms)
        self.blocks.forget_expired()
        self.mail.forget_expired()
        self.viewer.forget_expired()
        self.faults.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._recipients.update(changes)
        self.faults.update(changes)
        self._bus.publish(changes)

    def _domain(self, domain: str | None) -> str:
        if domain is None:
            return self._rules.domains[0]
        folded = domain.lower()
        if folded not in self._rules.domains:
            raise InvalidRequest(("/domain", f"expected one of {', '.join(self._rules.domains)}"))
        return folded

    def _lifetime_ms(self, seconds: int | None) -> int:
        if seconds is None:
            return self.lifetime_ms
        if seconds * 1000 > self.max_lifetime_ms:
            raise InvalidRequest(("/expires_in_seconds", f"expected at most {self.max_lifetime_ms // 1000}"))
        return seconds * 1000

    async def _create(self, local_part: str, domain: str, wanted: NewAddress, creator: str | None) -> tuple[Inbox, str]:
        token = self._new_token()
        now_ms = self._clock()
        new = NewInbox(
            address=f"{local_part}@{domain}",
            created_at_ms=now_ms,
            expires_at_ms=now_ms + self._lifetime_ms(wanted.lifetime_seconds),
            private=wanted.private,
            token_hash=digest(token),
            creator=creator,
        )
        inbox = await self._storage.create_inbox(new)
        self.faults.order(inbox, wanted.faults)
        return inbox, token
