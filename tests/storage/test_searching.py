"""A search is many small reads: how much each may do is bounded, and mail comes and goes between them."""

import asyncio
from functools import partial

import pytest

from tmpmaild.model import Page
from tmpmaild.storage.ids import keyed_hash
from tmpmaild.storage.sqlite import reading
from tmpmaild.storage.sqlite.reading import select_inbox

from .conftest import new_mail


@pytest.fixture
async def engine(open_engine):
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as opened:
        yield opened


@pytest.fixture
async def inbox(engine):
    return await engine.inbox("ada")


async def add(engine, inbox, count, **mail):
    mails = [new_mail(inbox, subject=str(number), **mail) for number in range(count)]
    return await asyncio.gather(*map(engine.storage.add_message, mails))


def connection(engine):
    return engine.storage._writer._connection  # reads in this thread, in step with what is written


async def begin(engine, page):
    name_hash = keyed_hash(engine.storage._hash_key, "ada@mail.example.com")
    limits, now_ms = engine.storage._limits, engine.clock()
    find = partial(select_inbox, limits=limits, address="ada@mail.example.com", name_hash=name_hash, now_ms=now_ms)
    search = reading.SqliteSearch(find, page)
    return search, search.go_on(connection(engine))


def steps(engine, search):
    """Go on to the end; return the page and how many reads it took."""
    taken, listing = 0, None
    while not search.ended:
        listing, taken = search.go_on(connection(engine)), taken + 1
    return listing, taken


async def test_a_step_looks_at_so_many_messages_and_no_more(engine, inbox):
    await add(engine, inbox, 3 * reading._STEP_MESSAGES)
    search, listing = await begin(engine, Page(text="nowhere"))
    assert listing is None
    listing, taken = steps(engine, search)
    assert (listing.messages, taken) == ((), 3)


async def test_a_step_looks_at_so_many_octets_and_no_more(engine, inbox):
    await add(engine, inbox, 12, raw=b"x" * (reading._SEARCH_STEP_BYTES // 3))
    search, listing = await begin(engine, Page(text="nowhere"))
    assert (listing, steps(engine, search)[1]) == (None, 3)


async def test_an_inbox_of_usual_size_is_searched_in_one_read(engine, inbox):
    await add(engine, inbox, 100, raw=b"x" * 2000)
    _, listing = await begin(engine, Page(text="nowhere"))
    assert listing.messages == ()


async def test_a_search_ends_where_enough_is_found(engine, inbox):
    stored = await add(engine, inbox, 3 * reading._STEP_MESSAGES)
    for ascending in (False, True):
        _, listing = await begin(engine, Page(text="ada", limit=5, ascending=ascending))
        wanted = stored[:5] if ascending else stored[-5:][::-1]
        assert ([message.id for message in listing.messages], listing.has_more) == (wanted, True)


@pytest.mark.parametrize("ascending", [False, True])
async def test_what_is_deleted_between_two_steps_makes_room_for_the_next_on_the_page(engine, inbox, ascending):
    stored = await add(engine, inbox, 3 * reading._STEP_MESSAGES)
    found = stored[77::100]  # six in three steps
    order = found if ascending else found[::-1]
    search, listing = await begin(engine, Page(subject="77", limit=4, ascending=ascending))
    assert listing is None
    await engine.delete(inbox, order[0])
    listing, _ = steps(engine, search)
    assert ([message.id for message in listing.messages], listing.has_more) == (order[1:5], True)


async def test_the_inbox_is_that_of_the_last_step(engine, inbox):
    """Storage does not decide what has expired: it returns the time, which may have changed since the first step."""
    await add(engine, inbox, 2 * reading._STEP_MESSAGES)
    search, listing = await begin(engine, Page(subject="77"))
    assert listing is None
    engine.clock.advance(ms=5)
    await engine.end(inbox)
    listing, _ = steps(engine, search)
    assert listing.inbox.expires_at_ms == engine.clock()


async def test_a_search_ends_when_its_inbox_is_forgotten_between_two_steps(engine, inbox):
    await add(engine, inbox, 2 * reading._STEP_MESSAGES)
    inboxes = iter([await engine.find("ada"), None])
    search = reading.SqliteSearch(lambda _: next(inboxes), Page(subject="77"))
    assert search.go_on(connection(engine)) is None
    assert (search.ended, search.go_on(connection(engine)), search.ended) == (False, None, True)


@pytest.mark.parametrize("ascending", [False, True])
async def test_nothing_that_comes_after_a_search_stands_before_where_it_went_to(engine, inbox, ascending):
    assert await engine.messages("ada", Page(text="x", after=(await look(engine, ascending)).searched_to)) == ()
    stored = await add(engine, inbox, 2 * reading._STEP_MESSAGES)
    search, _ = await begin(engine, Page(text="nowhere", ascending=ascending))
    later = await engine.add(inbox, subject="later")
    listing, _ = steps(engine, search)
    assert stored[-1] == listing.searched_to < later
    rest = Page(text="later", after=listing.searched_to, ascending=ascending)
    assert [message.id for message in await engine.messages("ada", rest)] == [later]


async def look(engine, ascending):
    page = Page(text="nowhere", ascending=ascending)
    return await engine.storage.list_messages("ada@mail.example.com", page, engine.clock())


async def test_mail_that_comes_between_two_steps_is_for_the_next_search(engine, inbox):
    await add(engine, inbox, 2 * reading._STEP_MESSAGES)
    for ascending in (False, True):
        search, listing = await begin(engine, Page(sender="ada", limit=1000, ascending=ascending))
        new = await engine.add(inbox)
        listing, _ = steps(engine, search)
        assert new not in {message.id for message in listing.messages}
        assert len(listing.messages) == listing.inbox.message_count - 1


async def test_a_search_finds_its_rows_by_index(engine, inbox):
    """No step may read a whole table: the plan has no SCAN of one."""
    await add(engine, inbox, 10)
    statements, plans = [], []
    connection(engine).set_trace_callback(statements.append)
    search, _ = await begin(engine, Page(text="3", limit=1))
    search.go_on(connection(engine))
    connection(engine).set_trace_callback(None)
    for sql in statements:
        plans += [row[3] for row in connection(engine).execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert plans
    assert [plan for plan in plans if plan.startswith("SCAN") and "json_each" not in plan] == []
    assert [plan for plan in plans if "B-TREE" in plan] == []


async def test_other_reads_pass_between_the_steps_of_a_search(engine, inbox):
    await add(engine, inbox, 10 * reading._STEP_MESSAGES)
    search = asyncio.ensure_future(engine.messages("ada", Page(text="nowhere")))
    passed = 0
    while not search.done():
        await engine.find("ada")
        passed += 1
    assert passed >= 9


async def test_a_search_leaves_no_read_transaction_open(engine, inbox):
    await add(engine, inbox, 10)
    assert len(await engine.messages("ada", Page(sender="ada", limit=3))) == 3
    await engine.delete(inbox, (await engine.messages("ada", Page()))[0].id)
    assert await engine.storage.erase()


async def test_a_list_without_filters_is_one_statement_beside_that_of_the_inbox(engine, inbox):
    await add(engine, inbox, 10)
    statements = []
    reader = engine.storage._reader._connection
    await reader.set_trace_callback(statements.append)
    await engine.messages("ada", Page(sender="", text=""))
    await reader.set_trace_callback(None)
    assert len([sql for sql in statements if "SELECT" in sql]) == 2
