"""What every storage engine promises of sources: only the ``Storage`` protocol is known here."""

import pytest

from tmpmaild.model import NAME_HELD_MS, Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.rows import MAX_KEY, message_id_of

from .conftest import LIFETIME_MS

OCTETS = bytes(range(256)) + b"\r\n.\r\n\0"


async def source(engine, name, message_id, **more):
    return await engine.storage.read_message(
        f"{name}@mail.example.com", message_id, engine.clock(), **more, source=True
    )


async def test_a_source_is_the_octets_as_they_came_with_the_envelope(engine):
    inbox = await engine.inbox("ada")
    message_id = await engine.add(inbox, raw=OCTETS, recipients=("Ada+Ünï@MAIL.example.com",))
    found, read = await source(engine, "ada", message_id)
    assert found == await engine.find("ada")
    assert (read.message.id, read.source, read.message.size_bytes, read.message.received_at_ms) == (
        message_id,
        OCTETS,
        262,
        engine.clock(),
    )
    envelope = read.envelope
    assert (envelope.sender, envelope.recipients) == ("bounce@example.com", ("Ada+Ünï@MAIL.example.com",))
    assert (envelope.helo, envelope.remote_ip, envelope.tls) == ("mx.example.com", "192.0.2.1", False)


async def test_recipients_share_a_source_and_each_sees_its_own_name_alone(engine):
    inboxes = [await engine.inbox(f"box{number}") for number in range(3)]
    await engine.add(*inboxes, raw=OCTETS, recipients=("Box0@x.test", "böx1@x.test", "box2+tag@x.test"))
    for number, recipient in enumerate(("Box0@x.test", "böx1@x.test", "box2+tag@x.test")):
        (message,) = await engine.messages(f"box{number}", Page())
        _, read = await source(engine, f"box{number}", message.id)
        assert (read.envelope.recipients, read.source) == ((recipient,), OCTETS)


async def test_an_empty_mail_has_an_empty_source(engine):
    _, read = await source(engine, "ada", await engine.add(await engine.inbox("ada"), raw=b"", body=""))
    assert (read.source, read.message.size_bytes) == (b"", 0)


async def test_octets_beyond_what_was_asked_for_stay_where_they_are(engine):
    message_id = await engine.add(await engine.inbox("ada"), raw=b"x" * 1000)
    _, small = await source(engine, "ada", message_id, up_to_bytes=1000)
    _, large = await source(engine, "ada", message_id, up_to_bytes=999)
    assert (small.source, large.source, large.message.size_bytes) == (b"x" * 1000, None, 1000)


async def test_ten_megabytes_come_back_whole(engine):
    octets = OCTETS * 40_000
    message_id = await engine.add(await engine.inbox("ada"), raw=octets)
    assert (await source(engine, "ada", message_id))[1].source == octets


async def test_the_id_of_another_inbox_or_of_none_finds_nothing(engine):
    await engine.inbox("ada")
    stored = await engine.add(await engine.inbox("bob"))
    operators = await engine.add(OPERATOR_INBOX_ID)
    for message_id in (stored, operators, message_id_of(1), message_id_of(MAX_KEY)):
        inbox, read = await source(engine, "ada", message_id)
        assert (inbox.address, read) == ("ada@mail.example.com", None)


async def test_only_the_very_text_of_an_id_is_the_message(engine):
    message_id = await engine.add(await engine.inbox("ada"))
    assert (await source(engine, "ada", message_id))[1] is not None
    others = [message_id[:-1] + "1", message_id[:-1] + "z", message_id.upper(), message_id + "0", message_id[:-1]]
    for text in [
        *others,
        message_id + "\n",
        "",
        "msg_",
        "\ud800",
        message_id[4:],
        "msg_" + "z" * 26,
        "msg_7" + "z" * 25,
    ]:
        assert (await source(engine, "ada", text))[1] is None, text


async def test_a_source_is_told_with_its_inbox_until_both_are_forgotten(engine):
    message_id = await engine.add(await engine.inbox("ada"))
    engine.clock.advance(ms=LIFETIME_MS)
    assert (await source(engine, "ada", message_id))[0].expires_at_ms <= engine.clock()
    await engine.sweep()
    assert (await source(engine, "ada", message_id))[1] is None
    engine.clock.advance(ms=NAME_HELD_MS)
    assert await source(engine, "ada", message_id) is None
    assert await source(engine, "nobody", message_id) is None


@pytest.mark.parametrize("name", ["postmaster", "abuse", ""])
async def test_no_address_leads_to_the_operators_mail(engine, name):
    assert await source(engine, name, await engine.add(OPERATOR_INBOX_ID)) is None


async def read_all(engine, name="ada", **more):
    found, after = [], ""
    while (read := await source(engine, name, after, is_next=True, **more))[1]:
        found.append(read[1])
        after = read[1].message.id
    return found


async def test_sources_are_read_one_after_the_other_in_the_order_of_arrival(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    for number in range(4):
        await engine.add(inbox if number % 2 == 0 else other, raw=b"%d" % number)
    await engine.add(inbox, other, raw=b"both", recipients=("ada@x.test", "other@x.test"))
    assert [one.source for one in await read_all(engine)] == [b"0", b"2", b"both"]
    assert [one.source for one in await read_all(engine, "other")] == [b"1", b"3", b"both"]
    for source in await read_all(engine):
        _, same = await engine.storage.read_message(
            "ada@mail.example.com", source.message.id, engine.clock(), source=True
        )
        assert source == same


async def test_the_next_source_is_found_when_the_one_before_was_deleted(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox, raw=b"%d" % number) for number in range(3)]
    await engine.storage.delete_messages(inbox.id, stored[:2])
    _, source = await engine.storage.read_message(
        "ada@mail.example.com", stored[0], engine.clock(), source=True, is_next=True
    )
    assert source.message.id == stored[2]
    assert (
        await engine.storage.read_message("nobody@mail.example.com", "", engine.clock(), source=True, is_next=True)
        is None
    )


async def test_a_large_next_source_is_left_out_where_it_was_not_asked_for(engine):
    await engine.add(await engine.inbox("ada"), raw=b"x" * 1000)
    assert [(one.message.size_bytes, one.source) for one in await read_all(engine, up_to_bytes=999)] == [(1000, None)]
