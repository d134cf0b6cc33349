"""What every storage engine promises of searches: only the ``Storage`` protocol is known here."""

import asyncio
import random

import pytest

from tmpmaild.model import SEARCHED_CHARACTERS, Attachment, Page, Verbatim
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, new_mail


async def listing(engine, **page):
    return await engine.storage.list_messages("ada@mail.example.com", Page(**page), engine.clock())


@pytest.fixture
async def inbox(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox, subject="Welcome", sender="No-Reply@Example.com", name="Straße GmbH", body="Click here\n")
    await engine.add(inbox, subject="ΚΩΔΙΚΌΣ 42", sender="bob@example.org", name="", body="Your code\nis 4711\n")
    await engine.add(inbox, subject="", sender="", name="Bob", body="", html="<p>hidden")
    return inbox


FOUND = [
    ({"sender": "no-reply@EXAMPLE"}, ["Welcome"]),
    ({"sender": "STRASSE"}, ["Welcome"]),  # ß and ss are one letter in two cases
    ({"sender": "bob"}, ["", "ΚΩΔΙΚΌΣ 42"]),
    ({"sender": "example.org"}, ["ΚΩΔΙΚΌΣ 42"]),
    ({"subject": "κωδικός"}, ["ΚΩΔΙΚΌΣ 42"]),
    ({"subject": "code"}, []),
    ({"text": "CODE\nIs"}, ["ΚΩΔΙΚΌΣ 42"]),
    ({"text": "welcome"}, ["Welcome"]),
    ({"text": "bob"}, ["", "ΚΩΔΙΚΌΣ 42"]),
    ({"text": "straßE"}, ["Welcome"]),
    ({"text": "hidden"}, []),
    ({"text": "comClick"}, []),  # no text goes on in the next one
    ({"sender": "example", "text": "code", "subject": "42"}, ["ΚΩΔΙΚΌΣ 42"]),
    ({"sender": "no-reply", "text": "code"}, []),
    ({"text": "%"}, []),
    ({"text": "\0"}, []),
    ({"sender": "", "subject": "", "text": ""}, ["", "ΚΩΔΙΚΌΣ 42", "Welcome"]),
    ({"sender": "", "subject": "welcome"}, ["Welcome"]),
    ({"text": "\ud800"}, []),
]


async def test_a_page_holds_what_has_the_parts_asked_for(engine, inbox):
    for page, subjects in FOUND:
        found = await listing(engine, **page)
        assert [message.subject for message in found.messages] == subjects, page
        assert (found.has_more, found.inbox) == (False, await engine.find("ada"))


async def test_a_mail_without_a_from_field_is_found_by_what_is_shown_as_its_sender(engine, inbox):
    assert [message.from_name for message in (await listing(engine, sender="BOUNCE@")).messages] == ["Bob"]


async def test_what_is_found_is_listed_like_any_other(engine, inbox):
    await engine.add(inbox, subject="large", body="x" * 5000, html="<p>")
    found = await listing(engine, subject="a", bodies_bytes=4000)
    assert found.messages == tuple(
        message for message in (await listing(engine, bodies_bytes=4000)).messages if "a" in message.subject
    )
    assert [len(message.body) for message in found.messages] == [1024]


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


async def test_pages_count_only_what_is_found(engine):
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


async def test_the_mail_of_others_is_never_found(engine):
    await engine.inbox("ada")
    other = await engine.inbox("other")
    await engine.add(other, subject="secret")
    await engine.add(OPERATOR_INBOX_ID, subject="secret")
    assert (await listing(engine, text="secret")).messages == ()


async def test_a_search_of_what_is_over_or_unknown_is_a_list_of_it(engine, inbox):
    unknown = await engine.storage.list_messages("nobody@mail.example.com", Page(text="x"), engine.clock())
    assert unknown is None
    engine.clock.advance(ms=LIFETIME_MS)
    await engine.sweep()
    found = await listing(engine, text="welcome")
    assert (found.messages, found.inbox.expires_at_ms <= engine.clock()) == ((), True)


@pytest.fixture(params=[False, True], ids=["newest-first", "oldest-first"])
def ascending(request):
    return request.param


@pytest.fixture
async def large(open_engine):
    """Open an engine with an inbox that no search gets through in one read."""
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        stored = {}
        for start in range(0, 1000, 100):
            mails = [new_mail(inbox, subject=f"{number} {number % 7}", body="") for number in range(start, start + 100)]
            message_ids = await asyncio.gather(*map(engine.storage.add_message, mails))
            stored |= {message_id: mail.parsed.subject for message_id, mail in zip(message_ids, mails, strict=True)}
        yield engine, inbox, stored


async def test_the_pages_of_a_large_inbox_hold_all_that_is_found_once(large, ascending):
    engine, _, stored = large
    wanted = sorted((key for key, subject in stored.items() if subject.endswith(" 3")), reverse=not ascending)
    seen, more = [], True
    while more:
        position = {"after" if ascending else "before": seen[-1]} if seen else {}
        found = await listing(engine, subject=" 3", limit=30, ascending=ascending, **position)
        seen += [message.id for message in found.messages]
        more = found.has_more
    assert seen == wanted
    assert (await listing(engine, subject="nowhere")).messages == ()


async def test_pages_are_exact_while_mail_comes_and_goes(large, ascending):
    """What was there all the time is seen once and in order; what was deleted before the search began is not."""
    engine, inbox, stored = large
    rng = random.Random(7)
    wanted = [key for key, subject in stored.items() if subject.endswith(" 3")]
    deleted = set(rng.sample(wanted, 60))
    going = iter(rng.sample(sorted(deleted), 60))

    async def churn():
        for message_id in going:
            await asyncio.gather(engine.delete(inbox, message_id), engine.add(inbox, subject="new 3"))

    churning, seen, more = asyncio.ensure_future(churn()), [], True
    while more:
        position = {"after" if ascending else "before": seen[-1]} if seen else {}
        found = await listing(engine, subject=" 3", limit=10, ascending=ascending, **position)
        assert len(found.messages) == 10 or not found.has_more
        seen += [message.id for message in found.messages]
        more = found.has_more
    await churning
    assert seen == sorted(set(seen), reverse=not ascending)
    assert [key for key in sorted(seen) if key in stored and key not in deleted] == [
        key for key in wanted if key not in deleted
    ]


async def test_a_cancelled_search_disturbs_nobody(large):
    engine, inbox, _ = large
    searches = [asyncio.ensure_future(listing(engine, text="nowhere")) for _ in range(10)]
    await asyncio.sleep(0)
    for search in searches[::2]:
        search.cancel()
    outcomes = await asyncio.gather(*searches, engine.add(inbox), return_exceptions=True)
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [True, False] * 5 + [False]


ATTACHED = Attachment(0, "a.pdf", "application/pdf", 1, "00", inline=False, content_id=None)
INLINE = Attachment(0, '"inline":false', "image/png", 1, "00", inline=True, content_id="x")


@pytest.mark.parametrize("ascending", [False, True])
async def test_a_page_of_what_has_attachments_leaves_out_what_has_none_but_inline_ones(engine, inbox, ascending):
    await engine.add(inbox, subject="image", attachments=(INLINE,))
    await engine.add(inbox, subject="file", attachments=(ATTACHED,))
    await engine.add(inbox, subject="both", attachments=(INLINE, ATTACHED))
    found = await listing(engine, has=frozenset({"attachment"}), ascending=ascending)
    assert [message.subject for message in found.messages] == ["file", "both"][:: 1 if ascending else -1]
    assert found.searched_to >= max(message.id for message in found.messages)
    found = await listing(engine, has=frozenset({"attachment"}), subject="BOTH", limit=1, ascending=ascending)
    assert ([message.subject for message in found.messages], found.has_more) == (["both"], False)


async def test_codes_and_links_are_not_looked_for_but_the_page_says_how_far_it_went(engine, inbox):
    found = await listing(engine, has=frozenset({"code", "link"}))
    assert found.messages == (await listing(engine)).messages
    assert found.searched_to >= found.messages[0].id
