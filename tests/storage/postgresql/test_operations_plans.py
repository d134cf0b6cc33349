"""No statement reads more rows when more data is stored; the server counts the rows in a filled database."""

from pathlib import Path

import pytest

from tests.storage.conftest import new_mail, postgresql_settings
from tmpmaild.model import NewInbox, Page
from tmpmaild.storage.deleting import Selection
from tmpmaild.storage.keys import MAX_KEY
from tmpmaild.storage.paging import PAGE_ROWS, listed_between
from tmpmaild.storage.postgresql import engine, operations, reading
from tmpmaild.storage.postgresql.partitions import SLOT_MS
from tmpmaild.storage.postgresql.writer import Batch
from tmpmaild.storage.rows import StateRow, bounds_of

INBOXES = 2000
ROWS = """
SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_user_tables
WHERE relname ~ '^(inbox|creator|message|content|block|webhook)' AND relname !~ '^usage'
"""


@pytest.fixture(scope="module")
def filled(cluster):
    return cluster.parsed_url(cluster.database())


@pytest.fixture
async def storage(filled, clock):
    settings = postgresql_settings(filled, max_bytes=1 << 40, max_messages_per_inbox=0, max_bytes_per_inbox=0)
    async with engine.open_storage(settings, clock) as storage:
        await storage._partitions.add([clock() // SLOT_MS, clock() // SLOT_MS + 1])
        client = await storage._writer._session.connection()
        if not await client.fetchval("SELECT EXISTS (SELECT 1 FROM inbox WHERE id > 1)"):
            inboxes, more = Path(__file__).with_suffix(".sql").read_text().split("\n\n")
            await client.fetch(inboxes, clock(), clock() // SLOT_MS, INBOXES)
            await client.execute(more)
        yield storage


def name(number):
    return f"{number}@x.test"


@pytest.fixture
async def counted(storage):
    """Return a function that runs work in a transaction, rolls it back, and returns the number of rows read."""
    client = await storage._writer._session.connection()

    async def counted(work):
        for _ in range(2):  # the first run creates the plans
            transaction = client.transaction()
            await transaction.start()
            before = await client.fetchval(ROWS)
            await work(client)
            rows = await client.fetchval(ROWS) - before
            await transaction.rollback()
        return rows

    return counted


async def test_changes_to_one_inbox_read_few_rows(storage, counted, clock):
    def batch(client):
        return Batch(client, clock(), storage._usage)

    def run(*of_one_kind):
        return lambda client: type(of_one_kind[0]).run(batch(client), of_one_kind)

    new = NewInbox("new@x.test", clock(), clock() + 1000, private=False, token_hash=b"", creator="192.0.2.1")
    work = {
        "create": run(operations.CreateInbox(new=new, name_hash=b"n" * 16, creator_hash=b"c" * 16)),
        "deliver": run(operations.AddMessage(new_mail("57", "58", "59"))),
        "delete": run(operations.DeleteMessage(57, 56)),
        "delete with copies": run(operations.deletion(57, Selection(MAX_KEY, [56], copies=True))),
        "delete several with copies": run(operations.deletion(57, Selection(MAX_KEY, range(1, 101), copies=True))),
        "find a copy": lambda client: client.fetch(operations._COPIES, [58], [58], [0]),
        "end": lambda client: operations.move_expiry(batch(client), 57, expires_at_ms=clock(), requested_at_ms=clock()),
        "move": lambda client: operations.move_expiry(
            batch(client), 57, expires_at_ms=clock() + 2 * SLOT_MS, requested_at_ms=clock()
        ),
        "set a webhook": lambda client: operations.set_webhook(
            batch(client), 57, "{}", requested_at_ms=clock(), version=1
        ),
        "store webhooks": run(
            *(operations.StoreWebhook(StateRow(number, 1, 0, 0, 0, 1, None, "")) for number in (57, 58, 59))
        ),
        "take webhooks away": run(*(operations.StoreWebhook(StateRow(number, 1)) for number in (57, 58, 59))),
        "domains": lambda client: client.fetchval("SELECT count_usage(1, 0, 0, 0)"),
    }
    rows = {what: await counted(one) for what, one in work.items()}
    assert {what: count for what, count in rows.items() if count > 60} == {}


async def test_reads_of_one_inbox_read_few_rows(storage, counted, clock):
    md5 = bytes.fromhex("72b32a1f754ba1c09b3695e0cb6cde7f")  # MD5 of "57"
    lookup = storage._lookup(name(57), clock())._replace(name_hash=md5)
    work = {
        "find": lambda client: reading.find_several(client, [lookup]),
        "list": lambda client: reading.select_messages(client, lookup, Page()),
        "one": lambda client: reading.select_message(
            client, lookup, bounds_of(1000, source=False), message_id="msg_" + "0" * 26, is_next=False
        ),
        "next": lambda client: reading.select_message(
            client, lookup, bounds_of(1000, source=True), message_id="", is_next=True
        ),
        "recipients": lambda client: reading.select_recipients(client, 57, Page()),
        "oldest recipients": lambda client: reading.select_recipients(client, 57, Page(ascending=True)),
        "texts": lambda client: reading.select_texts(client, 58, [57], 100),
        "webhook": lambda client: reading.select_webhooks(client, after=56, limit=1),
        "inboxes": lambda client: reading.select_inboxes(client, listed_between(clock()), None),
    }
    rows = {what: await counted(one) for what, one in work.items()}
    assert rows.pop("inboxes") <= PAGE_ROWS + 10
    assert min(rows.values()) > 0
    assert {what: count for what, count in rows.items() if count > 20} == {}


async def test_a_sweep_reads_only_expired_rows(storage, counted, clock):
    rows = await counted(
        lambda client: operations.sweep(Batch(client, clock() + 10_000, storage._usage), clock() + 10_000)
    )
    assert 0 < rows < 300


async def test_a_large_sweep_reads_each_row_a_few_times_whatever_the_table_statistics(storage, counted, clock):
    later_ms = clock() + 400_000
    rows = []
    for statement in ("SELECT 1", "ANALYZE inbox, creator"):
        client = await storage._writer._session.connection()
        await client.execute(statement)
        rows.append(await counted(lambda client: operations.sweep(Batch(client, later_ms, storage._usage), later_ms)))
    assert min(rows) > 360
    assert max(rows) < 25 * 360, rows
