"""The catcher: accepts every recipient, and stores a second copy of every message in one inbox for all mail.

People and tests use it to check an application's mail, regardless of the recipients. ``daemon.py`` creates a catcher
only on request (``tmpmaild catch``, ``serve --for-tests --catch-all``).

The inbox for all mail is the first destination of each message; its recipient is the whole envelope, one address per
line. Therefore, listing, waiting, streaming, caching and deletion work in the same way as for any other inbox.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, suppress
from typing import Final

from msgspec.structs import replace

from tmpmaild.clients import LOCAL
from tmpmaild.errors import AddressTaken, MessageNotFound
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.counting import RecipientCounts, Recipients, recipients_by_message, recipients_of
from tmpmaild.inboxes.creating import AddressFactory
from tmpmaild.mail import addresses
from tmpmaild.model import InboxChange, NewInbox, NewMail, Page
from tmpmaild.storage.base import DELETED_AT_ONCE, Storage

MAX_RECIPIENTS: Final = 1000
"""The maximum number of recipients per message, instead of the minimum of 100 in RFC 5321 §4.5.3.1.8."""

FOREVER_MS: Final = 10 * 365 * 24 * 60 * 60 * 1000


class Catcher:
    """The inbox for all mail, and the recipients' inboxes with the copies of its messages."""

    inbox_id: str

    def __init__(self, storage: Storage, factory: AddressFactory) -> None:
        self._storage = storage
        self._factory = factory
        self._clock = storage.clock
        self._counts: RecipientCounts | None = None  # None until the counts are requested for the first time

    async def start(self) -> None:
        """Find the inbox for all mail from an earlier run, or create it. Raises ``RequestError``."""
        try:
            self.inbox_id = await self._found_or_created()
        except AddressTaken:  # another daemon on the same database has created it in the meantime
            self.inbox_id = await self._found_or_created()

    async def _found_or_created(self) -> str:
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
        return inbox.id

    def with_all_mail(self, mail: NewMail) -> NewMail:
        """Return a message with the inbox for all mail as its first destination."""
        recipients = mail.envelope.recipients
        whole = "\n".join(dict.fromkeys(recipients))
        envelope = replace(mail.envelope, recipients=(whole, *recipients))
        return replace(mail, envelope=envelope, inbox_ids=(self.inbox_id, *mail.inbox_ids))

    async def open(self, address: str) -> None:
        """Create the inbox of an address if it does not exist, so that clients can wait for mail.

        Text that is not an address is ignored; an attempt to read its inbox then fails with an error.
        """
        canonical = addresses.canonical(address)
        if canonical is None:
            return
        now_ms = self._clock()
        inbox = await self._storage.find_inbox(canonical, now_ms)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            with suppress(AddressTaken):  # the inbox was created by a message that has just arrived
                await self._factory.create_for_recipient(canonical, None, LOCAL)

    async def delete_messages(self, message_ids: Collection[str] | None = None, *, up_to: str | None = None) -> int:
        """Delete messages from the inbox for all mail, and their copies from the recipients' inboxes.

        Deletes the messages in ``message_ids``, and ignores ids that do not exist. If ``message_ids`` is None, deletes
        all messages, or the messages up to ``up_to`` if it is given. Returns the number of messages, not counting
        copies.
        """
        return await self._storage.delete_messages(self.inbox_id, message_ids, up_to=up_to, copies=True)

    async def delete_messages_to(self, recipient: str, *, up_to: str | None = None) -> int:
        """Delete the messages to a recipient and their copies, or only the messages up to ``up_to``.

        Recipients are compared as in ``ids_to``. The messages are found by reading, which delays no delivery, and are
        deleted ``DELETED_AT_ONCE`` at a time. Returns the number of messages, not counting copies.
        """
        count, some = 0, list[str]()
        async with aclosing(self.ids_to(recipient)) as message_ids:
            async for message_id in message_ids:
                if up_to is not None and message_id > up_to:
                    break
                some.append(message_id)
                if len(some) == DELETED_AT_ONCE:
                    count += await self.delete_messages(some)
                    some.clear()
        return count + await self.delete_messages(some)

    async def ids_to(self, recipient: str) -> AsyncGenerator[str, None]:
        """Yield the ids of the messages to a recipient, oldest first, comparing with ``addresses.comparable``."""
        wanted = addresses.comparable(recipient)
        async with aclosing(recipients_by_message(self._storage, self.inbox_id, Page(ascending=True))) as messages:
            async for message_id, recipients in messages:
                if wanted in recipients:
                    yield message_id

    async def newest_recipients(self, message_count: int) -> list[str]:
        """Return the recipients of the ``message_count`` newest messages, without duplicates."""
        newest = await self._storage.list_recipients(self.inbox_id, Page(limit=message_count))
        return list(dict.fromkeys(one for _, text in newest for one in recipients_of(text)))

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Process a commit."""
        if self._counts is not None:
            self._counts.update(changes)

    async def count_by_recipient(self) -> Recipients:
        """Count the messages for each of the 1,000 latest recipients, compared with ``addresses.comparable``."""
        self._counts = self._counts or RecipientCounts(self._storage, self.inbox_id)
        return await self._counts.count()

    async def delete_message(self, message_id: str) -> None:
        """Delete one message and its copies. Raises ``MessageNotFound``."""
        if not await self.delete_messages([message_id]):
            raise MessageNotFound("no such message")
