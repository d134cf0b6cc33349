"""Contract tests for addresses and lists, which use only the ``Storage`` protocol."""

import asyncio

import pytest

from tmpmaild.errors import AddressNotFound, AddressTaken
from tmpmaild.model import NAME_HELD_MS, Attachment, Page, Verbatim

from .conftest import LIFETIME_MS, new_mail

OLDEST_FIRST = Page(ascending=True)


async def test_a_created_inbox_is_found_as_it_was_created(engine):
    created = await engine.inbox("ada")
    assert await engine.find("ada") == created
    assert (created.created_at_ms, created.message_count, created.full) == (engine.clock(), 0, False)


async def test_one_of_many_simultaneous_requests_for_a_name_gets_it(engine):
    outcomes = await asyncio.gather(*(engine.inbox("ada") for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(outcome, AddressTaken) for outcome in outcomes) == 19


@pytest.mark.parametrize("swept", [False, True])
async def test_a_name_is_blocked_and_known_as_expired_for_exactly_24_hours(engine, swept):
    first = await engine.inbox("ada")
    engine.clock.advance(ms=LIFETIME_MS + NAME_HELD_MS - 1)
    if swept:
        await engine.sweep()
    assert (await engine.find("ada")).expires_at_ms == first.expires_at_ms
    with pytest.raises(AddressTaken):
        await engine.inbox("ada")
    engine.clock.advance(ms=1)
    assert await engine.find("ada") is None
    assert (await engine.inbox("ada")).id != first.id


async def test_simultaneous_searches_see_an_address_each_at_its_own_time(engine):
    inbox = await engine.inbox("ada")
    ends_ms = inbox.expires_at_ms + NAME_HELD_MS
    at_ms = [ends_ms - 1, ends_ms, ends_ms - 1, ends_ms - LIFETIME_MS]
    found = await asyncio.gather(*(engine.storage.find_inbox(inbox.address, one) for one in at_ms))
    assert [one is not None for one in found] == [True, False, True, True]


async def test_a_reused_name_has_no_old_mail(engine):
    await engine.add(await engine.inbox("ada"))
    engine.clock.advance(ms=LIFETIME_MS + NAME_HELD_MS)
    again = await engine.inbox("ada")
    await engine.sweep()
    await engine.add(again, subject="new")
    assert [message.subject for message in await engine.messages("ada", Page())] == ["new"]


async def test_mail_is_accepted_until_the_last_millisecond(engine):
    inbox = await engine.inbox("ada")
    engine.clock.advance(ms=LIFETIME_MS - 1)
    await engine.add(inbox)
    engine.clock.advance(ms=1)
    with pytest.raises(AddressNotFound):
        await engine.add(inbox)


async def test_a_message_is_listed_as_it_was_stored(engine):
    inbox = await engine.inbox("ada")
    attached = (Attachment(0, "Ünï.pdf", "application/pdf", 12, "00ff", inline=True, content_id="cid"),)
    mail = new_mail(
        inbox, body="Grüße 🙂\n", recipients=("Ada+Ünï@MAIL.example.com",), html="<p>x", attachments=attached
    )
    message_id = await engine.storage.add_message(mail)
    (message,) = await engine.messages("ada", Page())
    assert message.attachments == attached
    assert message.id == message_id
    assert message.recipient == "Ada+Ünï@MAIL.example.com"
    assert (message.body, message.truncated, message.has_html) == ("Grüße 🙂\n", False, True)
    assert (message.size_bytes, message.received_at_ms) == (len(mail.raw), engine.clock())


@pytest.mark.parametrize("text", ["", "Grüße 🙂\n", "one\ntwo\n\n", "x" * 3000 + "\n"])
async def test_a_body_in_the_source_is_listed_like_any_other(engine, text):
    inbox = await engine.inbox("ada")
    before, octets = b"Subject: x\r\n\r\n--x\r\n\r\n", text.replace("\n", "\r\n").encode()
    where = Verbatim(len(before), len(before) + len(octets))
    await engine.add(inbox, body=where, raw=before + octets + b"\r\n--x--\r\n")
    (message,) = await engine.messages("ada", Page())
    assert (message.body, message.truncated) == (text, False)
    (message,) = await engine.messages("ada", Page(bodies_bytes=0))
    assert (message.body, message.truncated) == (text[:1024], len(text) > 1024)


async def test_a_message_without_a_from_field_has_the_sender_of_the_envelope(engine):
    inbox = await engine.inbox("ada")
    mail = new_mail(inbox)
    parsed = type(mail.parsed)("", "", "s", "b", None, (), (), ())
    await engine.storage.add_message(type(mail)(mail.envelope, mail.inbox_ids, mail.raw, parsed))
    assert [message.from_address for message in await engine.messages("ada", Page())] == ["bounce@example.com"]


async def _filled(engine, count=5):
    inbox = await engine.inbox("ada")
    other = await engine.inbox("other")
    stored = []
    for number in range(count):
        stored.append(await engine.add(inbox, subject=str(number)))
        await engine.add(other)
    return stored


async def test_a_list_is_newest_first_or_oldest_first(engine):
    stored = await _filled(engine)
    assert [message.id for message in await engine.messages("ada", OLDEST_FIRST)] == stored
    assert [message.id for message in await engine.messages("ada", Page())] == stored[::-1]


async def test_after_and_before_are_exclusive(engine):
    stored = await _filled(engine)
    page = Page(after=stored[0], before=stored[3], ascending=True)
    assert [message.id for message in await engine.messages("ada", page)] == stored[1:3]


@pytest.mark.parametrize(("limit", "has_more"), [(4, True), (5, False), (6, False)])
async def test_a_page_shows_whether_more_messages_follow(engine, limit, has_more):
    stored = await _filled(engine)
    listing = await engine.storage.list_messages("ada@mail.example.com", Page(limit=limit), engine.clock())
    assert [message.id for message in listing.messages] == stored[::-1][:limit]
    assert listing.has_more is has_more
    assert listing.inbox.message_count == 5


async def test_an_id_of_a_different_inbox_or_no_message_is_a_position(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    first = await engine.add(inbox)
    foreign = await engine.add(other)
    last = await engine.add(inbox)
    between = foreign[:-1] + "z"
    for position in (foreign, between):
        assert [message.id for message in await engine.messages("ada", Page(after=position))] == [last]
        assert [message.id for message in await engine.messages("ada", Page(before=position))] == [first]


@pytest.mark.parametrize("ascending", [False, True])
async def test_the_bodies_of_the_newest_messages_are_complete_while_they_fit(engine, ascending):
    inbox = await engine.inbox("ada")
    for size in (5000, 4000, 3000):
        await engine.add(inbox, body="x" * size)
    messages = await engine.messages("ada", Page(ascending=ascending, bodies_bytes=8500))
    shown = sorted((len(message.body), message.truncated) for message in messages)
    assert shown == [(1024, True), (3000, False), (4000, False)]


@pytest.mark.parametrize(("body", "shown"), [("x" + "€" * 2000, "x" + "€" * 341), ("x" * 1024, "x" * 1024)])
async def test_a_body_is_truncated_at_a_character_unless_it_has_at_most_a_kibibyte(engine, body, shown):
    await engine.add(await engine.inbox("ada"), body=body)
    (message,) = await engine.messages("ada", Page(bodies_bytes=1))
    assert (message.body, message.truncated, message.body_bytes) == (shown, shown != body, len(body.encode()))
