"""Reads inboxes, pages and single messages: the SELECT statements, and the single thread that runs them."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import aiosqlite
from msgspec import json

from tmpmaild.errors import Stopping, StorageLost
from tmpmaild.model import NAME_HELD_MS, Block, FullMessage, Inbox, InboxPage, Listing, Page, Texts
from tmpmaild.scheduling.clients import current_client
from tmpmaild.scheduling.roundrobin import RoundRobin
from tmpmaild.storage.base import OPERATOR_INBOX_ID, TRUNCATED_BYTES, cut
from tmpmaild.storage.batching import settle
from tmpmaild.storage.keys import InboxKey, MessageKey, key_after, keys_between, message_id_of, message_key
from tmpmaild.storage.operatorbox import OPERATOR_MAX_MESSAGES, Entry, OperatorBox
from tmpmaild.storage.paging import (
    PAGE_ROWS,
    Between,
    InboxLookup,
    by_creator,
    fit_page,
    inbox_page,
    omitted_bodies,
    with_bodies,
)
from tmpmaild.storage.rows import Bounds, FullRow, InboxRow, ListedRow, WebhookRow, inbox_at, is_of_html
from tmpmaild.storage.sqlite import opening, space
from tmpmaild.storage.sqlite.errors import translate
from tmpmaild.storage.sqlite.layout import MIN_STORED_BYTES, SLOT_BYTES, SLOTS, selected

P = ParamSpec("P")
T = TypeVar("T")
Read = Callable[[sqlite3.Connection], T]

_MAX_BATCH = 16
_BATCH_SECONDS = 0.005
_STEP_BYTES = 1024 * 1024

# A swept inbox counts as expired even if the clock has been set back since.
_INBOX = """
SELECT i.id, i.created_at_ms, CASE WHEN i.swept THEN min(i.expires_at_ms, :now_ms) ELSE i.expires_at_ms END,
       i.private, i.token_hash, i.message_count,
       i.message_count >= :max_messages OR i.stored_bytes > :full_bytes
           OR (i.creator IS NOT NULL AND coalesce(c.stored_bytes, 0) > :full_creator_bytes)
FROM inbox AS i
LEFT JOIN creator AS c ON c.hash = i.creator
WHERE i.name_hash = :name_hash AND i.expires_at_ms > :forgotten_ms
"""

BEGINNING = """
substr(
    CASE WHEN c.body_at IS NULL THEN c.body ELSE
        replace(
            CAST(coalesce(substr(c.source, c.body_at + 1, min(c.body_bytes, 4 * :characters)), '') AS TEXT),
            char(13, 10), char(10)
        )
    END, 1, :characters
)
"""
"""The beginning of a body, from ``content AS c``: the view ``readable`` would build the whole body first.

A character has at most four bytes, and a line end two. A character split by the byte limit is therefore always beyond
the characters that are returned.
"""
_LISTED = selected(ListedRow._fields, body="CASE WHEN c.size_bytes <= :texts_bytes THEN c.body END")
_FULL = selected(
    FullRow._fields,
    "o",
    head="coalesce(substr(o.source, 1, :head_bytes), x'')",
    html="CASE WHEN c.size_bytes <= :texts_bytes THEN o.html END",
    source="CASE WHEN c.size_bytes <= :source_bytes THEN o.source END",
)
_FULL_MESSAGE = f"""
SELECT {_LISTED}, {_FULL}
FROM message AS m JOIN readable AS c ON c.id = m.content_id JOIN content AS o ON o.id = m.content_id
"""
_MESSAGE = f"{_FULL_MESSAGE} WHERE m.id = :key AND m.inbox_id = :inbox_id"
_NEXT_MESSAGE = f"{_FULL_MESSAGE} WHERE m.inbox_id = :inbox_id AND m.id > :key ORDER BY m.id LIMIT 1"
_TEXTS = f"""
SELECT m.id, c.size_bytes, {BEGINNING}, coalesce(substr(c.html, 1, :characters), ''), c.headers
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.id IN (SELECT value FROM json_each(:keys)) AND m.inbox_id = :inbox_id
ORDER BY m.id
"""

# Small bodies are read with the page; large bodies are read separately, and truncated if they do not fit on the page.
_MESSAGES = f"""
SELECT {selected(ListedRow._fields, body="CASE WHEN c.body_bytes <= :small_bytes THEN c.body END")}
FROM message AS m JOIN readable AS c ON c.id = m.content_id
"""
_BETWEEN = f"{_MESSAGES} WHERE m.inbox_id = :inbox_id AND m.id > :after AND m.id < :before"
_OLDEST_FIRST = f"{_BETWEEN} ORDER BY m.id ASC LIMIT :limit"
_NEWEST_FIRST = f"{_BETWEEN} ORDER BY m.id DESC LIMIT :limit"
# Returns one row for the whole page, because sqlite3 releases and acquires the GIL for each row.
_RECIPIENTS = {
    ascending: f"""
SELECT json_group_array(json_array(id, recipient)) FROM (
    SELECT {selected(("key", "recipient"))} AS recipient
    FROM message AS m JOIN content AS c ON c.id = m.content_id
    WHERE m.inbox_id = :inbox_id AND m.id > :after AND m.id < :before ORDER BY m.id {order} LIMIT :limit
) AS page
"""
    for ascending, order in ((True, "ASC"), (False, "DESC"))
}
_decode_recipients = json.Decoder(tuple[tuple[MessageKey, str], ...]).decode
_WHOLE_BODY = "SELECT c.body FROM message AS m JOIN readable AS c ON c.id = m.content_id WHERE m.id = ?"
_CUT_BODY = f"SELECT {BEGINNING} FROM message AS m JOIN content AS c ON c.id = m.content_id WHERE m.id = :key"

# Uses the index on (swept, expires_at_ms, id).
_ROWS = f"""
SELECT {", ".join(InboxRow._fields)}
FROM inbox
WHERE swept = 0 AND (expires_at_ms, id) > (:after_ms, :after_id) AND expires_at_ms <= :up_to_ms
ORDER BY expires_at_ms, id LIMIT :limit
"""
_ADDRESSES = f"""
SELECT json_each.value, CAST(rtrim(substr(a.slots, json_each.value % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT)
FROM json_each(?) JOIN address AS a ON a.id = json_each.value / {SLOTS}
"""

# For each webhook, its inbox and the newest message are looked up. CROSS JOIN fixes this join order.
_WEBHOOKS = f"""
SELECT w.inbox_id, CAST(rtrim(substr(a.slots, w.inbox_id % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT),
       i.expires_at_ms, w.version, w.told_message_id, w.told_verdict_id, w.failures, w.next_at_ms, w.called_at_ms,
       w.result, t.webhook, coalesce((SELECT max(m.id) FROM message AS m WHERE m.inbox_id = w.inbox_id), 0)
FROM webhook AS w CROSS JOIN webhook_text AS t ON t.inbox_id = w.inbox_id CROSS JOIN inbox AS i ON i.id = w.inbox_id
     CROSS JOIN address AS a ON a.id = w.inbox_id / {SLOTS}
WHERE w.inbox_id > :after ORDER BY w.inbox_id LIMIT :limit
"""
_OPERATOR_ENTRIES = f"""
SELECT m.id, c.remote_ip, c.stored_bytes FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.inbox_id = ? ORDER BY m.id LIMIT {OPERATOR_MAX_MESSAGES}
"""
_BLOCKS = "SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind, value"


def select_inbox(connection: sqlite3.Connection, lookup: InboxLookup) -> Inbox | None:
    """Read an inbox that has not been forgotten yet, and call ``permit`` with it."""
    limits = lookup.limits
    values = {
        "name_hash": lookup.name_hash,
        "now_ms": lookup.now_ms,
        "forgotten_ms": lookup.now_ms - NAME_HELD_MS,
        "max_messages": limits.inbox_messages,
        "full_bytes": limits.inbox_bytes - MIN_STORED_BYTES,
        "full_creator_bytes": limits.creator_bytes - MIN_STORED_BYTES,
    }
    row = connection.execute(_INBOX, values).fetchone()
    if row is None:
        return None
    inbox = inbox_at(lookup.address, row)
    lookup.permit(inbox)
    return inbox


def select_messages(connection: sqlite3.Connection, lookup: InboxLookup, page: Page) -> Listing | None:
    """Read an inbox and a page of its messages."""
    inbox = select_inbox(connection, lookup)
    if inbox is None:
        return None
    after, before = keys_between(page)
    values = {
        "inbox_id": int(inbox.id),
        "after": after,
        "before": before,
        "limit": page.limit + 1,
        "small_bytes": page.small_bytes,
    }
    sql = _OLDEST_FIRST if page.ascending else _NEWEST_FIRST
    with closing(connection.execute(sql, values)) as found:
        rows, has_more = fit_page(map(ListedRow._make, found), page)
    bodies = {key: _body(connection, key, whole=is_whole) for key, is_whole in omitted_bodies(rows, page).items()}
    return Listing(inbox, with_bodies(rows, bodies, message_id_of), has_more=has_more)


def select_recipients(connection: sqlite3.Connection, inbox_key: InboxKey, page: Page) -> list[tuple[str, str]]:
    """Read the ids and recipients of a page of messages."""
    after, before = keys_between(page)
    values = {"inbox_id": inbox_key, "after": after, "before": before, "limit": page.limit}
    (found,) = connection.execute(_RECIPIENTS[page.ascending], values).fetchone()
    return [(message_id_of(key), recipient) for key, recipient in _decode_recipients(found)]


def _body(connection: sqlite3.Connection, key: MessageKey, *, whole: bool) -> tuple[str, bool]:
    """Return a body or its beginning, and whether it was truncated."""
    if whole:
        (body,) = connection.execute(_WHOLE_BODY, (key,)).fetchone()
        return body, False
    (body,) = connection.execute(_CUT_BODY, {"characters": TRUNCATED_BYTES + 1, "key": key}).fetchone()
    return cut(body)


def select_inboxes(connection: sqlite3.Connection, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page of the inbox list; with ``creator_hash``, only the inboxes of that creator."""
    values = {**between._asdict(), "limit": PAGE_ROWS}
    rows = [InboxRow._make(row) for row in connection.execute(_ROWS, values)]
    wanted = by_creator(rows, creator_hash)
    found = connection.execute(_ADDRESSES, (json.encode([row.id for row in wanted]).decode(),))
    return inbox_page(rows, wanted=wanted, addresses=dict(found.fetchall()))


def select_message(
    connection: sqlite3.Connection, lookup: InboxLookup, bounds: Bounds, *, message_id: str, is_next: bool
) -> tuple[Inbox, FullMessage | None] | None:
    """Read one message and its inbox, as ``Storage.read_message`` does."""
    inbox = select_inbox(connection, lookup)
    if inbox is None:
        return None
    key = key_after(message_id) if is_next else message_key(message_id)
    values = {"inbox_id": int(inbox.id), "key": key, **bounds._asdict()}
    found = connection.execute(_NEXT_MESSAGE if is_next else _MESSAGE, values).fetchone()
    if found is None:
        return inbox, None
    listed = ListedRow._make(found[: len(ListedRow._fields)])
    full = FullRow._make(found[len(ListedRow._fields) :])
    return inbox, full.message(listed, message_id_of(listed.key), inbox.id)


def select_webhooks(connection: sqlite3.Connection, *, after: InboxKey, limit: int) -> list[WebhookRow]:
    """Read the webhooks of the inboxes after ``after``."""
    return [WebhookRow._make(row) for row in connection.execute(_WEBHOOKS, {"after": after, "limit": limit})]


def select_texts(
    connection: sqlite3.Connection, inbox_key: InboxKey, keys: Sequence[MessageKey], up_to_characters: int
) -> tuple[list[Texts], list[MessageKey]]:
    """Read the start of the body and HTML of some messages; also return the keys that remain to be read."""
    values = {"inbox_id": inbox_key, "keys": json.encode(keys).decode(), "characters": up_to_characters}
    texts: list[Texts] = []
    read_bytes = 0
    with closing(connection.execute(_TEXTS, values)) as rows:
        for key, size_bytes, body, html, headers in rows:
            texts.append(Texts(message_id_of(key), body, html, is_of_html(html, headers)))
            read_bytes += size_bytes
            if read_bytes >= _STEP_BYTES:
                return texts, [later for later in keys if later > key]
    return texts, []


def select_blocks(connection: sqlite3.Connection) -> list[Block]:
    """Read all blocks."""
    return [Block(*row) for row in connection.execute(_BLOCKS)]


def operator_box(connection: sqlite3.Connection) -> OperatorBox:
    """Read the senders and sizes of the messages in the operator's inbox."""
    return OperatorBox(map(Entry._make, connection.execute(_OPERATOR_ENTRIES, (int(OPERATOR_INBOX_ID),))))


class Reader:
    """Runs functions on the thread of a read-only connection, as returned by ``connect``.

    Reads that are queued while another read is running share the next call to the thread, because calling the thread
    costs more than most reads. There is only one thread, because two threads would compete for the GIL at each row.
    Clients are served in turn, and a call stops early if its reads take long, so that one client's large pages do not
    delay other clients.
    """

    def __init__(
        self,
        connection: aiosqlite.Connection,
        files: space.Files,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._connection = connection
        self._files = files
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting = RoundRobin[_Waiting]()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False

    async def run(self, read: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **options: P.kwargs) -> T:
        """Call ``read`` with the connection and these arguments inside a read transaction, and return its result.

        Raises ``StorageUnavailable`` on a database error, and ``StorageLost`` if the file is gone.
        """
        if self._files.lost:
            raise StorageLost("the database is gone")
        if self._stopping:
            raise Stopping("the storage is closed")
        result: asyncio.Future[object] = self._loop.create_future()
        client = current_client()
        self._waiting.append(client, _Waiting(client, lambda connection: read(connection, *args, **options), result))
        if self._idle.is_set():
            self._idle.clear()
            self._loop.call_soon(self._read_next)
        return cast("T", await result)  # the future's result is the value that ``read`` returned

    async def close(self) -> None:
        """Finish the waiting reads, then close the connection."""
        self._stopping = True
        await self._idle.wait()
        await self._connection.close()

    def _read_next(self) -> None:
        """Pass the next waiting reads to the thread, except those that were cancelled."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < _MAX_BATCH:
            waiting = self._waiting.popleft()
            if not waiting.result.done():
                batch.append(waiting)
        if batch:
            _run_in_thread(self._connection, partial(self._read, batch))
        else:
            self._idle.set()

    def _read(self, batch: list["_Waiting"], connection: sqlite3.Connection) -> None:
        ends_at = self._clock() + _BATCH_SECONDS
        outcomes = _read_all(connection, [one.read for one in batch], lambda: self._clock() > ends_at)
        self._loop.call_soon_threadsafe(self._settle, batch, outcomes)

    def _settle(self, batch: list["_Waiting"], outcomes: list[object]) -> None:
        for one in reversed(batch[len(outcomes) :]):
            self._waiting.put_back(one.client, one)
        settle(
            [one.result for one in batch[: len(outcomes)]],
            [translate(one) if isinstance(one, Exception) else one for one in outcomes],
        )
        self._read_next()


class _Waiting(NamedTuple):
    """A queued read, and the client that requested it."""

    client: str
    read: Read[object]
    result: asyncio.Future[object]


def _run_in_thread(connection: aiosqlite.Connection, function: Callable[[sqlite3.Connection], None]) -> None:
    """Call a function on a connection's thread. No other code uses private names of aiosqlite.

    The public methods of aiosqlite run one statement each, but reading a list requires four statements, including the
    start and the end of a transaction. CPU time with 16 concurrent lists: 28 us per list with this function, 26 us per
    statement with ``execute_fetchall``, and 32 us per list with a single-thread executor instead of aiosqlite. A single
    list takes 78 us with this function, and 117 us with the executor. A future for the result would cost another 13 us.
    """
    connection._tx.put_nowait((None, partial(function, connection._conn)))  # noqa: SLF001


async def connect(path: Path) -> aiosqlite.Connection:
    """Open a read-only connection to a database that was previously opened for writing."""
    connection = await aiosqlite.connect(path, isolation_level=None)
    try:
        for statement in opening.READER_PRAGMAS:
            await connection.execute(statement)
    except sqlite3.Error:
        await connection.close()
        raise
    return connection


def _read_all(connection: sqlite3.Connection, reads: list[Read[object]], is_long: Callable[[], bool]) -> list[object]:
    """Run reads until ``is_long`` returns true, but always at least one read; return the outcomes."""
    # All reads run in one transaction, because starting and ending a transaction costs as much as finding an inbox.
    outcomes: list[object] = []
    for read in reads:
        outcomes.append(_read(connection, read))
        if is_long():
            break
    try:
        if connection.in_transaction:
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        return [error] * len(outcomes)
    return outcomes


def _read(connection: sqlite3.Connection, read: Read[object]) -> object:
    try:
        if not connection.in_transaction:  # an error may have rolled back the transaction
            connection.execute("BEGIN")
        return read(connection)
    except Exception as error:  # noqa: BLE001 - the exception is set on this read's future
        return error
