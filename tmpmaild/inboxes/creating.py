"""Creates addresses: those that clients want, and with ``accept_unknown`` those that mail is for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.checks import Mistakes
from tmpmaild.clients import client_name
from tmpmaild.config.settings import Config
from tmpmaild.errors import AddressNotFound, AddressTaken, InvalidRequest, StorageFull
from tmpmaild.hostnames import Domains, domains, to_ascii
from tmpmaild.inboxes.access import digest
from tmpmaild.inboxes.audit import Audit
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.faults import Fault, Faults
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import LocalPartError, Mailbox
from tmpmaild.model import Envelope, Inbox, NewInbox, Webhook
from tmpmaild.storage.base import Storage

_RANDOM_NAME_TRIES = 5


class Rules(Struct, frozen=True):
    """What the operator has configured, and the ``retired`` domains.

    These take no new addresses; each is kept until a time for those that it has.
    """

    config: Config
    retired: Mapping[str, int] = {}

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains for new addresses, the first by default; ``*.NAME`` stands for every name below it."""
        return self.config.domains

    def extendable_until_ms(self, inbox: Inbox) -> int:
        """Return the latest expiry that may be set, never before the present one."""
        last_ms = inbox.created_at_ms + self.config.addresses.max_lifetime_seconds * 1000
        kept_until_ms = self._kept_until_ms(inbox.address.rpartition("@")[2], last_ms)
        # The operator may have allowed more when it was created or extended.
        return max(min(last_ms, kept_until_ms), inbox.expires_at_ms)

    def _kept_until_ms(self, domain: str, last_ms: int) -> int:
        if domain in self.ours:
            return last_ms
        return max((until_ms for name, until_ms in self.retired.items() if domain in domains((name,))), default=last_ms)

    @property
    def ours(self) -> Domains:
        """The domains that addresses can be created at, those that a wildcard stands for among them."""
        return domains(self.domains)

    def accepting(self, now_ms: int) -> Domains:
        """Return the domains whose mail is accepted: also those that were retired while their addresses may live."""
        if not self.retired:
            return self.ours
        return domains((*self.domains, *(name for name, until_ms in self.retired.items() if now_ms < until_ms)))

    def domain(self, wanted: str | None) -> str:
        """Return the domain of a new address. Raises ``InvalidRequest``."""
        if wanted is None:
            return self.domains[0]
        with suppress(ValueError):
            if (name := to_ascii(wanted)) in self.ours:
                return name
        raise InvalidRequest(("/domain", f"expected one of {', '.join(self.domains)}"))

    def lifetime_of(self, wanted_seconds: int | None) -> int:
        """Return the lifetime of a new address in milliseconds. Raises ``InvalidRequest``."""
        configured = self.config.addresses
        if wanted_seconds is None:
            return configured.lifetime_seconds * 1000
        if wanted_seconds > configured.max_lifetime_seconds:
            raise InvalidRequest(("/expires_in_seconds", f"expected at most {configured.max_lifetime_seconds}"))
        return wanted_seconds * 1000


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
    webhook: Webhook | None = None


class AddressFactory:
    """Creates addresses by ``rules``, which may be replaced. The arguments are those of ``InboxService``."""

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        blocks: Blocks,
        faults: Faults,
        audit: Audit,
        *,
        choice: Callable[[str], str],
        new_token: Callable[[], str],
    ) -> None:
        self.rules = rules
        self._storage = storage
        self._blocks = blocks
        self._faults = faults
        self._audit = audit
        self._clock = storage.clock
        self._choice = choice
        self._new_token = new_token

    def ensure_creatable(self, wanted: NewAddress) -> None:
        """See ``InboxService.ensure_creatable``."""
        mistakes = Mistakes()
        domain = mistakes.of(self.rules.domain, wanted.domain)
        name = None if wanted.local_part is None else mistakes.of(self._checked, wanted.local_part)
        if domain is not None:
            mistakes.of(_address, name or "x" * addresses.RANDOM_LENGTH, domain)
        mistakes.of(self.rules.lifetime_of, wanted.lifetime_seconds)
        mistakes.of(self._faults.ensure_possible, wanted.faults)
        mistakes.end()

    async def create(self, wanted: NewAddress, creator: str | None, client: str) -> tuple[Inbox, str]:
        """See ``InboxService.create``."""
        self._faults.ensure_possible(wanted.faults)
        if not self._storage.has_room():
            raise StorageFull("no room for a new address")
        domain = self.rules.domain(wanted.domain)
        if wanted.local_part is not None:
            return await self._create(self._checked(wanted.local_part), domain, wanted, creator, client)
        for _ in range(_RANDOM_NAME_TRIES):
            try:
                return await self._create(addresses.random_local_part(self._choice), domain, wanted, creator, client)
            except AddressTaken:
                continue
        raise AddressTaken("no free name was found")

    def may_be_created(self, mailbox: Mailbox, address: str) -> bool:
        """Return whether mail creates this address, which never was."""
        if self.rules.config.smtp.accept_unknown != "create" or mailbox.domain not in self.rules.ours:
            return False
        try:
            self._checked(address.rpartition("@")[0])
        except InvalidRequest:
            return False
        return True

    async def create_unknown(
        self, envelope: Envelope, destinations: Sequence[Destination], creator: str | None
    ) -> tuple[Envelope, Sequence[str]]:
        """Create the inboxes that do not exist yet; return the recipients that are left, and their inbox ids."""
        recipients, inbox_ids = [], []
        for recipient, destination in zip(envelope.recipients, destinations, strict=True):
            inbox_id = await self._inbox_id(destination, creator, client_name(envelope.remote_ip))
            if inbox_id is not None:
                recipients.append(recipient)
                inbox_ids.append(inbox_id)
        if not inbox_ids:
            raise AddressNotFound("no recipient is left")
        return replace(envelope, recipients=tuple(recipients)), inbox_ids

    async def _inbox_id(self, destination: Destination, creator: str | None, client: str) -> str | None:
        """Return the id of an inbox, created now if it does not exist; None if it has just gone."""
        if isinstance(destination, str):
            return destination
        local_part, _, domain = destination.address.rpartition("@")
        try:
            inbox, _ = await self._create(local_part, domain, NewAddress(), creator, client)
        except AddressTaken:  # by another form of it in this mail, or by somebody since RCPT
            known = await self._storage.find_inbox(destination.address, self._clock())
            return known.id if known else None
        return inbox.id

    def _checked(self, local_part: str) -> str:
        try:
            name = addresses.check_local_part(local_part)
        except LocalPartError as error:
            raise InvalidRequest(("/local_part", str(error))) from error
        if self._blocks.has_name(name):
            raise InvalidRequest(("/local_part", "this name is reserved"))  # the client need not know who reserved it
        return name

    async def _create(
        self, local_part: str, domain: str, wanted: NewAddress, creator: str | None, client: str
    ) -> tuple[Inbox, str]:
        address = _address(local_part, domain)
        token = self._new_token()
        now_ms = self._clock()
        new = NewInbox(
            address=address,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + self.rules.lifetime_of(wanted.lifetime_seconds),
            private=wanted.private,
            token_hash=digest(token),
            creator=creator,
        )
        inbox = await self._audit.written(self._storage.create_inbox(new), "created", [address], client)
        self._faults.order(inbox, wanted.faults)
        return inbox, token


def _address(local_part: str, domain: str) -> str:
    address = f"{local_part}@{domain}"
    if len(address) > addresses.MAX_ADDRESS_OCTETS:
        raise InvalidRequest(("/domain", f"expected an address of at most {addresses.MAX_ADDRESS_OCTETS} characters"))
    return address
