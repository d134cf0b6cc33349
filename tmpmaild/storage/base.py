"""The storage contract: what every engine promises, and what ``tests/storage`` checks for each.

- Times are Unix milliseconds in UTC and are arguments; the only clock of an engine is the one it was given, for the
  times of commits. An engine does not decide whether an address has expired: it returns the expiry.
- Message ids and cursors are opaque strings that sort by arrival. Messages become visible in ascending order of their
  ids: after reading up to an id, a client finds everything newer by ``Page.after``.
- When a method returns, its change is committed durably: it survives a power cut. When it raises, nothing has changed.
  Cancelling a caller neither undoes an operation that was accepted nor affects other callers.
- A ``permit`` argument is called with the inbox that was found, before anything else is read; an exception that it
  raises is passed on. It may be called in any thread.
- For expected failures only the errors of ``tmpmaild.errors`` are raised: ``StorageFull`` and ``StorageUnavailable``
  by every method, others where they are named.
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
"""The inbox of postmaster and abuse: it always exists, no address finds it, and its limits and lifetime are its own."""

OPERATOR_MAIL_MS = 30 * 24 * 60 * 60 * 1000

DELETED_AT_ONCE = 100
DELETED_AT_ONCE_BYTES = 8 * 1024 * 1024
"""The most messages, and bytes as stored, that one transaction of ``delete_messages`` deletes; or one larger message.

By default an inbox holds no more messages. On SQLite deleting so many bytes takes some 50 ms, and deliveries wait.
"""

Permit = Callable[[Inbox], object]
"""Called with the inbox before anything else is read; raises to deny access."""

OnCommitted = Callable[[Sequence[InboxChange]], None]
OnBlocks = Callable[[Sequence[Block]], None]
Listened = Callable[[], Collection[str]]
"""Returns the ids of the inboxes whose changes are waited for."""

ANY_SIZE = 1 << 62
"""As a bound of bytes: no bound."""
TRUNCATED_BYTES = 1024
"""The length of the beginning that a page has of a body that does not fit."""

NO_LIMIT: Final = 1 << 62


def anybody(_: Inbox) -> None:
    """Permit everybody to read an inbox."""


class HasBody(Protocol):
    """A message of a page; ``body_bytes`` is the size of its whole body in UTF-8."""

    @property
    def body_bytes(self) -> int:
        """The size of the body."""


M = TypeVar("M", bound=HasBody)


def bodies_to_read(large: Iterable[M], room_bytes: int) -> Iterator[tuple[M, bool]]:
    """Yield the messages with large bodies, which come newest first, and whether the body is whole.

    It is as long as it fits the rest of the page, which has ``room_bytes``; else it is cut.
    """
    for message in large:
        is_whole = message.body_bytes <= max(room_bytes, TRUNCATED_BYTES)
        room_bytes -= message.body_bytes if is_whole else TRUNCATED_BYTES
        yield message, is_whole


def cut(body: str) -> tuple[str, bool]:
    """Return the first ``TRUNCATED_BYTES`` of a body, and whether there are more."""
    octets = body.encode()
    return octets[:TRUNCATED_BYTES].decode(errors="ignore"), len(octets) > TRUNCATED_BYTES


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of what may be stored; 0 means no limit, for ``max_bytes`` the engine's default.

    ``reserve_bytes`` must stay free for mail that is being received. The share is of ``max_bytes``. The operator's
    inbox has limits of its own.
    """

    max_bytes: int = 0
    reserve_bytes: int = 0
    max_messages_per_inbox: int = 0
    max_bytes_per_inbox: int = 0
    max_share_per_creator: float = 1.0

    @property
    def inbox_messages(self) -> int:
        """The number of messages an inbox may hold."""
        return self.max_messages_per_inbox or NO_LIMIT

    @property
    def inbox_bytes(self) -> int:
        """The number of bytes an inbox may hold."""
        return self.max_bytes_per_inbox or NO_LIMIT

    @property
    def creator_bytes(self) -> int:
        """The number of bytes all inboxes of a creator may hold."""
        return int(self.max_share_per_creator * self.max_bytes) if self.max_bytes else NO_LIMIT


class Summary(Struct, frozen=True):
    """The contents of a storage, read without a daemon: inboxes that are not swept yet, and their messages.

    ``clean_stop`` is false while a daemon uses it, and after one was killed; None where that makes no difference.
    """

    clean_stop: bool | None
    inboxes: int
    messages: int
    file_bytes: int


def retired_domains(
    known: Mapping[str, int | None], served: Collection[str], *, now_ms: int, until_ms: int
) -> dict[str, int]:
    """Return the result of ``Storage.serve_domains``; None marks a known domain that was served the last time."""
    left_out = {name: until_ms if until is None else until for name, until in known.items() if name not in served}
    return {name: until for name, until in left_out.items() if until > now_ms}


class Storage(Protocol):
    """Inboxes and their messages on disk, and the decisions of the operator about them."""

    clock: Callable[[], int]
    """Returns the time in Unix milliseconds, by the clock that all who use the storage follow, without querying it."""

    may_cache: bool
    """Whether an inbox may be cached, once read, until ``on_committed`` reports a change of it.

    It may not where others change inboxes and ``on_committed`` may report that late.
    """

    lost: asyncio.Event
    """Set once the stored data is gone, for example because the database was removed.

    Every method raises ``StorageLost`` from then on, until the daemon is restarted.
    """

    async def serve_domains(self, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
        """Store which domains accept new addresses; return the others that are kept, each with the end of that time.

        A domain that was among them the last time and is not now is kept until ``until_ms``, or until the last of all
        inboxes expires if that is later; then it is forgotten. This works when the storage is full.
        """

    async def blocks(self) -> Sequence[Block]:
        """Read all blocks, in the order of their kinds and values. The sweep deletes those that have expired."""

    async def change_blocks(self, added: Sequence[Block] = (), removed: Sequence[tuple[str, str]] = ()) -> None:
        """Store blocks, each in place of one of the same kind and value, and delete those of these kinds and values.

        Those that do not exist are ignored. This works when the storage is full.
        """

    def buckets(self, *, tokens_per_minute: int, burst: int, name: str) -> Buckets:
        """Return the token buckets of a policy, shared by all who use the storage. A crash may fill them again."""

    async def put_permission(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        """Store what a secret permits until it expires. A crash may lose it."""

    async def get_permission(self, secret: str) -> bytes | None:
        """Return what a secret permits; None when it is unknown or has expired. A secret may be any text."""

    async def change_limits(self, limits: Limits) -> None:
        """Use other limits from now on. What is stored stays, even if it exceeds them."""

    def audit_hash(self, address: str, *, day: str) -> str:
        """Return the hash that represents an inbox address in the audit on a day in UTC, such as ``2026-11-28``.

        It is the same for all who use the storage, and cannot be computed without the storage.
        """

    def has_room(self) -> bool:
        """Return whether new inboxes and mail are accepted: neither the cap nor the disk's reserve is reached.

        Answered from memory, as measured after the last commit or sweep.
        """

    async def create_inbox(self, new: NewInbox) -> Inbox:
        """Store a new address.

        Raises ``AddressTaken`` while the name is in use and for ``new.name_held_ms`` after that, ``MailboxFull`` while
        the creator has used up its share.
        """

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """Find an address that is alive, or that expired less than ``NAME_HELD_MS`` before ``now_ms``.

        Expired and deleted addresses look alike: ``expires_at_ms`` is in the past.
        """

    async def list_inboxes(
        self, now_ms: int, *, creator: str | None = None, expired: bool = False, after: str = ""
    ) -> InboxPage:
        """Read some of the inboxes that are alive, or of those that have expired and are not swept yet.

        The order is that of their expiry, and ``after`` is the ``next`` of the page before. With ``creator`` only those
        that this client has created; such a page may have few inboxes or none, and another one after it. An inbox whose
        expiry is moved between two pages may be in both or, if it now expires earlier, in none. The operator's inbox is
        in no list.
        """

    async def operator_box(self) -> OperatorBox:
        """Read which clients the mail in the operator's inbox is from, and how much of it that takes."""

    async def delete_operator_mail(self, message_ids: Collection[str] | None = None) -> int:
        """Delete those of ``message_ids`` that the operator's inbox holds, else all of it, as ``delete_messages``."""

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = anybody) -> Listing | None:
        """Read one page of an inbox and the inbox itself in one snapshot; None as ``find_inbox``.

        What ``sender``, ``subject``, ``text`` and ``has`` say is not looked at here.
        """

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """Read the beginnings of the texts of those messages that the inbox still holds, in any order.

        Empty for the operator's inbox.
        """

    async def read_message(
        self,
        address: str,
        now_ms: int,
        permit: Permit = anybody,
        *,
        message_id: str,
        up_to_bytes: int = ANY_SIZE,
        source: bool = False,
        is_next: bool = False,
    ) -> tuple[Inbox, FullMessage | None] | None:
        """Read one message and the inbox in one snapshot; None as ``find_inbox``.

        The message is None when this inbox holds none with exactly that id, which may be any text. Its texts are left
        out when its source has more than ``up_to_bytes``. With ``source`` that is read in place of head and texts.
        With ``is_next`` it is the oldest message that arrived after the one with this id, of all after "": then the id
        is compared, so such a message need not exist.
        """

    def last_id_before(self, time_ms: int) -> str:
        """Return an id that sorts before those of all messages that arrive at this time or later."""

    def add_message(self, mail: NewMail) -> Awaitable[str]:
        """Store a message in all of its inboxes or in none, and return its id in the first of them.

        Inboxes that have expired at the time of the commit are left out, and one named twice counts once.
        Raises ``AddressNotFound`` when none is left, ``MailboxFull`` when one of them is full. In the operator's inbox,
        if that is full, older messages give way (``storage/operatorbox.py``), unless the client's share is used up.
        """

    async def delete_messages(
        self, inbox_id: str, message_ids: Collection[str] | None = None, *, up_to: str | None = None
    ) -> int:
        """Delete those of ``message_ids`` that the inbox holds, else all up to the id ``up_to``, else all.

        Returns how many were deleted: 0 for the operator's inbox. ``up_to`` is compared, so such a message need not
        exist. All are deleted by one transaction up to ``DELETED_AT_ONCE`` messages and ``DELETED_AT_ONCE_BYTES``; more
        by several, oldest first, with deliveries between them. If then one raises or the caller is cancelled, those
        before it were deleted. This works when the storage is full, and frees the space.
        """

    async def set_authentication(self, inbox_id: str, authentication: Authentication, *, message_id: str) -> None:
        """Store the result of sender authentication for a message.

        Raises ``MessageNotFound`` if the inbox has expired or has no such message, or if the message has a result.
        """

    async def move_expiry(self, inbox_id: str, *, expires_at_ms: int, now_ms: int) -> None:
        """Set the expiry of an inbox. With ``now_ms`` or less the inbox expires now.

        Raises ``AddressExpired`` if it has expired at ``now_ms`` or at the commit, ``AddressNotFound`` if it has been
        forgotten, and always for the operator's inbox.
        """

    async def set_webhook(self, inbox_id: str, webhook: Webhook | None, now_ms: int) -> None:
        """Set the webhook of an inbox in place of the one before, or take it away. Raises as ``move_expiry``.

        A new one has been told of all messages that are stored at the commit. It goes with its inbox, when the sweep
        deletes that. ``on_committed`` is not told.
        """

    async def read_webhook(self, inbox_id: str) -> StoredWebhook | None:
        """Read the webhook of an inbox, which may be any text; None if it has none."""

    async def list_webhooks(self, *, after: str = "", limit: int = 100) -> Sequence[StoredWebhook]:
        """Read webhooks in the order in which their inboxes were created, those after the inbox with this id."""

    async def store_webhook(self, read: StoredWebhook, state: WebhookState | None) -> StoredWebhook | None:
        """Store how far the calls of a webhook have come and when it is due again, or with None take it away.

        Returns it as it is then; None, and nothing has changed, if it was set anew or stored since it was read, or is
        gone. So of several daemons one leases it, by storing when the lease ends, also if its inbox has expired; what
        it stores next ends the lease. Whether it is due is for the caller to see in what was read.
        """

    async def sweep(self, now_ms: int) -> bool:
        """Delete a small bounded amount of what has expired at ``now_ms``; True when there may be more.

        Idempotent, and safe to repeat after any failure. Messages go before their inbox, the inbox before
        its tombstone.
        """

    async def erase(self) -> bool:
        """Erase deleted content from the disk, then return some of the freed space to it; False means: try again later.

        After True no file holds a byte of it where the engine writes the files itself. Only another process that reads
        the storage can delay this for long.
        """

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        """Make a copy of everything as of one moment, in the engine's own format; leaving the context erases it.

        Mail is stored meanwhile. Raises ``StorageFull`` if the disk has no room for it besides its reserve,
        ``CommandError`` if the engine has a better program for it.
        """

    def reason_not_ready(self) -> str:
        """Return the reason why nothing can be stored, or "": the last write failed. Answered from memory."""

    def metrics(self) -> Sequence[Metric]:
        """Return the engine's metrics; reading them does not query the storage."""

    def on_committed(self, callback: OnCommitted) -> None:
        """Register ``callback``; it runs in the event loop after each commit that changed inboxes.

        It runs before the methods that made the changes return. Commits of other daemons on the same storage are
        reported as well, as soon as they are known here.
        """

    def watch(self, listened: Listened, on_missed: Callable[[], None], on_blocks: OnBlocks) -> None:
        """Go by what ``listened`` returns, the ids of the inboxes whose changes are waited for at that moment.

        They are looked at now and then, in case that a daemon has ended before it told of a commit. ``on_missed`` runs
        when others may have told what was not heard here. ``on_blocks`` gets all blocks soon after another daemon has
        changed some. Storage that only one daemon can use calls none of them.
        """

    async def close(self) -> None:
        """Finish the accepted operations, then close. May be called twice."""
