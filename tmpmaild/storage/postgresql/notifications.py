"""Exchanges notifications about changed inboxes with the other daemons on the database, using LISTEN and NOTIFY.

A notification consists of space-separated words, which contain ids and times but no message content. All daemons since
1.0 use the same words and ignore unknown words, so that different versions can run at the same time.

Any role that may connect can send notifications. Notices of deletions, expiries and verdicts are therefore checked
against the database, and false notices are dropped. Otherwise, a false deletion would make clients stop reading.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import asyncpg
from msgspec.structs import replace

from tmpmaild.errors import DatabaseError, RequestError
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, VerdictReached
from tmpmaild.storage.base import Listened, OnCommitted
from tmpmaild.storage.batching import notify
from tmpmaild.storage.keys import InboxKey, MessageKey, message_key
from tmpmaild.storage.postgresql.server import FAILURES, PROBE_SECONDS, Session, deadline, reason
from tmpmaild.storage.rows import verdict_reached

CHANNEL: Final = "tmpmaild"
POLL_SECONDS: Final = 2.0
MAX_PAYLOAD_BYTES: Final = 7_900  # the server accepts fewer than 8,000 bytes

_MISSED: Final = "!"  # sent in place of changes that were omitted
_BLOCKS: Final = "b"  # sent when the blocks have changed
_FULL: Final = "f"
_SHARE_FULL: Final = "s"
_MAX_DIGITS: Final = 18  # fits into the server's bigint
_PAUSE_AFTER_SECONDS: Final = 0.001
_RETRY_SECONDS: Final = 0.5
_MAX_WORDS: Final = 20_000

_NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS n(payload)"
_STATES: Final = """
SELECT i.id, i.expires_at_ms, m.keys, m.verdicts FROM inbox AS i CROSS JOIN LATERAL (
    SELECT array_agg(key) AS keys, array_agg(authentication) AS verdicts
    FROM message WHERE inbox_id = i.id AND slot = i.slot AND key = ANY($2::bigint[])
) AS m WHERE i.id = ANY($1::bigint[])
"""
# Row 0 is not an inbox: it contains the version of the blocks.
_POLL: Final = """
SELECT id, last_key, expires_at_ms FROM inbox WHERE id = ANY($1::bigint[])
UNION ALL SELECT 0, blocks_version, 0 FROM service
"""

log = logging.getLogger(__name__)


def word(change: InboxChange) -> str:
    """Encode a change as one word: the inbox, flags, and the notice."""
    match change.notice:
        case None:
            notice = ""
        case MessageDeleted(message_id):
            notice = f"-{message_id}"
        case ExpiryMoved(expires_at_ms):
            notice = f"@{expires_at_ms}"
        case VerdictReached(message_id):
            notice = f"v{message_id}"
        case InboxDeleted():
            notice = "x"
    return f"{change.inbox_id},{_FULL * change.full}{_SHARE_FULL * change.share_full},{notice}"


def payloads(words: Iterable[str]) -> Iterator[str]:
    """Join words into strings that each fit into one notification."""
    joined: list[str] = []
    size_bytes = 0
    for one in words:
        if size_bytes + len(one) >= MAX_PAYLOAD_BYTES:
            yield " ".join(joined)
            joined, size_bytes = [], 0
        joined.append(one)
        size_bytes += len(one) + 1
    if joined:
        yield " ".join(joined)


def changes(words: Iterable[str]) -> list[InboxChange]:
    """Decode words into changes. Unknown words, such as those from a newer daemon, are ignored."""
    parts = ([*one.split(",", 2), "", ""][:3] for one in words)
    return [
        InboxChange(inbox_id, full=_FULL in flags, share_full=_SHARE_FULL in flags, notice=_notice(notice))
        for inbox_id, flags, notice in parts
        if _is_number(inbox_id)
    ]


def _notice(text: str) -> MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached | None:
    match text[:1], text[1:]:
        case "-", message_id:
            return MessageDeleted(message_id)
        case "@", time_ms if _is_number(time_ms):
            return ExpiryMoved(int(time_ms))
        case "v", message_id:
            return VerdictReached(message_id)
        case "x", "":
            return InboxDeleted()
        case _:
            return None


def _is_number(text: str) -> bool:
    """Return whether the server accepts this number; any role that may connect could have sent it."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


async def confirmed(connection: asyncpg.Connection, received: Sequence[InboxChange], now_ms: int) -> list[InboxChange]:
    """Return the changes without a notice, and the changes whose notice the database confirms.

    Verdicts are read from the database as well.
    """
    doubted = [int(change.inbox_id) for change in received if change.notice is not None]
    keys = [key for change in received if (key := _message_key(change)) is not None]
    rows = {row["id"]: row for row in await connection.fetch(_STATES, doubted, keys)}
    found = (_confirmed(change, rows.get(int(change.inbox_id)), now_ms) for change in received)
    return [change for change in found if change is not None]


def _message_key(change: InboxChange) -> MessageKey | None:
    """Return the key of the message to which a notice refers; None if the inbox cannot contain such a message."""
    message_id = change.notice.message_id if isinstance(change.notice, MessageDeleted | VerdictReached) else ""
    return message_key(message_id, InboxKey(int(change.inbox_id)))


def _confirmed(change: InboxChange, row: asyncpg.Record | None, now_ms: int) -> InboxChange | None:
    """Return a change with its verdict added; None if the inbox's row does not confirm the change.

    ``row`` is None if the inbox no longer exists.
    """
    key = _message_key(change)
    verdicts = {} if row is None else dict(zip(row["keys"] or (), row["verdicts"] or (), strict=True))
    match change.notice:
        case None:
            is_so = True
        case MessageDeleted():
            is_so = key is not None and key not in verdicts
        case VerdictReached(message_id):
            verdict = verdicts.get(key)
            return None if verdict is None else replace(change, notice=verdict_reached(message_id, verdict))
        case ExpiryMoved(expires_at_ms):  # if the expiry has changed again since then, a second notice will follow
            is_so = row is not None and row["expires_at_ms"] == expires_at_ms
        case InboxDeleted():
            is_so = row is None or row["expires_at_ms"] <= now_ms
    return change if is_so else None


class ChangeNotifications:
    """Sends and receives notifications of changes until ``close``.

    ``reason_not_ready`` is the reason for the last failure, or "" if the database responds.

    ``on_back`` is called when the database responds again, and ``on_blocks`` when another daemon has changed the
    blocks.
    """

    def __init__(
        self, session: Session, clock: Callable[[], int], on_back: Callable[[], None], on_blocks: Callable[[], None]
    ) -> None:
        self.reason_not_ready = ""
        self._session = session
        self._clock = clock
        self._on_back = on_back
        self._on_blocks = on_blocks
        self._on_missed: Callable[[], None] = lambda: None
        self._callbacks: list[OnCommitted] = []
        self._listened: Listened = tuple
        self._blocks_version: int | None = None
        self._words: dict[str, None] = {}  # the words to send, in order
        self._unconfirmed: list[InboxChange] = []
        self._seen: dict[int, tuple[int, int]] = {}
        self._listening_on: asyncpg.Connection | None = None
        self._poll_at = 0.0
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start listening. Raises the same errors as ``Session.connection``."""
        await self._connection()
        self._task = asyncio.create_task(self._work())

    def on_received(self, callback: OnCommitted) -> None:
        """Register ``callback``; it is called with changes made by other daemons."""
        self._callbacks.append(callback)

    def watch(self, listened: Listened, on_missed: Callable[[], None]) -> None:
        """See ``Storage``."""
        self._listened = listened
        self._on_missed = on_missed

    def announce_blocks(self) -> None:
        """Notify the other daemons that this daemon has changed the blocks."""
        self._words[_BLOCKS] = None
        self._woken.set()

    def announce(self, changes: Sequence[InboxChange]) -> None:
        """Queue changes made by this daemon, to notify the other daemons."""
        self._note(changes)
        self._words.update(dict.fromkeys(map(word, changes)))
        if len(self._words) > _MAX_WORDS:  # the database has been unavailable for a long time
            self._words = {_MISSED: None}
        self._woken.set()

    async def close(self) -> None:
        """Send the queued notifications, then close the connection."""
        self._stopping.set()
        self._woken.set()
        if self._task is not None:
            await self._task
        await self._session.close()

    async def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._do_next()
            except (*FAILURES, RequestError, DatabaseError) as error:
                self.reason_not_ready = reason(error)
                await _within(self._stopping, _RETRY_SECONDS)
            except Exception:  # if this task ended, changes would be missed silently
                log.exception("notifying other daemons failed; will retry")
                await _within(self._stopping, _RETRY_SECONDS)
        if self._words and self._listening_on is not None:
            try:
                await self._send(self._listening_on)
            except FAILURES as error:
                log.debug("other daemons could not be notified of the last changes: %s", error)

    async def _do_next(self) -> None:
        """Wait until there is work to do or the next poll is due, and do the work."""
        await _within(self._woken, self._poll_at - time.monotonic())
        self._woken.clear()
        connection = await self._connection()
        if self._unconfirmed:
            await self._confirm(connection)
        if self._words:
            await self._send(connection)
        if time.monotonic() >= self._poll_at:
            await self._poll(connection)
        await asyncio.sleep(_PAUSE_AFTER_SECONDS)

    async def _connection(self) -> asyncpg.Connection:
        """Return the connection that listens; if it is a new connection, changes may have been missed."""
        connection = await self._session.connection()
        if connection is not self._listening_on:
            is_first = self._listening_on is None
            with deadline(connection, PROBE_SECONDS):
                await connection.add_listener(CHANNEL, self._receive)
            connection.add_termination_listener(lambda _: self._woken.set())
            self._listening_on = connection
            if not is_first:
                self._on_missed()
        return connection

    async def _send(self, connection: asyncpg.Connection) -> None:
        words, self._words = self._words, {}
        try:
            with deadline(connection, PROBE_SECONDS):
                await connection.fetch(_NOTIFY, list(payloads(words)))
        except FAILURES:
            self._words = {_MISSED: None} | self._words
            raise

    async def _poll(self, connection: asyncpg.Connection) -> None:
        """Read the inboxes that have listeners, and notify the listeners of those that changed since the last poll."""
        self._poll_at = time.monotonic() + POLL_SECONDS
        wanted = [int(inbox_id) for inbox_id in self._listened()]
        # If the host does not respond here, it does not respond on the other connections either.
        with deadline(connection, PROBE_SECONDS, self._session.server.terminate_all):
            rows = await connection.fetch(_POLL, wanted)
        if self.reason_not_ready:
            self.reason_not_ready = ""
            log.info("the database is back", extra={"about": time.monotonic()})  # so that every recovery is logged
            self._on_back()
        seen = {row["id"]: (row["last_key"], row["expires_at_ms"]) for row in rows}
        self._compare_blocks(seen.pop(0)[0])
        changed = [change for key, state in seen.items() for change in _between(key, self._seen.get(key), state)]
        self._seen = seen
        if changed:
            notify(self._callbacks, changed)

    def _compare_blocks(self, version: int) -> None:
        if self._blocks_version not in (None, version):
            self._on_blocks()
        self._blocks_version = version

    def _receive(
        self, connection: asyncpg.Connection | asyncpg.pool.PoolConnectionProxy, pid: int, channel: str, payload: object
    ) -> None:
        del channel
        if connection.is_closed() or pid == connection.get_server_pid():  # on_missed is called for the next connection
            return
        words = str(payload).split()
        if _MISSED in words:
            self._on_missed()
        if _BLOCKS in words:
            self._on_blocks()
        received = changes(words)
        if not self._unconfirmed and all(change.notice is None for change in received):
            notify(self._callbacks, received)
        elif len(self._unconfirmed) < _MAX_WORDS:
            self._unconfirmed += received
            self._woken.set()
        else:
            self._on_missed()

    async def _confirm(self, connection: asyncpg.Connection) -> None:
        """Pass the received changes to the callbacks, in order, if the database confirms them."""
        received, self._unconfirmed = self._unconfirmed, []
        try:
            with deadline(connection, PROBE_SECONDS):
                received = await confirmed(connection, received, self._clock())
        except FAILURES:
            self._on_missed()
            raise
        self._note(received)
        notify(self._callbacks, received)

    def _note(self, received: Sequence[InboxChange]) -> None:
        """Record the expiry changes that have been reported, so that ``_poll`` does not report them again."""
        for change in received:
            key = int(change.inbox_id)
            if isinstance(change.notice, ExpiryMoved) and key in self._seen:
                self._seen[key] = (self._seen[key][0], change.notice.expires_at_ms)
            elif isinstance(change.notice, InboxDeleted):
                self._seen.pop(key, None)


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but no longer than this many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()


def _between(key: int, before: tuple[int, int] | None, now: tuple[int, int]) -> list[InboxChange]:
    """Return an inbox's changes between two polls. An inbox that was not polled before may have new messages."""
    found = []
    if before is None or now[0] != before[0]:
        found.append(InboxChange(str(key), full=False))
    if before is not None and now[1] != before[1]:
        found.append(InboxChange(str(key), full=False, notice=ExpiryMoved(now[1])))
    return found
