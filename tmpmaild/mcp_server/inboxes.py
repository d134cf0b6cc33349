"""The inboxes that this process has created, with their tokens; it reads no others, and deletes these at its end."""

from contextlib import suppress
from datetime import UTC, datetime

import anyio

from tmpmaild.client import AddressExpired, AddressNotFound, AsyncClient, AsyncInbox, TmpmaildError

MAX_INBOXES = 100
_CREATING_SECONDS = 5
_DELETING_SECONDS = 1.5  # a client kills a server that has not ended 2 s after its input did
_NAMED = 10


class NotOurs(Exception):
    """The address is not one of an inbox that this process has created."""


class TooManyInboxes(Exception):
    """As many inboxes are open as one process may have."""


class OwnInboxes:
    """Creates private inboxes and finds them by their addresses; the tokens never leave it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._inboxes: dict[str, AsyncInbox] = {}
        self._being_created = 0

    async def create(
        self, local_part: str | None = None, *, domain: str | None = None, expires_in_seconds: int | None = None
    ) -> AsyncInbox:
        """Create one, as ``AsyncClient.create`` does. Raises ``TooManyInboxes``."""
        self._forget_expired()
        if len(self._inboxes) + self._being_created >= MAX_INBOXES:
            raise TooManyInboxes(f"{MAX_INBOXES} inboxes are open; delete one with delete_inbox first")
        self._being_created += 1
        try:
            # A request that the agent cancels now may have been carried out: the inbox has to be deleted at the end.
            with anyio.move_on_after(_CREATING_SECONDS, shield=True):
                inbox = await self._client.create(
                    local_part, domain=domain, private=True, expires_in_seconds=expires_in_seconds
                )
                self._inboxes[inbox.address] = inbox
                return inbox
        finally:
            self._being_created -= 1
        raise TimeoutError(f"{self._client.url}: no inbox within {_CREATING_SECONDS} s")

    def find(self, address: str) -> AsyncInbox:
        """Return the inbox with this address, in any case. Raises ``NotOurs``."""
        found = self._inboxes.get(address.strip().lower())
        if found is None:
            own = ", ".join(list(self._inboxes)[-_NAMED:]) or "none yet"
            raise NotOurs(f"only inboxes that create_inbox has made can be used; the newest: {own}")
        return found

    async def delete(self, inbox: AsyncInbox) -> None:
        """Delete one; one that has ended already is forgotten."""
        with suppress(AddressExpired, AddressNotFound):
            await inbox.delete()
        self._inboxes.pop(inbox.address, None)

    async def delete_all(self) -> None:
        """Delete all of them, as far as the service answers in a short time; it deletes the others when they expire."""
        with anyio.move_on_after(_DELETING_SECONDS, shield=True):
            async with anyio.create_task_group() as group:
                for inbox in list(self._inboxes.values()):
                    group.start_soon(self._try_to_delete, inbox)

    async def _try_to_delete(self, inbox: AsyncInbox) -> None:
        with suppress(TmpmaildError):
            await self.delete(inbox)

    def _forget_expired(self) -> None:
        now = datetime.now(UTC)
        self._inboxes = {address: one for address, one in self._inboxes.items() if one.expires_at > now}
