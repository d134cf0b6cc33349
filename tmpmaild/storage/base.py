"""The storage contract: what every engine promises, and what ``tests/storage`` asks of each.

- Times are Unix milliseconds in UTC and are passed in; an engine asks no clock but the one it was given, and
  that only to stamp what it commits. No engine decides that an address is over: it tells when.
- Message ids and cursors are opaque strings that sort by arrival. They become visible in ascending order:
  who has read up to an id finds everything newer by ``Page.after``.
- A method that returns has committed, durably: a power cut takes nothing back. One that raises has changed
  nothing. A caller that is cancelled does not undo what was handed over, and disturbs nobody else.
- Where a method takes a ``permit``, that is called with the inbox that was found before anything else is read; what it
  raises is raised. It may be called in any thread.
- Only the errors of ``tmpmaild.errors`` leave an engine for what can be expected to go wrong:
  ``StorageFull`` and ``StorageUnavailable`` from every method, others where they are named.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from tmpmaild.model import FullMessage, Inbox, InboxChange, Listing, Message, NewInbox, NewMail, Page, Source, Texts

OPERATOR_INBOX_ID = "1"
"""The inbox of postmaster and abuse: always there, found by no address, with limits and a lifetime of its own."""

Permit = Callable[[Inbox], object]
"""Lets somebody have an inbox, or raises."""


class OperatorMail(Protocol):
    """The operator's inbox, read from another process than the one that uses the storage, and without disturbing it.

    Every method raises ``DatabaseError`` when the storage cannot be read.
    """

    def messages(self) -> tuple[Message, ...]:
        """Read all messages, newest first, with short beginnings of their bodies."""

    def message(self, message_id: str) -> Message | None:
        """Read one message with its whole body; None when the inbox does not hold it."""

    def source(self, message_id: str) -> Source | None:
        """Read the source of one message; None when the inbox does not hold it."""


class Storage(Protocol):
    """Inboxes and their mail, on disk."""

    def has_room(self) -> bool:
        """Tell whether new inboxes and mail are welcome: neither the cap nor the disk's reserve is reached.

        Answers from memory: as it was after the last commit or sweep.
        """

    async def create_inbox(self, new: NewInbox) -> Inbox:
        """Store a new address.

        Raises ``AddressTaken`` while the name is in use and for ``NAME_HELD_MS`` after, ``MailboxFull`` while the
        creator has used up its share.
        """

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """Find an address that lives, or was over less than ``NAME_HELD_MS`` before ``now_ms``.

        Expired and deleted ones look alike: ``expires_at_ms`` lies in the past.
        """

    async def operator_is_full(self) -> bool:
        """Tell whether the operator's inbox takes no more."""

    async def list_messages(
        self, address: str, page: Page, now_ms: int, permit: Permit = lambda _: None
    ) -> Listing | None:
        """Read one page of an inbox and the inbox itself, both from one moment; None as ``find_inbox``.

        A search (``sender``, ``subject``, ``text``) may take several reads. Then ``permit`` is called in each, and
        inbox and page are those of the last without mail that has come since the first. ``searched_to`` is above no
        message that comes later.
        """

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """Read the beginnings of the texts of those messages that the inbox still holds; the order is not promised.

        The operator's inbox holds none for this method.
        """

    async def read_message(
        self,
        address: str,
        message_id: str,
        now_ms: int,
        permit: Permit = lambda _: None,
        *,
        up_to_bytes: int | None = None,
    ) -> tuple[Inbox, FullMessage | None] | None:
        """Read one message and the inbox, both from one moment; None as ``find_inbox``.

        The message is None when this inbox holds none with exactly that id, whatever the text; its texts are left
        out when its source has more than ``up_to_bytes``.
        """

    async def read_source(
        self,
        address: str,
        message_id: str,
        now_ms: int,
        permit: Permit = lambda _: None,
        *,
        up_to_bytes: int | None = None,
    ) -> tuple[Inbox, Source | None] | None:
        """Read a message as it came, and the inbox, both from one moment; None as ``find_inbox``.

        The source is None when this inbox holds no message with exactly that id, whatever the text; its octets are
        left out when they are more than ``up_to_bytes``.
        """

    async def add_message(self, mail: NewMail) -> str:
        """Store a mail for all of its inboxes or for none, and return its id in the first of them.

        Inboxes that are over at the moment of the commit are left out, and one named twice counts once.
        Raises ``AddressNotFound`` when none is left, ``MailboxFull`` when one of them has no room.
        """

    async def delete_message(self, inbox_id: str, message_id: str) -> None:
        """Delete one message of an inbox; its room is free again, also when the storage was full.

        Raises ``MessageNotFound``, and always for the operator's inbox.
        """

    async def delete_inbox(self, inbox_id: str, now_ms: int) -> None:
        """End an inbox now; from then on it is like one that expired.

        Raises ``AddressExpired`` if it is over at ``now_ms`` or at the commit, ``AddressNotFound`` if nothing is known
        of it any more, and always for the operator's inbox.
        """

    async def move_expiry(self, inbox_id: str, expires_at_ms: int, now_ms: int) -> None:
        """Have an inbox end at another time. Raises as ``delete_inbox``."""

    async def sweep(self, now_ms: int) -> bool:
        """Delete a small bounded amount of what is over at ``now_ms``; True when there may be more.

        Idempotent, and safe to repeat after any failure. Messages go before their inbox, the inbox before
        its tombstone.
        """

    async def erase(self) -> bool:
        """Leave no byte of what was swept in any file, then give some of the freed space back; False: try again later.

        Only a reader outside this process can make it fail for long.
        """

    def is_lost(self) -> bool:
        """Tell whether what was stored is gone, for example because somebody has removed the database.

        Every method raises ``StorageLost`` from then on; only a new start can help.
        """

    async def wait_lost(self) -> None:
        """Return once ``is_lost``."""

    def on_committed(self, callback: Callable[[Sequence[InboxChange]], None]) -> None:
        """Have ``callback``, too, called in the event loop after each commit that changed inboxes.

        That is before those who asked for the changes are answered.
        """

    async def close(self) -> None:
        """Finish what was handed over, then close. May be called twice."""
