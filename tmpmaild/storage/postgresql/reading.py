"""Reads inboxes, pages of their messages, single messages and their sources.

The first statement finds the inbox, and ``permit`` is called with it. The second statement reads the inbox again,
together with the requested messages, in one snapshot. The second statement specifies the slot, so that only the
partition of this slot is read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import asyncpg

from tmpmaild.model import NAME_HELD_MS, Block, FullMessage, Inbox, InboxPage, Listing, Page, Texts
from tmpmaild.storage.base import OPERATOR_INBOX_ID, TRUNCATED_BYTES, cut
from tmpmaild.storage.keys import InboxKey, MessageKey, key_after, keys_between, message_id_in, message_key
from tmpmaild.storage.operatorbox import Entry, OperatorBox
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
from tmpmaild.storage.postgresql.writer import allowed
from tmpmaild.storage.rows import Bounds, FullRow, InboxRow, ListedRow, WebhookRow, inbox_at, is_of_html

_ATTEMPTS: Final = 10
_NO_KEY: Final = MessageKey(-1)
_TEXTS_AT_ONCE: Final = 50
Columns = tuple[object, ...]
"""The values of a row, in the order of the selected columns."""

_LISTED_COLUMNS: Final = (*ListedRow._fields, "verbatim")
"""The columns that a list selects for a ``ListedRow``; the body is either text or part of the source."""
_EXPRESSIONS = {
    "key": "m.key",
    "recipient": "m.recipient",
    "authentication": "m.authentication",
    "has_html": "c.html IS NOT NULL AS has_html",
    "verbatim": "substr(c.source, c.body_at + 1, c.body_bytes) AS verbatim",
}


def _listed(read: Columns) -> ListedRow:
    """Convert the values of ``_LISTED_COLUMNS`` to a row."""
    *others, body, verbatim = read
    assert body is None or isinstance(body, str)
    assert verbatim is None or isinstance(verbatim, bytes)
    return ListedRow._make((*others, _body_text(body, verbatim)))


def _body_text(body: str | None, verbatim: bytes | None) -> str | None:
    """Return a body with LF line endings, from either column; None if it was not read."""
    if verbatim is None:
        return body
    return verbatim.decode(errors="ignore").replace("\r\n", "\n")


def _selected(names: Sequence[str], **expressions: str) -> str:
    """Return a SELECT list for the fields of a row; a field without an expression is read from its column."""
    known = _EXPRESSIONS | {name: f"{expression} AS {name}" for name, expression in expressions.items()}
    return ", ".join(known.get(name, f"c.{name}") for name in names)


def _if_small(condition: str) -> dict[str, str]:
    """Return the expressions for a body that is read only if the condition is true."""
    return {
        "body": f"CASE WHEN {condition} THEN c.body END",
        "verbatim": f"CASE WHEN {condition} THEN substr(c.source, c.body_at + 1, c.body_bytes) END",
    }


def _beginning(characters: str) -> dict[str, str]:
    """Return the expressions for the beginning of a body; ``characters`` is a query parameter.

    A character takes at most four bytes, and a line ending takes two bytes. Therefore, if the byte limit splits a
    character, this character is always beyond the requested characters.
    """
    return {
        "body": f"left(c.body, {characters})",
        "verbatim": f"substr(c.source, c.body_at + 1, least(c.body_bytes, 4 * {characters}))",
    }


# A swept inbox counts as expired even if the clock has been set back since the sweep. $1: now, $2: the limits of
# inboxes.
_INBOX: Final = """
SELECT i.id, i.created_at_ms,
       CASE WHEN i.swept THEN least(i.expires_at_ms, $1::bigint) ELSE i.expires_at_ms END AS ends,
       i.private, i.token_hash, i.message_count,
       i.message_count >= most_messages(i.id, $2) OR i.stored_bytes + ($2::bigint[])[6] > most_bytes(i.id, $2)
           OR i.creator IS NOT NULL AND coalesce(c.stored_bytes, 0) + ($2::bigint[])[6] > ($2::bigint[])[3] AS is_full,
       i.slot
FROM inbox AS i
LEFT JOIN LATERAL (SELECT creator.stored_bytes FROM creator WHERE creator.hash = i.creator OFFSET 0) AS c ON true
"""
_FIND: Final = f"{_INBOX} WHERE i.name_hash = $3 AND i.expires_at_ms > $4"
_FIND_SEVERAL: Final = f"""
SELECT f.*, n.place FROM unnest($3::bytea[], $1::bigint[], $4::bigint[])
    WITH ORDINALITY AS n(hash, now_ms, held_since_ms, place)
CROSS JOIN LATERAL (
    {_INBOX.replace("$1::bigint", "n.now_ms")} WHERE i.name_hash = n.hash AND i.expires_at_ms > n.held_since_ms OFFSET 0
) AS f
"""
_AGAIN: Final = f"WITH found AS ({_INBOX} WHERE i.id = $3 AND i.slot = $4)"
_INBOX_COLUMNS: Final = 8

_JOINED: Final = """
FROM message_SLOT AS m
CROSS JOIN LATERAL (
    SELECT * FROM content_SLOT AS content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0
) AS c
"""
"""Messages of one slot with their content.

OFFSET 0 prevents query plans that begin by reading the contents of all inboxes.

Partitions are specified by name, because statements on the partitioned tables take the server four times as long.
"""

_OF_INBOX: Final = "m.slot = $4 AND m.inbox_id = $3"
_LISTED: Final = _selected(_LISTED_COLUMNS, **_if_small("c.body_bytes <= $5::bigint"))

_BETWEEN: Final = "m.key > $6 AND m.key < $7"
_BODIES: Final = f"""
SELECT m.key, {_selected(("body", "verbatim"))} {_JOINED}
    WHERE m.slot = $2 AND m.inbox_id = $1 AND m.key = ANY($3::bigint[])
UNION ALL
SELECT m.key, {_selected(("body", "verbatim"), **_beginning("$5"))} {_JOINED}
    WHERE m.slot = $2 AND m.inbox_id = $1 AND m.key = ANY($4::bigint[])
"""
_RECIPIENTS: Final = {
    ascending: f"""
SELECT m.key, m.recipient FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT key, recipient FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND message.key > $2 AND message.key < $3
    ORDER BY key {order} LIMIT $4 OFFSET 0
) AS m
WHERE i.id = $1 ORDER BY m.key {order}
"""
    for ascending, order in ((True, "ASC"), (False, "DESC"))
}
_INBOXES: Final = f"""
SELECT {", ".join(InboxRow._fields)}, address
FROM inbox
WHERE NOT swept AND (expires_at_ms, id) > ($1, $2) AND expires_at_ms <= $3
ORDER BY expires_at_ms, id LIMIT $4
"""
_WEBHOOKS: Final = """
SELECT w.inbox_id, i.address, i.expires_at_ms, w.version, w.told_message, w.told_verdict, w.failures, w.next_at_ms,
       w.called_at_ms, w.result, w.webhook, i.last_key
FROM webhook AS w
CROSS JOIN LATERAL (SELECT address, expires_at_ms, last_key FROM inbox WHERE id = w.inbox_id OFFSET 0) AS i
WHERE w.inbox_id > $1 ORDER BY w.inbox_id LIMIT $2
"""
_BLOCKS: Final = (
    'SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind COLLATE "C", value COLLATE "C"'
)
_OPERATOR_ENTRIES: Final = f"""
SELECT m.key, coalesce(c.remote_ip, ''), coalesce(c.stored_bytes, 0)
{_JOINED.replace("_SLOT", "_0")} WHERE m.slot = 0 AND m.inbox_id = $1 ORDER BY m.key
"""


def _with_inbox(columns: str, condition: str, more: str = "") -> str:
    """Return a statement that reads an inbox and these columns of its messages; their parameters start at $5."""
    messages = f"SELECT {columns}, m.key AS place {_JOINED} WHERE {_OF_INBOX} AND {condition} {more}"
    return f"{_AGAIN} SELECT found.*, p.* FROM found LEFT JOIN LATERAL ({messages}) AS p ON true"


_PAGES: Final = {
    ascending: f"{_with_inbox(_LISTED, _BETWEEN, f'ORDER BY m.key {order} LIMIT $8')} ORDER BY p.place {order}"
    for ascending, order in ((True, "ASC"), (False, "DESC"))
}
_FULL_LISTED: Final = _selected(_LISTED_COLUMNS, **_if_small("c.size_bytes <= $6::bigint"))
_FULL: Final = _selected(
    FullRow._fields,
    head="substr(c.source, 1, $8::integer)",
    html="CASE WHEN c.size_bytes <= $6::bigint THEN c.html END",
    source="CASE WHEN c.size_bytes <= $7::bigint THEN c.source END",
)
_MESSAGE: Final = _with_inbox(f"{_FULL_LISTED}, {_FULL}", "m.key = $5")
_NEXT_MESSAGE: Final = _with_inbox(f"{_FULL_LISTED}, {_FULL}", "m.key > $5", "ORDER BY m.key LIMIT 1")
_TEXTS: Final = f"""
SELECT m.key, {_selected(("body", "verbatim"), **_beginning("$3"))}, coalesce(left(c.html, $3), ''), c.headers
FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT * FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND message.key = ANY($2::bigint[]) OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT * FROM content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0) AS c
WHERE i.id = $1
"""


def _of_slot(sql: str, slot: int) -> str:
    """Return the form of the statement that reads the partitions of a slot."""
    return sql.replace("_SLOT", f"_{slot}")


class Found(NamedTuple):
    """An inbox, and the slot of its messages."""

    inbox: Inbox
    slot: int

    @property
    def key(self) -> InboxKey:
        """The key of the inbox."""
        return InboxKey(int(self.inbox.id))


async def _find(connection: asyncpg.Connection, lookup: InboxLookup) -> Found | None:
    """Read an inbox that has not been forgotten yet, and call ``permit`` with it."""
    values = (lookup.now_ms, allowed(lookup.limits), lookup.name_hash, lookup.now_ms - NAME_HELD_MS)
    row = await connection.fetchrow(_FIND, *values)
    if row is None:
        return None
    found = _found(lookup, row)
    lookup.permit(found.inbox)
    return found


def _found(lookup: InboxLookup, row: asyncpg.Record) -> Found:
    return Found(inbox_at(lookup.address, row[: _INBOX_COLUMNS - 1]), row[_INBOX_COLUMNS - 1])


async def _read(
    connection: asyncpg.Connection,
    lookup: InboxLookup,
    sql: str,
    make_values: Callable[[Found], Sequence[object]],
) -> tuple[Found, list[Columns]] | None:
    """Find an inbox, and read it again together with columns of some of its messages; None if it does not exist."""
    for _ in range(_ATTEMPTS):
        found = await _find(connection, lookup)
        if found is None:
            return None
        read = await _read_again(connection, lookup, sql, found, *make_values(found))
        if read is not None:
            return read
    raise TimeoutError("the inbox keeps changing")


async def _read_again(
    connection: asyncpg.Connection, lookup: InboxLookup, sql: str, found: Found, *values: object
) -> tuple[Found, list[Columns]] | None:
    """Read the inbox with some of its messages; None if it was forgotten or its expiry has changed in the meantime."""
    values = (lookup.now_ms, allowed(lookup.limits), found.key, found.slot, *values)
    try:
        records = await connection.fetch(_of_slot(sql, found.slot), *values)
    except asyncpg.UndefinedTableError:
        return found, []  # the slot has passed, and its partitions have been dropped
    new = _found(lookup, records[0]) if records else None
    if new is None or new.inbox.expires_at_ms != found.inbox.expires_at_ms:
        return None
    # The last column is the key again; it is NULL if there are no messages.
    return new, [row[_INBOX_COLUMNS:-1] for row in records if row[-1] is not None]


async def find_several(connection: asyncpg.Connection, lookups: Sequence[InboxLookup]) -> Sequence[Inbox | None]:
    """Read several inboxes that have not been forgotten yet in one statement, without calling ``permit``."""
    times_ms = [one.now_ms for one in lookups]
    hashes = [one.name_hash for one in lookups]
    held_since_ms = [now_ms - NAME_HELD_MS for now_ms in times_ms]
    # The limits can differ only during a reload, in which case the newest limits are used.
    rows = await connection.fetch(_FIND_SEVERAL, times_ms, allowed(lookups[-1].limits), hashes, held_since_ms)
    found: list[Inbox | None] = [None for _ in lookups]
    for row in rows:
        place = row["place"] - 1
        found[place] = _found(lookups[place], row).inbox
    return found


async def select_messages(connection: asyncpg.Connection, lookup: InboxLookup, page: Page) -> Listing | None:
    """Read an inbox and a page of its messages."""

    def values(found: Found) -> Sequence[int]:
        return page.small_bytes, *keys_between(page, found.key), page.limit + 1

    read = await _read(connection, lookup, _PAGES[page.ascending], values)
    if read is None:
        return None
    found, rows = read
    shown, has_more = fit_page(map(_listed, rows), page)
    bodies = await _large_bodies(connection, found, omitted_bodies(shown, page))
    messages = with_bodies(shown, bodies, partial(message_id_in, found.key))
    return Listing(found.inbox, messages, has_more=has_more)


async def select_recipients(connection: asyncpg.Connection, inbox_key: InboxKey, page: Page) -> list[tuple[str, str]]:
    """Read the ids and recipients of a page of messages."""
    values = (inbox_key, *keys_between(page, inbox_key), page.limit)
    found = await connection.fetch(_RECIPIENTS[page.ascending], *values)
    return [(message_id_in(inbox_key, key), recipient or "") for key, recipient in found]


async def _large_bodies(
    connection: asyncpg.Connection, found: Found, is_whole: Mapping[MessageKey, bool]
) -> dict[MessageKey, tuple[str, bool]]:
    """Read bodies or their beginnings; return bodies and truncation flags by message key."""
    if not is_whole:
        return {}
    whole_keys = [key for key, whole in is_whole.items() if whole]
    other_keys = [key for key, whole in is_whole.items() if not whole]
    values = (found.key, found.slot, whole_keys, other_keys, TRUNCATED_BYTES + 1)
    try:
        records = await connection.fetch(_of_slot(_BODIES, found.slot), *values)
    except asyncpg.UndefinedTableError:
        return {}
    bodies = {key: _body_text(body, verbatim) or "" for key, body, verbatim in records}
    return {key: (body, False) if is_whole[key] else cut(body) for key, body in bodies.items()}


async def select_inboxes(connection: asyncpg.Connection, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page of the inbox list; with ``creator_hash``, only the inboxes of that creator."""
    addresses: dict[InboxKey, str] = {}
    rows: list[InboxRow] = []
    for *row, address in await connection.fetch(_INBOXES, *between, PAGE_ROWS):
        rows.append(InboxRow._make(row))
        addresses[rows[-1].id] = address
    return inbox_page(rows, wanted=by_creator(rows, creator_hash), addresses=addresses)


async def select_message(
    connection: asyncpg.Connection, lookup: InboxLookup, bounds: Bounds, *, message_id: str, is_next: bool
) -> tuple[Inbox, FullMessage | None] | None:
    """Read one message and its inbox; see ``Storage.read_message``."""

    def values(found: Found) -> tuple[int, ...]:
        key = key_after(message_id, found.key) if is_next else message_key(message_id, found.key)
        return _NO_KEY if key is None else key, *bounds

    read = await _read(connection, lookup, _NEXT_MESSAGE if is_next else _MESSAGE, values)
    if read is None:
        return None
    found, rows = read
    if not rows:
        return found.inbox, None
    message, full = _listed(rows[0][: len(_LISTED_COLUMNS)]), FullRow._make(rows[0][len(_LISTED_COLUMNS) :])
    return found.inbox, full.message(message, message_id_in(found.key, message.key), found.inbox.id)


async def select_texts(
    connection: asyncpg.Connection, inbox_key: InboxKey, keys: Sequence[MessageKey], up_to_characters: int
) -> tuple[list[Texts], Sequence[MessageKey]]:
    """Read the beginning of the body and HTML of some messages; also return the keys of the messages not read yet."""
    texts: list[Texts] = []
    read = await connection.fetch(_TEXTS, inbox_key, keys[:_TEXTS_AT_ONCE], up_to_characters)
    for key, body, verbatim, html, headers in read:
        text = (_body_text(body, verbatim) or "")[:up_to_characters]
        texts.append(Texts(message_id_in(inbox_key, key), text, html, is_of_html(html, headers)))
    return texts, keys[_TEXTS_AT_ONCE:]


async def select_webhooks(connection: asyncpg.Connection, *, after: InboxKey, limit: int) -> list[WebhookRow]:
    """Read the webhooks of the inboxes that follow ``after``."""
    return [WebhookRow._make(row) for row in await connection.fetch(_WEBHOOKS, after, limit)]


async def select_blocks(connection: asyncpg.Connection) -> list[Block]:
    """Read all blocks."""
    return [Block(*row) for row in await connection.fetch(_BLOCKS)]


async def operator_box(connection: asyncpg.Connection) -> OperatorBox:
    """Read the senders and sizes of the messages in the operator's inbox."""
    return OperatorBox(Entry(*row) for row in await connection.fetch(_OPERATOR_ENTRIES, int(OPERATOR_INBOX_ID)))
