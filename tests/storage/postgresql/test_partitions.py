"""Each partition covers ten minutes of expiry times: mail is stored in its inbox's partitions and dropped with them."""

import asyncio

from patience import PATIENCE_SECONDS
from tests.storage.conftest import LIFETIME_MS
from tmpmaild.model import Page
from tmpmaild.storage.postgresql.partitions import SLOT_MS

from .conftest import reading

DAY_MS = 86_400_000
USAGE = "SELECT ARRAY[sum(stored_bytes), sum(inboxes), sum(messages)]::bigint[] FROM usage"


async def tables(engine_):
    names = (
        "SELECT array_agg(relname::text) FROM pg_class WHERE relname ~ '^(message|content)_[0-9]+$' AND relkind = 'r'"
    )
    return await reading(engine_, names)


async def test_the_partitions_of_a_slot_are_dropped_when_it_has_passed(two):
    first, second = two
    inbox = await first.inbox("ada")
    await first.add(inbox)
    slot = inbox.expires_at_ms // SLOT_MS
    first.clock.advance(ms=LIFETIME_MS)
    await first.sweep()
    assert f"message_{slot}" in await tables(first)
    first.clock.advance(ms=SLOT_MS + 30_000)
    await first.sweep()
    left = await tables(first)
    assert (f"message_{slot}" in left, f"content_{slot}" in left) == (False, False)
    for page in (Page(), Page(text="x")):
        assert await first.messages("ada", page) == ()
    assert {f"content_{first.clock() // SLOT_MS}", "content_0", "message_0"} < set(left)
    second.clock.advance(ms=LIFETIME_MS + SLOT_MS + 30_000)
    await second.sweep()
    assert not second.storage._partitions.has(slot)  # a daemon forgets slots that a different daemon has dropped


async def test_mail_moves_to_the_slot_in_which_its_inbox_now_expires(two):
    first, second = two
    ada, bob = await first.inbox("ada"), await second.inbox("bob")
    await first.add(ada, bob, subject="shared")
    for later_ms in (2 * SLOT_MS, 3 * DAY_MS):  # inboxes that live longer than a day share a separate slot
        await first.move(ada, first.clock() + later_ms)
        assert await first.subjects("ada", Page()) == await second.subjects("bob", Page()) == ["shared"]
    for engine_ in two:
        engine_.clock.advance(ms=2 * SLOT_MS)
    await second.sweep()
    assert await first.subjects("ada", Page()) == ["shared"]
    assert (await first.find("ada")).message_count == 1
    for engine_ in two:
        engine_.clock.advance(ms=5 * DAY_MS)
    await second.sweep()
    assert await reading(second, USAGE) == [0, 0, 0]
    assert await reading(second, "SELECT count(*) FROM content") == 0


async def test_a_reader_of_a_partition_only_delays_its_end(two):
    first, _ = two
    inbox = await first.inbox("ada")
    await first.add(inbox)
    first.clock.advance(ms=LIFETIME_MS + 2 * SLOT_MS)
    reader = await first.storage._readers._idle[-1].connection()
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("SELECT * FROM message")
    while await first.storage.sweep(first.clock()):
        pass
    assert not await first.storage.erase()
    later = await first.inbox("later")
    await asyncio.wait_for(first.add(later), PATIENCE_SECONDS)
    await transaction.rollback()
    assert await first.storage.erase()


async def test_a_partition_dropped_by_a_third_party_is_created_again(opened, run):
    inbox = await opened.inbox("ada")
    slot = inbox.expires_at_ms // SLOT_MS
    for names in (f"message_{slot}", f"content_{slot}, message_{slot}"):
        run(f"DROP TABLE {names}")
        await opened.storage.erase()
        await opened.add(inbox, subject=names)
        assert names in await opened.subjects("ada", Page())


async def test_the_remains_of_mail_dropped_by_a_third_party_are_swept_and_counted(opened, run):
    for name in ("ada", "bob"):
        inbox = await opened.inbox(name)
        await opened.add(inbox)
    run(f"DROP TABLE content_{inbox.expires_at_ms // SLOT_MS}")
    await opened.storage.erase()
    opened.clock.advance(ms=LIFETIME_MS)
    await opened.sweep()
    assert await reading(opened, "SELECT count(*) FROM inbox WHERE NOT swept") == 1  # only the operator's inbox is left
    assert (await reading(opened, USAGE))[1:] == [0, 0]


async def test_mail_whose_inbox_was_deleted_by_a_third_party_keeps_no_partition(opened, run):
    inbox = await opened.inbox("ada")
    await opened.add(inbox)
    before = await reading(opened, USAGE)
    run(f"DELETE FROM inbox WHERE id = {inbox.id}")
    opened.clock.advance(ms=LIFETIME_MS + 2 * SLOT_MS)
    await opened.sweep()
    assert await reading(opened, f"SELECT to_regclass('content_{inbox.expires_at_ms // SLOT_MS}')") is None
    after = await reading(opened, USAGE)
    assert (before[2], after[2]) == (1, 0)
    assert after[0] < before[0]


async def test_partitions_are_vacuumed_until_their_mail_expires(opened):
    name = f"content_{opened.clock() // SLOT_MS + 1}"
    options = f"SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE relname = '{name}'"
    assert "autovacuum_enabled" not in await reading(opened, options)
    opened.clock.advance(ms=SLOT_MS)
    await opened.sweep()
    assert "autovacuum_enabled=false" in await reading(opened, options)
