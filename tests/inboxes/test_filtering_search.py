"""Searches of an inbox by sender, subject, text and attachment, with a real service and storage."""

import asyncio
import random

import pytest
from services import service_over

from tmpmaild.inboxes import filtering
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import SEARCHED_CHARACTERS, Page, ParsedMail, Verbatim

from .conftest import add_mail

pytestmark = pytest.mark.both_engines

LIMITS = {"max_bytes": 1 << 30, "max_messages_per_inbox": 0, "max_bytes_per_inbox": 0}


class Engine:
    """A service with a storage."""

    def __init__(self, storage):
        self.service = service_over(storage)
        self.storage = storage

    async def inbox(self, name):
        return (await self.service.inboxes.create(NewAddress(local_part=name), None))[0]

    async def add(
        self, inbox, *, subject="A subject", sender="ada@example.com", name="Ada", body="", html=None, raw=b""
    ):
        parsed = ParsedMail(sender, name, subject, body, html, (), (), ())
        return await add_mail(self.storage, inbox.id, raw, parsed)


async def listing(engine, **page):
    return await engine.service.mail.list("ada@mail.example.com", Page(**page))


@pytest.fixture
async def engine(store, clock):
    async with store.open(clock, **LIMITS) as storage:
        yield Engine(storage)


@pytest.fixture
async def inbox(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox, subject="Welcome", sender="No-Reply@Example.com", name="Straße GmbH", body="Click here\n")
    await engine.add(inbox, subject="ΚΩΔΙΚΌΣ 42", sender="bob@example.org", name="", body="Your code\nis 4711\n")
    await engine.add(inbox, subject="", sender="", name="Bob", body="", html="<p>hidden")
    return inbox


async def test_a_message_without_a_from_field_is_found_by_its_envelope_and_no_read_transaction_is_left_open(
    engine, inbox
):
    assert [message.from_name for message in (await listing(engine, sender="BOUNCE@")).messages] == ["Bob"]
    await listing(engine, sender="bob", limit=1)
    await engine.storage.delete_messages(inbox.id)
    assert await engine.storage.erase()


@pytest.mark.parametrize("verbatim", [False, True])
async def test_only_the_beginning_of_a_body_is_searched(engine, verbatim):
    inbox = await engine.inbox("ada")
    for subject, before in (
        ("in", "€\n" * (SEARCHED_CHARACTERS // 2 - 2)),
        ("out", "€\n" * (SEARCHED_CHARACTERS // 2)),
    ):
        raw = (before + "END!" + "x" * 100_000).replace("\n", "\r\n").encode()
        body = Verbatim(0, len(raw)) if verbatim else raw.decode().replace("\r\n", "\n")
        await engine.add(inbox, subject=subject, raw=raw, body=body)
    assert [message.subject for message in (await listing(engine, text="end!")).messages] == ["in"]


async def test_pages_only_count_matches(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox, subject="odd" if number % 2 else "even") for number in range(20)]
    odd = stored[1::2]
    for ascending, wanted in ((True, odd), (False, odd[::-1])):
        first = await listing(engine, subject="ODD", limit=4, ascending=ascending)
        assert ([message.id for message in first.messages], first.has_more) == (wanted[:4], True)
        position = {"after" if ascending else "before": wanted[3]}
        last = await listing(engine, subject="ODD", limit=6, ascending=ascending, **position)
        assert ([message.id for message in last.messages], last.has_more) == (wanted[4:], False)
    between = await listing(engine, subject="ODD", after=stored[2], before=stored[9])
    assert [message.id for message in between.messages] == stored[3:9:2][::-1]
    assert (await listing(engine, subject="ODD", after="msg_7" + "z" * 25)).messages == ()
    assert len((await listing(engine, subject="ODD", before="msg_7" + "z" * 25)).messages) == 10


@pytest.fixture(params=[False, True], ids=["newest-first", "oldest-first"])
def ascending(request):
    return request.param


@pytest.fixture
async def large(engine):
    """Return an inbox with more messages than a search can read at once."""
    inbox = await engine.inbox("ada")
    stored = {}
    for start in range(0, 1000, 100):
        subjects = [f"{number} {number % 7}" for number in range(start, start + 100)]
        message_ids = await asyncio.gather(*[engine.add(inbox, subject=subject, body="") for subject in subjects])
        stored |= dict(zip(message_ids, subjects, strict=True))
    return engine, inbox, stored


async def test_pages_are_exact_while_messages_arrive_and_are_deleted(large, ascending):
    """Messages that exist throughout the search are found once and in order.

    Messages that are deleted or arrive during the search may be found.
    """
    engine, inbox, stored = large
    rng = random.Random(7)
    wanted = [key for key, subject in stored.items() if subject.endswith(" 3")]
    deleted = set(rng.sample(wanted, 60))
    going = iter(rng.sample(sorted(deleted), 60))

    async def churn():
        for message_id in going:
            await asyncio.gather(
                engine.storage.delete_messages(inbox.id, [message_id]), engine.add(inbox, subject="new 3")
            )

    churning, seen, more = asyncio.ensure_future(churn()), [], True
    while more:
        position = {"after" if ascending else "before": seen[-1]} if seen else {}
        found = await listing(engine, subject=" 3", limit=10, ascending=ascending, **position)
        seen += [message.id for message in found.messages]
        more = found.has_more
    await churning
    assert seen == sorted(set(seen), reverse=not ascending)
    assert [key for key in sorted(seen) if key in stored and key not in deleted] == [
        key for key in wanted if key not in deleted
    ]


async def test_a_cancelled_search_affects_no_other_search(large):
    engine, inbox, _ = large
    searches = [asyncio.ensure_future(listing(engine, text="nowhere")) for _ in range(10)]
    await asyncio.sleep(0)
    for search in searches[::2]:
        search.cancel()
    outcomes = await asyncio.gather(*searches, engine.add(inbox), return_exceptions=True)
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [True, False] * 5 + [False]


@pytest.mark.parametrize("ascending", [False, True])
async def test_a_page_equals_the_result_of_a_single_search(engine, monkeypatch, ascending):
    """The page has the same messages with the same bodies, regardless of the portion size and the start of the page."""
    inbox = await engine.inbox("ada")
    rng = random.Random(11)
    for _ in range(60):
        await engine.add(inbox, subject=rng.choice("abc"), body=rng.choice("xyz") * rng.choice([3, 100, 2000, 9000]))
    everything = (await listing(engine, bodies_bytes=1 << 20)).messages
    for portion in (1, 7, 50):
        monkeypatch.setattr(filtering, "_PORTION", portion)
        for _ in range(20):
            page = {
                "subject": rng.choice(["a", "b", None]),
                "text": rng.choice(["x", "yyyyy", None]),
                "limit": rng.choice([1, 3, 10, 100]),
                "bodies_bytes": rng.choice([0, 5000, 30_000, 1 << 20]),
                "ascending": ascending,
            }
            wanted, has_more = reference(everything, **page)
            found = await listing(engine, **page)
            assert (summary(found.messages), found.has_more) == (wanted, has_more), page


def summary(messages):
    return [(message.id, message.truncated, len(message.body)) for message in messages]


def reference(messages, *, subject, text, limit, bodies_bytes, ascending):
    """Return the content of the page, and whether there are more messages; ``messages`` are sorted newest first."""
    found = [
        one
        for one in messages
        if (subject or "") in one.subject and (text or "") in one.subject + "\0" + one.body + "\0" + one.from_address
    ]
    found = found[::-1] if ascending else found
    shown = found[:limit]
    room = bodies_bytes - sum(len(one.body) for one in shown if len(one.body) <= bodies_bytes // limit)
    cut = set()
    for one in sorted(shown, key=lambda one: one.id, reverse=True):
        size = len(one.body)
        if size > bodies_bytes // limit:
            is_whole = size <= max(room, 1024)
            room -= size if is_whole else 1024
            cut |= set() if is_whole else {one.id}
    return [(one.id, one.id in cut, 1024 if one.id in cut else len(one.body)) for one in shown], len(found) > limit


async def test_other_reads_pass_between_the_portions_of_a_search(large):
    engine, _, _ = large
    search = asyncio.ensure_future(listing(engine, text="nowhere"))
    passed = 0
    while not search.done():
        await engine.service.access.find("ada@mail.example.com")
        passed += 1
    assert passed > 1


async def test_messages_that_arrive_during_a_search_are_for_the_next_wait(large, ascending):
    """Every message at or before the position that a search has reached was examined."""
    engine, inbox, stored = large
    found = await listing(engine, text="nowhere", ascending=ascending)
    assert found.searched_to == max(stored)
    later = await engine.add(inbox, subject="later")
    rest = await listing(engine, text="later", after=found.searched_to, ascending=ascending)
    assert [message.id for message in rest.messages] == [later]
