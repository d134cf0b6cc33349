"""The catcher: accepts every recipient, and stores a second copy of every message in one inbox for all mail.

It is for people and tests that check the mail an application sends, whatever its recipients. ``daemon.py`` creates a
catcher only on request (``tmpmaild catch``, ``serve --for-tests --catch-all``).

The inbox for all mail is the first destination of each message; its recipient is the whole envelope, one address per
line. So lists, waits, streams, caches and deletion work for it as for any other inbox.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from tmpmaild.clients import LOCAL
from tmpmaild.errors import AddressTaken, MessageNotFound
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.creating import AddressFactory
from tmpmaild.mail import addresses
from tmpmaild.model import FullMessage, NewInbox, NewMail, Page
from tmpmaild.storage.base import Storage

MAX_RECIPIENTS: Final = 1000
"""The limit of recipients per message, in place of the minimum of 100 in RFC 5321 §4.5.3.1.8."""

FOREVER_MS: Final = 10 * 365 * 24 * 60 * 60 * 1000


class Catcher:
    """The inbox for all mail, and the recipients' inboxes with the copies of its messages."""

    inbox_id: str

    def __init__(self, storage: Storage, factory: AddressFactory) -> None:
        self._storage = storage
        self._factory = factory
        self._clock = storage.clock

    async def start(self) -> None:
        """Find the inbox for all mail from an earlier run, or create it. Raises ``RequestError``."""
        now_ms = self._clock()
        inbox = await self._storage.find_inbox(ALL_MAIL, now_ms)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            inbox = await self._storage.create_inbox(
                NewInbox(
                    address=ALL_MAIL,
                    created_at_ms=now_ms,
                    expires_at_ms=now_ms + FOREVER_MS,
                    private=False,
                    token_hash=b"",
                    creator=None,
                    name_held_ms=0,
                )
            )
        self.inbox_id = inbox.id

    def with_all_mail(self, mail: NewMail) -> NewMail:
        """Return a message with the inbox for all mail as its first destination."""
        recipients = mail.envelope.recipients
        whole = "\n".join(dict.fromkeys(recipients))
        envelope = replace(mail.envelope, recipients=(whole, *recipients))
        return replace(mail, envelope=envelope, inbox_ids=(self.inbox_id, *mail.inbox_ids))

    async def open(self, address: str) -> None:
        """Create the inbox of an address, as a client wrote it, if there is none: clients can then wait for mail.

        A text that is not an address is ignored; reading it fails with an error.
        """
        canonical = addresses.canonical(address)
        if canonical is None:
            return
        now_ms = self._clock()
        inbox = await self._storage.find_inbox(canonical, now_ms)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            with suppress(AddressTaken):  # by a message that has just arrived
                await self._factory.create_for_recipient(canonical, None, LOCAL)

    async def delete_messages(self, message_ids: Collection[str] | None = None, *, up_to: str | None = None) -> int:
        """Delete messages from the inbox for all mail, and their copies from the recipients' inboxes.

        These are the messages in ``message_ids`` that exist, else all up to ``up_to``, else all. Returns the number of
        messages, not counting copies.
        """
        if message_ids is None and up_to is None:
            async for inboxes in self._inboxes():
                await asyncio.gather(*map(self._storage.delete_messages, inboxes))
            return await self._storage.delete_messages(self.inbox_id)
        if message_ids is None:
            message_ids = [message_id async for message_id in self._ids_up_to(up_to or "")]
        for message_id in message_ids:
            await self._delete_copies(message_id)
        return await self._storage.delete_messages(self.inbox_id, message_ids)

    async def delete_message(self, message_id: str) -> None:
        """Delete one message and its copies. Raises ``MessageNotFound``."""
        if not await self.delete_messages([message_id]):
            raise MessageNotFound("no such message")

    async def _inboxes(self) -> AsyncIterator[list[str]]:
        """Yield the ids of the recipients' inboxes, a page at a time."""
        after: str | None = ""
        while after is not None:
            page = await self._storage.list_inboxes(self._clock(), after=after)
            yield [inbox.id for inbox in page.inboxes if inbox.id != self.inbox_id and inbox.message_count]
            after = page.next

    async def _ids_up_to(self, up_to: str) -> AsyncIterator[str]:
        after: str | None = None
        while True:
            page = Page(after=after, ascending=True, limit=200, bodies_bytes=0)
            listing = await self._storage.list_messages(ALL_MAIL, page, self._clock())
            if listing is None:
                return
            for message in listing.messages:
                if message.id > up_to:
                    return
                yield message.id
                after = message.id
            if not listing.has_more:
                return

    async def _delete_copies(self, message_id: str) -> None:
        found = await self._storage.read_message(ALL_MAIL, self._clock(), message_id=message_id, up_to_bytes=0)
        if found is None or found[1] is None:
            return
        for recipient in recipients_of(found[1].message.recipient):
            mailbox = addresses.parse_recipient(recipient.encode(), utf8=True)
            await self._delete_copy(addresses.inbox_address(self._factory.rules.with_domain(mailbox)), found[1])

    async def _delete_copy(self, address: str, of: FullMessage) -> None:
        """Delete the copy of a message in the inbox of one recipient, if it still exists."""
        # A message and its copies are stored together, and ids sort by arrival: the copy is among the messages of the
        # inbox that were received in the same millisecond.
        cursor = self._storage.last_id_before(of.message.received_at_ms)
        while True:
            found = await self._storage.read_message(
                address, self._clock(), message_id=cursor, up_to_bytes=0, is_next=True
            )
            inbox, full = found or (None, None)
            if inbox is None or full is None or full.message.received_at_ms > of.message.received_at_ms:
                return
            if _is_copy(full, of):
                await self._storage.delete_messages(inbox.id, [full.message.id])
                return
            cursor = full.message.id


def recipients_of(text: str) -> list[str]:
    """Return the recipients of a message in the inbox for all mail, whose recipient has one address per line."""
    return text.split("\n")


def _is_copy(full: FullMessage, of: FullMessage) -> bool:
    """Return whether two messages in different inboxes are from the same SMTP transaction."""
    return (
        full.message.received_at_ms == of.message.received_at_ms
        and full.message.size_bytes == of.message.size_bytes
        and full.envelope.session.data_at_ms == of.envelope.session.data_at_ms
        and full.headers == of.headers
        and full.message.recipient in recipients_of(of.message.recipient)
    )
