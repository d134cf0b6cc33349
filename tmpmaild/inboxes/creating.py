"""Creates addresses, for requests (``changing.py``) and for mail to unknown recipients (``delivering.py``)."""

from random import Random

from msgspec import Struct

from tmpmaild.errors import InvalidRequest
from tmpmaild.inboxes.access import digest, new_secret
from tmpmaild.inboxes.audit import Audit
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.faults import Fault, Faults
from tmpmaild.inboxes.rules import Rules
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import LocalPartError
from tmpmaild.model import Inbox, NewInbox, Webhook
from tmpmaild.storage.base import Storage


class NewAddress(Struct, frozen=True):
    """An address requested by a client; the service chooses the values that are None."""

    local_part: str | None = None
    domain: str | None = None
    private: bool = False
    lifetime_seconds: int | None = None
    faults: tuple[Fault, ...] = ()
    webhook: Webhook | None = None


class AddressFactory:
    """Creates addresses according to ``rules``, which may be replaced later; ``random`` generates names and tokens."""

    def __init__(
        self, storage: Storage, rules: Rules, blocks: Blocks, faults: Faults, audit: Audit, *, random: Random
    ) -> None:
        self.rules = rules
        self._storage = storage
        self._blocks = blocks
        self._faults = faults
        self._audit = audit
        self._clock = storage.clock
        self._random = random

    def random_local_part(self) -> str:
        """Return an unguessable local part."""
        return addresses.random_local_part(self._random.choice)

    def allowed_local_part(self, local_part: str) -> str:
        """Return a local part in the canonical form of inbox addresses.

        Raises ``InvalidRequest`` if it is not allowed.
        """
        try:
            name = addresses.check_local_part(local_part)
        except LocalPartError as error:
            raise InvalidRequest(("/local_part", str(error))) from error
        if self._blocks.has_name(name):
            raise InvalidRequest(("/local_part", "this name is reserved"))  # the client need not know who reserved it
        return name

    async def create(
        self, local_part: str, domain: str, wanted: NewAddress, creator: str | None, client: str
    ) -> tuple[Inbox, str]:
        """Create an address whose local part and domain have been chosen; return its inbox with its owner token.

        The other arguments and the errors are the same as for ``InboxManager.create``.
        """
        address = address_of(local_part, domain)
        token = new_secret(self._random)
        now_ms = self._clock()
        new = NewInbox(
            address=address,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + self.rules.lifetime_of(wanted.lifetime_seconds),
            private=wanted.private,
            token_hash=digest(token),
            creator=creator,
            name_held_ms=self.rules.name_held_ms,
        )
        inbox = await self._audit.written(self._storage.create_inbox(new), "created", [address], client)
        self._faults.order(inbox, wanted.faults)
        return inbox, token

    async def create_for_recipient(self, address: str, creator: str | None, client: str) -> Inbox:
        """Create the inbox of a recipient. Raises the same errors as ``create``."""
        local_part, _, domain = address.rpartition("@")
        inbox, _ = await self.create(local_part, domain, NewAddress(), creator, client)
        return inbox


def address_of(local_part: str, domain: str) -> str:
    """Return the address with this local part and domain. Raises ``InvalidRequest`` if it is too long."""
    address = f"{local_part}@{domain}"
    if len(address) > addresses.MAX_ADDRESS_OCTETS:
        raise InvalidRequest(("/domain", f"expected an address of at most {addresses.MAX_ADDRESS_OCTETS} characters"))
    return address
