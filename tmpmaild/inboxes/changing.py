"""The use cases that change inboxes: create or delete inboxes, set expiry, faults and webhooks, and delete messages."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tmpmaild.clients import LOCAL
from tmpmaild.errors import AddressTaken, InvalidRequest, MessageNotFound, RequestError, StorageFull
from tmpmaild.inboxes.access import Access
from tmpmaild.inboxes.creating import AddressFactory, NewAddress, address_of
from tmpmaild.inboxes.faults import Fault, Faults
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.mail import addresses
from tmpmaild.model import Inbox, Webhook, counted
from tmpmaild.storage.base import Storage
from tmpmaild.validation import ValidationErrors

_RANDOM_NAME_TRIES = 5


class InboxManager:
    """Creates, changes and deletes inboxes for clients."""

    def __init__(
        self, storage: Storage, access: Access, factory: AddressFactory, faults: Faults, webhooks: Webhooks
    ) -> None:
        self._storage = storage
        self._clock = storage.clock
        self._access = access
        self._factory = factory
        self._faults = faults
        self._webhooks = webhooks

    def ensure_creatable(self, wanted: NewAddress) -> None:
        """Raise ``InvalidRequest`` with all errors in an address that will be passed to ``create``."""
        errors, rules = ValidationErrors(), self._factory.rules
        domain = errors.collect(rules.domain, wanted.domain)
        name = "x" * addresses.RANDOM_LENGTH
        if wanted.local_part is not None:
            name = errors.collect(self._factory.allowed_local_part, wanted.local_part) or name
        if domain is not None:
            errors.collect(address_of, name, domain)
        errors.collect(rules.lifetime_of, wanted.lifetime_seconds)
        errors.collect(self._faults.ensure_possible, wanted.faults)
        errors.raise_if_any()

    async def create(self, wanted: NewAddress, creator: str | None, client: str = LOCAL) -> tuple[Inbox, str]:
        """Create an address; return its inbox with its owner token.

        The mail is charged to the share of ``creator``, if not None; ``client`` is recorded in the audit log. Raises
        ``InvalidRequest``, ``AddressTaken``, ``StorageFull``, and ``MailboxFull`` if the share is used up.
        """
        inbox, token = await self._create_without_webhook(wanted, creator, client)
        if wanted.webhook is not None:
            try:
                await self._webhooks.set(inbox.id, wanted.webhook)
            except RequestError:  # the client will never receive this inbox's token
                with suppress(RequestError):
                    await self._expire(inbox)
                raise
        return inbox, token

    async def _create_without_webhook(self, wanted: NewAddress, creator: str | None, client: str) -> tuple[Inbox, str]:
        self._faults.ensure_possible(wanted.faults)
        if not self._storage.has_room():
            raise StorageFull("no room for a new address")
        domain = self._factory.rules.domain(wanted.domain)
        if wanted.local_part is not None:
            name = self._factory.allowed_local_part(wanted.local_part)
            return await self._factory.create(name, domain, wanted, creator, client)
        for _ in range(_RANDOM_NAME_TRIES):
            with suppress(AddressTaken):
                return await self._factory.create(self._factory.random_local_part(), domain, wanted, creator, client)
        raise AddressTaken("no free name was found")

    async def change(
        self,
        address: str,
        token: str,
        lifetime_seconds: int | None = None,
        faults: Sequence[Fault] | None = None,
        webhook: Webhook | UnsetType | None = UNSET,
        *,
        errors: ValidationErrors | None = None,
    ) -> Inbox:
        """Set the expiry to ``lifetime_seconds`` from now, and replace the faults and the webhook.

        Raises ``AddressNotFound``, ``AddressExpired``, and ``InvalidRequest`` if the operator does not allow a value or
        if ``errors`` is not empty. If an error is raised, nothing is changed.
        """
        inbox = await self._access.find_for_change(address, token)
        errors, now_ms = errors or ValidationErrors(), self._clock()
        errors.collect(self._faults.ensure_possible, faults or (), inbox.id)
        expires_at_ms = lifetime_seconds and errors.collect(self._new_expiry_ms, inbox, lifetime_seconds, now_ms)
        errors.raise_if_any()
        if expires_at_ms is not None:
            await self._storage.move_expiry(inbox.id, expires_at_ms=expires_at_ms, now_ms=now_ms)
            inbox = replace(inbox, expires_at_ms=expires_at_ms)
        if faults is not None:
            self._faults.order(inbox, faults)
        if webhook is not UNSET:
            await self._webhooks.set(inbox.id, webhook)
        return inbox

    def _new_expiry_ms(self, inbox: Inbox, lifetime_seconds: int, now_ms: int) -> int:
        """Return the expiry for a lifetime that starts now. Raises ``InvalidRequest``."""
        last_ms = self._factory.rules.extendable_until_ms(inbox)
        expires_at_ms = now_ms + lifetime_seconds * 1000
        if expires_at_ms > last_ms:
            left_seconds, at_most_seconds = (last_ms - now_ms) // 1000, (last_ms - inbox.created_at_ms) // 1000
            at_most = counted(at_most_seconds, "second")
            expected = f"expected at most {left_seconds} now: the lifetime of an address is at most {at_most}"
            raise InvalidRequest(("/expires_in_seconds", expected))
        return expires_at_ms

    async def delete(self, address: str, token: str) -> None:
        """Delete an address and its mail. Raises ``AddressNotFound``, ``AddressExpired``."""
        inbox = await self._access.find_for_change(address, token)
        await self._expire(inbox)

    async def _expire(self, inbox: Inbox) -> None:
        now_ms = self._clock()
        await self._storage.move_expiry(inbox.id, expires_at_ms=now_ms, now_ms=now_ms)

    async def delete_message(self, address: str, message_id: str, token: str) -> None:
        """Delete one message. Raises the same errors as ``delete``, and ``MessageNotFound``."""
        inbox = await self._access.find_for_change(address, token)
        if not await self._storage.delete_messages(inbox.id, [message_id]):
            raise MessageNotFound("no such message in this inbox")

    async def delete_messages(
        self, address: str, token: str, message_ids: Collection[str] | None = None, *, up_to: str | None = None
    ) -> int:
        """Delete the messages in ``message_ids``, the messages up to ``up_to``, or all messages; return their number.

        Raises the same errors as ``delete``.
        """
        inbox = await self._access.find_for_change(address, token)
        return await self._storage.delete_messages(inbox.id, message_ids, up_to=up_to)
