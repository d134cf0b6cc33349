"""The storage contract, which every engine implements; ``tests/storage`` checks it for each engine.

- Times are Unix milliseconds in UTC and are passed as arguments. An engine uses only the clock that it was given, and
  uses it only for commit times. It returns the expiry of an address, but does not decide whether the address has
  expired.
- Message ids and cursors are opaque strings that sort by arrival. Messages become visible in ascending order of their
  ids: a client that has read up to an id finds all newer messages with ``Page.after``.
- When a method returns, its change is committed durably and survives a power cut. If it raises an exception, nothing
  has changed. Cancelling a caller neither undoes an operation that was accepted nor affects other callers.
- ``permit`` arguments are called with the inbox that was found, before anything else is read. Their exceptions are
  propagated. They may be called in any thread.
- Expected failures raise only errors from ``tmpmaild.errors``. Every method may raise ``StorageFull`` and
  ``StorageUnavailable``; other errors are documented in the methods that raise them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Final, Protocol, TypeVar

from msgspec import Struct

from tmpmaild.metrics import Metric
from tmpmaild.model import (
    Authentication,
    Block,
    FullMessage,
    Inbox,
    InboxChange,
    InboxPage,
    Listing,
    NewInbox,
    NewMail,
    Page,
    StoredWebhook,
    Texts,
    Webhook,
    WebhookState,
)
from tmpmaild.ratelimit import Buckets
from tmpmaild.storage.operatorbox import OperatorBox

OPERATOR_INBOX_ID = "1"
"""The inbox of postmaster and abuse: it always exists, has no address, and has its own limits and lifetime."""

OPERATOR_MAIL_MS = 30 * 24 * 60 * 60 * 1000

DELETED_AT_ONCE = 100
DELETED_AT_ONCE_BYTES = 8 * 1024 * 1024
"""The maximum number of messages, and of stored bytes, that ``delete_messages`` deletes in one transaction.

A single message may be larger. By default, an inbox has no more messages than this. In SQLite, deleting this many bytes
takes about 50 ms, during which deliveries wait.
"""

DELETED_COPIES_AT_ONCE = 1000
"""The maximum number of copies in other inboxes that one transaction deletes, unless one message has more copies."""

Permit = Callable[[Inbox], object]
"""Called with the inbox before anything else is read; raises an exception to deny access."""

OnCommitted = Callable[[Sequence[InboxChange]], None]
OnBlocks = Callable[[Sequence[Block]], None]
Listened = Callable[[], Collection[str]]
"""Returns the ids of the inboxes that have listeners."""

ANY_SIZE = 1 << 62
"""The value of a size limit in bytes that means "no limit"."""
TRUNCATED_BYTES = 1024
"""The length in bytes to which a body is truncated if it does not fit on its page."""

NO_LIMIT: Final = 1 << 62


def permit_all(_: Inbox) -> None:
    """Allow any client to read an inbox."""


class HasBody(Protocol):
    """A message on a page."""

    @property
    def body_bytes(self) -> int:
        """The size of the whole body in UTF-8 bytes."""


M = TypeVar("M", bound=HasBody)


def bodies_to_read(large: Iterable[M], room_bytes: int) -> Iterator[tuple[M, bool]]:
    """Yield each message in the given order (newest first), and whether its whole body must be read.

    The whole body is read if it fits into the remaining ``room_bytes`` of the page; otherwise the body is truncated.
    """
    for message in large:
        is_whole = message.body_bytes <= max(room_bytes, TRUNCATED_BYTES)
        room_bytes -= message.body_bytes if is_whole else TRUNCATED_BYTES
        yield message, is_whole


def cut(body: str) -> tuple[str, bool]:
    """Return the first ``TRUNCATED_BYTES`` bytes of a body, and whether the body is longer."""
    encoded = body.encode()
    return encoded[:TRUNCATED_BYTES].decode(errors="ignore"), len(encoded) > TRUNCATED_BYTES


class Limits(Struct, frozen=True, kw_only=True):
    """Limits on stored data; 0 means no limit, or the engine's default in the case of ``max_bytes``.

    ``reserve_bytes`` must stay free for mail that is being received. ``max_share_per_creator`` is a share of
    ``max_bytes``. The operator's inbox has its own limits.
    """

    max_bytes: int = 0
    reserve_bytes: int = 0
    max_messages_per_inbox: int = 0
    max_bytes_per_inbox: int = 0
    max_share_per_creator: float = 1.0

    @property
    def inbox_messages(self) -> int:
        """The maximum number of messages in an inbox."""
        return self.max_messages_per_inbox or NO_LIMIT

    @property
    def inbox_bytes(self) -> int:
        """The maximum number of bytes in an inbox."""
        return self.max_bytes_per_inbox or NO_LIMIT

    @property
    def creator_bytes(self) -> int:
        """The maximum number of bytes in all inboxes of one creator."""
        return int(self.max_share_per_creator * self.max_bytes) if self.max_bytes else NO_LIMIT


class Summary(Struct, frozen=True):
    """The contents of a storage, read without a daemon: the inboxes that have not been swept yet, and their messages.

    ``clean_stop`` is false while a daemon is using the storage, and after a daemon was killed. It is None if the engine
    cannot determine this.
    """

    clean_stop: bool | None
    inboxes: int
    messages: int
    file_bytes: int


def retired_domains(
    known: Mapping[str, int | None], served: Collection[str], *, now_ms: int, until_ms: int
) -> dict[str, int]:
    """Return the result of ``Storage.serve_domains``; ``known`` maps domains that are not retired yet to None."""
    left_out = {name: until_ms if until is None else until for name, until in known.items() if name not in served}
    return {name: until for name, until in left_out.items() if until > now_ms}


class Storage(Protocol):
    """Stores inboxes, their messages, and the operator's decisions on disk."""

    clock: Callable[[], int]
    """The clock that all daemons on the storage share. It returns the time in Unix milliseconds without a query."""

    may_cache: bool
    """Whether an inbox that was read may be cached until ``on_committed`` reports a change to it.

    Caching is not allowed if other daemons can change inboxes, because ``on_committed`` may report their changes late.
    """

    lost: asyncio.Event
    """Set when the stored data no longer exists, for example because the database was removed.

    Every method raises ``StorageLost`` from then on, until the daemon is restarted.
    """

    async def serve_domains(self, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
        """Store the domains that accept new addresses; return the retired domains, each with its removal time.

        A domain is retired when ``domains`` no longer contains it. It is stored until ``until_ms`` or until its last
        inbox expires, whichever is later, and then forgotten. Works even when the storage is full.
        """

    async def blocks(self) -> Sequence[Block]:
        """Read all blocks, sorted by kind and value. The sweep deletes expired blocks."""

    async def change_blocks(self, added: Sequence[Block] = (), removed: Sequence[tuple[str, str]] = ()) -> None:
        """Store blocks, replacing blocks of the same kind and value, and delete the ``removed`` blocks.

        ``removed`` contains the kind and value of each block; missing blocks are ignored. Works even when the storage
        is full.
        """

    def buckets(self, *, tokens_per_minute: int, burst: int, name: str) -> Buckets:
        """Return a policy's token buckets, which all daemons on the storage share. A crash may refill them."""

    async def put_permission(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        """Store the permission that a secret grants until it expires. A crash may lose it."""

    async def get_permission(self, secret: str) -> bytes | None:
        """Return the permission that a secret grants; None if the secret is unknown or has expired.

        ``secret`` may be any text.
        """

    async def change_limits(self, limits: Limits) -> None:
        """Apply new limits. Existing data is kept even if it exceeds the new limits."""

    def audit_hash(self, address: str, *, day: str) -> str:
        """Return the hash that represents an inbox address in the audit log on a day in UTC, such as ``2026-11-28``.

        It is the same for all daemons that share the storage, and cannot be computed without the storage.
        """

    def has_room(self) -> bool:
        """Return whether there is room for new inboxes and mail, within the size limit and the disk reserve.

        Does no I/O: the result was measured after the last commit or sweep.
        """

    async def create_inbox(self, new: NewInbox) -> Inbox:
        """Store a new address.

        Raises ``AddressTaken`` while the name is in use and for ``new.name_held_ms`` afterwards, and ``MailboxFull`` if
        the creator's share is used up.
        """

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """Find an address that is live, or that expired less than ``NAME_HELD_MS`` before ``now_ms``.

        Expired and deleted addresses cannot be distinguished: both have an ``expires_at_ms`` in the past.
        """

    async def list_inboxes(
        self, now_ms: int, *, creator: str | None = None, expired: bool = False, after: str = ""
    ) -> InboxPage:
        """Read a page of live inboxes, or of expired inboxes that have not been swept yet.

        Inboxes are sorted by expiry, and ``after`` is the ``next`` of the previous page. With ``creator``, only inboxes
        created by that client are listed; a page may then be short or empty although more pages follow. If an inbox's
        expiry changes between two reads, the inbox may appear on both pages or, if it now expires earlier, on neither
        page. The operator's inbox is never listed.
        """

    async def operator_box(self) -> OperatorBox:
        """Read the clients that sent the mail in the operator's inbox, and the space that each client's mail uses."""

    async def delete_operator_mail(self, message_ids: Collection[str] | None = None) -> int:
        """Delete the given messages or all messages from the operator's inbox, like ``delete_messages``."""

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = permit_all) -> Listing | None:
        """Read one page of an inbox and the inbox itself in one snapshot; None if ``find_inbox`` would return None.

        This method ignores the page's filters ``sender``, ``subject``, ``text`` and ``has``.
        """

    async def list_recipients(self, inbox_id: str, page: Page) -> Sequence[tuple[str, str]]:
        """Read the ids and recipients of the messages on a page, which is much cheaper than ``list_messages``.

        Uses only the page's bounds, order and limit. If there are no messages, the result is empty.
        """

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """Read the beginning of the body and HTML of these messages, in any order; deleted messages are omitted.

        The result is empty for the operator's inbox.
        """

    async def read_message(
        self,
        address: str,
        now_ms: int,
        permit: Permit = permit_all,
        *,
        message_id: str,
        up_to_bytes: int = ANY_SIZE,
        source: bool = False,
        is_next: bool = False,
    ) -> tuple[Inbox, FullMessage | None] | None:
        """Read one message and the inbox in one snapshot; None if ``find_inbox`` would return None.

        The message is None if the inbox has no message with exactly this id, which may be any text. Its body and HTML
        are omitted if its source is larger than ``up_to_bytes``. With ``source``, the source is read instead of the
        header, body and HTML. With ``is_next``, the oldest message after this id is read ("" is before all messages). A
        message with this id does not have to exist, because ids are only compared.
        """

    def add_message(self, mail: NewMail) -> Awaitable[str]:
        """Store a message in all of its inboxes or in none of them; return its id in the first inbox.

        Inboxes that have expired by the time of the commit are skipped, and an inbox that is listed twice counts once.
        Raises ``AddressNotFound`` if no inbox remains, and ``MailboxFull`` if an inbox is full. If the operator's inbox
        is full, older messages are deleted to make room (``storage/operatorbox.py``), unless the client's share is used
        up.
        """

    async def delete_messages(
        self,
        inbox_id: str,
        message_ids: Collection[str] | None = None,
        *,
        up_to: str | None = None,
        copies: bool = False,
    ) -> int:
        """Delete the given messages from an inbox, all messages up to the id ``up_to``, or all messages.

        Returns the number of deleted messages, which is always 0 for the operator's inbox. A message with the id
        ``up_to`` does not have to exist, because ids are only compared. One transaction deletes up to
        ``DELETED_AT_ONCE`` messages and ``DELETED_AT_ONCE_BYTES``. More messages are deleted in several transactions,
        oldest first; deliveries can run between the transactions. If a transaction fails or the caller is cancelled,
        previous transactions remain committed. Works even when the storage is full, and frees the space that the
        messages used.

        If ``copies`` is true, each message is deleted in the same transaction as its copies, which ``add_message`` has
        stored in the inboxes of ``envelope.session.recipients``. Copies are not counted.
        """

    async def set_authentication(self, inbox_id: str, authentication: Authentication, *, message_id: str) -> None:
        """Store the result of sender authentication for a message.

        Raises ``MessageNotFound`` if the inbox has expired or has no such message, or if the message already has a
        result.
        """

    async def move_expiry(self, inbox_id: str, *, expires_at_ms: int, now_ms: int) -> None:
        """Set the expiry of an inbox. If it is not after ``now_ms``, the inbox expires now.

        Raises ``AddressExpired`` if the inbox has expired by ``now_ms`` or by the time of the commit, and
        ``AddressNotFound`` if it has been forgotten or is the operator's inbox.
        """

    async def set_webhook(self, inbox_id: str, webhook: Webhook | None, now_ms: int) -> None:
        """Set or replace the webhook of an inbox, or remove it. Raises the same errors as ``move_expiry``.

        A new webhook is only called for messages that are stored after the commit. The sweep deletes the webhook
        together with its inbox. ``on_committed`` does not report this change.
        """

    async def read_webhook(self, inbox_id: str) -> StoredWebhook | None:
        """Read the webhook of an inbox; None if there is no webhook. ``inbox_id`` may be any text."""

    async def list_webhooks(self, *, after: str = "", limit: int = 100) -> Sequence[StoredWebhook]:
        """Read the webhooks of the inboxes after this id, in the order in which the inboxes were created."""

    async def store_webhook(self, read: StoredWebhook, state: WebhookState | None) -> StoredWebhook | None:
        """Store a webhook's progress and the time it is due again, or remove the webhook if ``state`` is None.

        Returns the webhook as stored. If the webhook was replaced, stored or removed after it was read, nothing changes
        and the result is None. Daemons that share a storage use this method to lease webhooks. To acquire a lease, a
        daemon stores the lease's end as the time at which the webhook is due, even if the inbox has expired. The
        daemon's next call to this method ends the lease. The caller checks ``read`` to find out whether the webhook is
        due.
        """

    async def sweep(self, now_ms: int) -> bool:
        """Delete a small, bounded amount of data that has expired by ``now_ms``; return whether more may remain.

        This is idempotent and safe to repeat after any failure. Messages are deleted before their inbox, and the inbox
        before its tombstone.
        """

    async def erase(self) -> bool:
        """Erase deleted content from the disk and free some disk space; return False if a retry is needed.

        After this has returned True, no file contains the deleted content, provided that the engine itself writes the
        files. Only a different process that is reading the storage can delay this for a long time.
        """

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        """Make a snapshot of all data in the engine's own format; leaving the context erases the snapshot.

        Incoming mail is stored as usual during this time. Raises ``StorageFull`` if the disk has no room for the copy
        in addition to its reserve, and ``CommandError`` if the copy must be made with a different program.
        """

    def reason_not_ready(self) -> str:
        """Return the reason why data cannot be stored, such as a failure of the last write, or "" if it can be stored.

        Does no I/O.
        """

    def metrics(self) -> Sequence[Metric]:
        """Return the engine's metrics; reading them does not query the storage."""

    def on_committed(self, callback: OnCommitted) -> None:
        """Register ``callback``; it runs in the event loop after each commit that changed inboxes.

        The callback runs before the methods that made the changes return their results. Commits by other daemons on the
        same storage are also reported, as soon as this daemon is notified of them.
        """

    def watch(self, listened: Listened, on_missed: Callable[[], None], on_blocks: OnBlocks) -> None:
        """Set the callbacks that are required because other daemons may change the same storage.

        ``listened`` returns the ids of the inboxes that currently have listeners. These inboxes are polled, because
        another daemon may stop before it has reported a commit. ``on_missed`` is called when reports from other daemons
        may have been lost. ``on_blocks`` is called with all blocks soon after another daemon has changed a block. If
        only one daemon at a time can use the storage, the engine never calls these callbacks.
        """

    async def close(self) -> None:
        """Finish the accepted operations, then close. May be called more than once."""
