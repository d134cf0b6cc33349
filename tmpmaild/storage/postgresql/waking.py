"""Tells the other daemons which inboxes this one has changed, and hears it from them, on a connection of its own.

A NOTIFY within the transactions of deliveries would make all of them wait for one lock, so the changes are told after
their commits, at most once a millisecond. A daemon may end in between: so each looks every two seconds at the inboxes
that its clients wait for. An end that is told is held against the database first (``payloads.py``).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

import asyncpg

from tmpmaild.errors import DatabaseError, RequestError
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted
from tmpmaild.storage.commits import OnCommitted, tell
from tmpmaild.storage.postgresql.connection import Session
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason
from tmpmaild.storage.postgresql.payloads import BLOCKS, MISSED, changes, payloads, true_ones, word
from tmpmaild.storage.postgresql.server import PROBE_SECONDS, deadline

CHANNEL: Final = "tmpmaild"
LOOK_SECONDS: Final = 2.0

_TELL_SECONDS: Final = 0.001
_RETRY_SECONDS: Final = 0.5
_MAX_WORDS: Final = 20_000
_TELL: Final = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS n(payload)"
# No inbox has the id 0: that row has the version of the blocks.
_LOOK: Final = """
SELECT id, last_key, expires_at_ms FROM inbox WHERE id = ANY($1::bigint[])
UNION ALL SELECT 0, blocks_version, 0 FROM service
"""

log = logging.getLogger(__name__)


class Waker:
    """Tells and hears changes until ``close``. ``trouble`` is why the database did not answer the last time, or "".

    ``on_back`` is called when the database answers again, ``on_blocks`` when the blocks have been changed.
    """

    def __init__(self, session: Session, clock: Callable[[], int]) -> None:
        self._session = session
        self._clock = clock
        self._callbacks: list[Callable[[Sequence[InboxChange]], None]] = []
        self._listened: Callable[[], Collection[str]] = tuple
        self._on_missed: Callable[[], None] = _nothing
        self.trouble = ""
        self.on_back: Callable[[], None] = _nothing
        self.on_blocks: Callable[[], None] = _nothing
        self._blocks_version: int | None = None
        self._words: dict[str, None] = {}
        self._doubted: list[InboxChange] = []
        self._seen: dict[int, tuple[int, int]] = {}
        self._listening_on: asyncpg.Connection | None = None
        self._look_at = 0.0
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen from now on. Raises as ``Session.connection``."""
        await self._connection()
        self._task = asyncio.create_task(self._work())

    def on_heard(self, callback: OnCommitted) -> None:
        """Register ``callback``; it gets the changes of other daemons."""
        self._callbacks.append(callback)

    def watch(self, listened: Callable[[], Collection[str]], on_missed: Callable[[], None]) -> None:
        """See ``Storage``."""
        self._listened = listened
        self._on_missed = on_missed

    def tell_blocks(self) -> None:
        """Tell the others that this daemon has changed the blocks."""
        self._words[BLOCKS] = None
        self._woken.set()

    def tell(self, told: Sequence[InboxChange]) -> None:
        """Note changes of this daemon, to be told to the others."""
        self._note(told)
        self._words.update(dict.fromkeys(map(word, told)))
        if len(self._words) > _MAX_WORDS:  # the database has been away for long
            self._words = {MISSED: None}
        self._woken.set()

    async def close(self) -> None:
        """Tell the changes that are left, then close the connection."""
        self._stopping = True
        self._woken.set()
        if self._task is not None:
            await self._task
        await self._session.close()

    async def _work(self) -> None:
        while not self._stopping:
            try:
                await self._turn()
            except (*FAILURES, RequestError, DatabaseError) as error:
                self.trouble = reason(error)
                await self._pause(_RETRY_SECONDS)
            except Exception:  # without this task the daemon would be deaf, and nobody would notice
                log.exception("waking other daemons failed; it goes on")
                await self._pause(_RETRY_SECONDS)
        if self._words and self._listening_on is not None:
            try:
                await self._send(self._listening_on)
            except FAILURES as error:
                log.debug("the last changes could not be told: %s", error)

    async def _pause(self, seconds: float) -> None:
        begun = time.monotonic()
        while not self._stopping and (left := begun + seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.1))

    async def _turn(self) -> None:
        """Wait until there is something to do, and do it."""
        await self._wait()
        connection = await self._connection()
        if self._doubted:
            await self._believe(connection)
        if self._words:
            await self._send(connection)
        if time.monotonic() >= self._look_at:
            await self._look(connection)
        await asyncio.sleep(_TELL_SECONDS)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(max(self._look_at - time.monotonic(), 0)):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def _connection(self) -> asyncpg.Connection:
        """Return the connection that listens; when it is a new one, changes may have been missed."""
        connection = await self._session.connection()
        if connection is not self._listening_on:
            is_first = self._listening_on is None
            with deadline(connection, PROBE_SECONDS):
                await connection.add_listener(CHANNEL, self._hear)
            connection.add_termination_listener(lambda _: self._woken.set())
            self._listening_on = connection
            if not is_first:
                self._on_missed()
        return connection

    async def _send(self, connection: asyncpg.Connection) -> None:
        words, self._words = self._words, {}
        try:
            with deadline(connection, PROBE_SECONDS):
                await connection.fetch(_TELL, list(payloads(words)))
        except FAILURES:
            self._words = {MISSED: None} | self._words
            raise

    async def _look(self, connection: asyncpg.Connection) -> None:
        """Read the inboxes that are waited for; those that have changed since the last time wake their listeners."""
        self._look_at = time.monotonic() + LOOK_SECONDS
        wanted = [int(inbox_id) for inbox_id in self._listened()]
        # A host that is silent now has been silent to the other connections as well.
        with deadline(connection, PROBE_SECONDS, self._session.server.terminate_all):
            rows = await connection.fetch(_LOOK, wanted)
        self._note_answer()
        seen = {row["id"]: (row["last_key"], row["expires_at_ms"]) for row in rows}
        self._compare_blocks(seen.pop(0)[0])
        changed = [change for key, state in seen.items() for change in _between(key, self._seen.get(key), state)]
        self._seen = seen
        if changed:
            tell(self._callbacks, changed)

    def _note_answer(self) -> None:
        if self.trouble:
            self.trouble = ""
            log.info("the database is back")
            self.on_back()

    def _compare_blocks(self, version: int) -> None:
        if self._blocks_version is not None and version != self._blocks_version:
            self.on_blocks()
        self._blocks_version = version

    def _hear(self, connection: asyncpg.Connection, pid: int, channel: str, payload: object) -> None:
        del channel
        if connection.is_closed() or pid == connection.get_server_pid():  # the next connection begins with on_missed
            return
        words = str(payload).split()
        if MISSED in words:
            self._on_missed()
        if BLOCKS in words:
            self.on_blocks()
        told = changes(words)
        if not self._doubted and all(change.notice is None for change in told):
            tell(self._callbacks, told)
        elif len(self._doubted) < _MAX_WORDS:
            self._doubted += told
            self._woken.set()
        else:
            self._on_missed()

    async def _believe(self, connection: asyncpg.Connection) -> None:
        """Tell the changes that were heard and are so, in their order."""
        told, self._doubted = self._doubted, []
        try:
            with deadline(connection, PROBE_SECONDS):
                told = await true_ones(connection, told, self._clock())
        except FAILURES:
            self._on_missed()
            raise
        self._note(told)
        tell(self._callbacks, told)

    def _note(self, told: Sequence[InboxChange]) -> None:
        """Remember expiries that were moved and told, so that ``_look`` does not tell them again."""
        for change in told:
            key = int(change.inbox_id)
            if isinstance(change.notice, ExpiryMoved) and key in self._seen:
                self._seen[key] = (self._seen[key][0], change.notice.expires_at_ms)
            elif isinstance(change.notice, InboxDeleted):
                self._seen.pop(key, None)


def _nothing() -> None:
    """Stand for what nobody has asked to be called for."""


def _between(key: int, before: tuple[int, int] | None, now: tuple[int, int]) -> list[InboxChange]:
    """Return what has happened to an inbox; one that was not looked at before may have got mail in the meantime."""
    found = []
    if before is None or now[0] != before[0]:
        found.append(InboxChange(str(key), full=False))
    if before is not None and now[1] != before[1]:
        found.append(InboxChange(str(key), full=False, notice=ExpiryMoved(now[1])))
    return found
