"""Contract tests for single messages, their sources and verdicts, and the right to read them."""

import pytest
from msgspec.structs import replace

from tmpmaild import model
from tmpmaild.errors import AddressNotFound, MessageNotFound
from tmpmaild.model import NAME_HELD_MS, AcceptedRecipient, Envelope, Page, SmtpSession, Texts, Verbatim
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID
from tmpmaild.storage.keys import MAX_KEY, message_id_of

from .conftest import LIFETIME_MS, new_mail

OCTETS = bytes(range(256)) + b"\r\n.\r\n\0"


async def read(engine, name, message_id, **more):
    return await engine.storage.read_message(f"{name}@mail.example.com", engine.clock(), message_id=message_id, **more)


async def test_a_message_is_read_as_it_was_stored_and_listed(engine):
    inbox = await engine.inbox("ada")
    mail = new_mail(
        inbox,
        body="Grüße 🙂\n" * 1000,
        html="<p>ü",
        subject="Ünï",
        recipients=("Ada+Ünï@MAIL.example.com",),
        warnings=("A warning.",),
    )
    message_id = await engine.storage.add_message(mail)
    found, full = await read(engine, "ada", message_id)
    assert found == await engine.find("ada")
    assert full.message == (await engine.messages("ada", Page()))[0]
    assert (full.html, full.complete, full.head) == ("<p>ü", True, mail.raw)
    assert (full.headers, full.warnings) == ((("Subject", "Ünï"),), ("A warning.",))
    assert full.envelope == Envelope(
        "bounce@example.com", ("Ada+Ünï@MAIL.example.com",), "mx.example.com", "192.0.2.1", tls=False
    )


async def test_a_body_in_the_source_is_read_with_its_message(engine):
    raw = b"Subject: x\r\n\r\n" + "Zwölf\r\nBoxkämpfer\r\n".encode() * 100_000
    message_id = await engine.add(await engine.inbox("ada"), raw=raw, body=Verbatim(14, len(raw)))
    _, full = await read(engine, "ada", message_id)
    assert full.message.body == "Zwölf\nBoxkämpfer\n" * 100_000
    assert full.head == raw[: 256 * 1024]


async def test_an_empty_message_is_read_as_an_empty_message(engine):
    message_id = await engine.add(await engine.inbox("ada"), raw=b"", body=Verbatim(0, 0))
    assert [message.body for message in await engine.messages("ada", Page())] == [""]
    for up_to_bytes in (ANY_SIZE, 0):
        _, full = await read(engine, "ada", message_id, up_to_bytes=up_to_bytes)
        assert (full.message.body, full.message.truncated, full.head) == ("", False, b"")
        assert (full.html, full.complete) == (None, True)


@pytest.mark.parametrize(("up_to_bytes", "complete"), [(ANY_SIZE, True), (1000, True), (999, False), (0, False)])
async def test_the_texts_of_a_message_above_the_requested_size_are_not_read(engine, up_to_bytes, complete):
    message_id = await engine.add(await engine.inbox("ada"), raw=b"x" * 1000, html="<p>", body="Hello")
    _, full = await read(engine, "ada", message_id, up_to_bytes=up_to_bytes)
    assert (full.complete, full.message.truncated) == (complete, not complete)
    assert (full.message.body, full.html) == (("Hello", "<p>") if complete else ("", None))
    assert (full.head, full.message.has_html, full.message.size_bytes) == (b"x" * 1000, True, 1000)
    empty = await engine.add(await engine.inbox("bob"), raw=b"x" * 1000, body="")
    _, full = await read(engine, "bob", empty, up_to_bytes=up_to_bytes)
    assert (full.complete, full.message.truncated) == (complete, False)  # the body is empty, so it is not truncated


async def test_each_inbox_reads_the_session_with_its_own_recipients_only(engine):
    """Two forms of one inbox's address, a second inbox, and a recipient whose inbox was deleted before delivery."""
    ada, bob = await engine.inbox("ada"), await engine.inbox("bob")
    written = ("Ada+1@x.test", "bob@x.test", "ada+ü@x.test")
    accepted = tuple(AcceptedRecipient(address, at_ms) for at_ms, address in enumerate((*written, "gone@x.test"), 1000))
    session = SmtpSession("EHLO", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "PLAIN", "SIZE=5 BODY=8BITMIME", 2000, accepted)
    await engine.storage.add_message(new_mail(ada, bob, ada, recipients=written, session=session))
    for name, its in (("ada", (accepted[0], accepted[2])), ("bob", (accepted[1],))):
        (message,) = await engine.messages(name, Page())
        _, full = await read(engine, name, message.id)
        assert (message.recipient, full.envelope.session) == (its[0].address, replace(session, recipients=its))


async def test_texts_are_read_from_their_beginnings(engine):
    inbox = await engine.inbox("ada")
    raw = "\r\n" + "€\r\n" * 5000
    stored = [
        await engine.add(inbox, body="€" * 2000, html="<p>" + "🙂" * 2000),
        await engine.add(inbox, body="short"),
        await engine.add(inbox, raw=raw.encode(), body=Verbatim(2, len(raw.encode()))),
        await engine.add(inbox, raw=b"", body=Verbatim(0, 0)),
    ]
    texts = await engine.storage.read_texts(inbox.id, stored, 1001)
    assert sorted(texts, key=lambda one: one.message_id) == [
        Texts(stored[0], "€" * 1001, "<p>" + "🙂" * 998),
        Texts(stored[1], "short", ""),
        Texts(stored[2], "€\n" * 500 + "€", ""),
        Texts(stored[3], "", ""),
    ]


async def test_mail_with_only_html_is_distinguished(engine):
    inbox = await engine.inbox("ada")

    async def is_of_html(html, *fields):
        stored = await engine.add(inbox, body="text", html=html, headers=fields)
        (texts,) = await engine.storage.read_texts(inbox.id, [stored], 10)
        return texts.is_of_html

    assert await is_of_html("<p>text", ("Subject", "x"), ("content-type", " Text/HTML ; charset=utf-8"))
    assert not await is_of_html("<p>text", ("Content-Type", "multipart/alternative"), ("Content-Type", "text/html"))
    assert not await is_of_html("<p>text", ("Subject", "text/html"))
    assert not await is_of_html(None, ("Content-Type", "text/html"))


async def test_the_start_of_a_text_is_cut_between_characters(engine):
    for unit in ("€\n", "🙂", "x\n", "\n", "ab\n🙂"):
        inbox = await engine.inbox(f"box-{len(unit)}-{ord(unit[0])}")
        text, raw = unit * 50, (unit * 50).replace("\n", "\r\n").encode()
        stored = [await engine.add(inbox, raw=raw, body=Verbatim(0, len(raw))), await engine.add(inbox, body=text)]
        for characters in (1, 2, 3, 4, 5, 63, 64, 65):
            texts = await engine.storage.read_texts(inbox.id, stored, characters)
            assert [one.body for one in texts] == [text[:characters]] * 2, unit


async def test_texts_of_messages_that_are_not_in_the_inbox_are_left_out(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    deleted, mine, foreign = await engine.add(inbox), await engine.add(inbox), await engine.add(other)
    await engine.delete(inbox, deleted)
    wanted = [deleted, foreign, mine, mine, mine.upper(), "", "\ud800"]
    assert [one.message_id for one in await engine.storage.read_texts(inbox.id, wanted, 10)] == [mine]
    assert await engine.storage.read_texts(inbox.id, [], 10) == ()
    for inbox_id in (OPERATOR_INBOX_ID, "", "x", "999", f"0{inbox.id}"):
        assert await engine.storage.read_texts(inbox_id, wanted, 10) == ()


async def test_texts_of_many_large_messages_are_returned_together(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox, body=f"{number} ", raw=b"x" * 700_000) for number in range(10)]
    texts = await engine.storage.read_texts(inbox.id, stored, 100)
    assert {one.message_id: one.body for one in texts} == dict(
        zip(stored, (f"{number} " for number in range(10)), strict=True)
    )


@pytest.mark.parametrize("octets", [OCTETS, b"", OCTETS * 40_000], ids=["few", "none", "ten megabytes"])
async def test_a_source_is_the_bytes_as_received(engine, octets):
    inbox = await engine.inbox("ada")
    message_id = await engine.add(inbox, raw=octets, body="", recipients=("Ada+Ünï@MAIL.example.com",))
    found, read_ = await read(engine, "ada", message_id, source=True)
    assert found == await engine.find("ada")
    assert (read_.message.id, read_.source, read_.message.size_bytes) == (message_id, octets, len(octets))
    assert read_.envelope == (await read(engine, "ada", message_id))[1].envelope


async def test_a_source_above_the_requested_size_is_not_read(engine):
    message_id = await engine.add(await engine.inbox("ada"), raw=b"x" * 1000)
    for up_to_bytes, source in ((1000, b"x" * 1000), (999, None)):
        _, full = await read(engine, "ada", message_id, up_to_bytes=up_to_bytes, source=True)
        assert (full.source, full.message.size_bytes) == (source, 1000)


@pytest.mark.parametrize("source", [False, True])
async def test_each_recipient_reads_only_its_own_name(engine, source):
    inboxes = [await engine.inbox(f"box{number}") for number in range(3)]
    recipients = ("Box0@x.test", "böx1@x.test", "box2+tag@x.test")
    await engine.add(*inboxes, raw=OCTETS, recipients=recipients)
    for number, recipient in enumerate(recipients):
        (message,) = await engine.messages(f"box{number}", Page())
        _, full = await read(engine, f"box{number}", message.id, source=source)
        assert (full.envelope.recipients, full.message.recipient) == ((recipient,), recipient)
        assert full.source == (OCTETS if source else None)


@pytest.mark.parametrize("source", [False, True])
async def test_only_the_exact_text_of_an_id_in_its_inbox_is_the_message(engine, source):
    ada = await engine.inbox("ada")
    deleted, mine = await engine.add(ada), await engine.add(ada)
    await engine.delete(ada, deleted)
    foreign, operators = await engine.add(await engine.inbox("bob")), await engine.add(OPERATOR_INBOX_ID)
    assert (await read(engine, "ada", mine, source=source))[1] is not None
    others = [mine[:-1] + "1", mine[:-1] + "z", mine.upper(), mine + "0", mine[:-1], mine + "\n", mine[4:]]
    others += [deleted, foreign, operators, message_id_of(1), message_id_of(MAX_KEY), "msg_" + "z" * 26]
    others += ["msg_7" + "z" * 25]
    for message_id in (*others, "", "msg_", "\ud800"):
        inbox, full = await read(engine, "ada", message_id, source=source)
        assert (inbox.address, full) == ("ada@mail.example.com", None), message_id
    for name in ("postmaster", "abuse", ""):  # no address gives access to the operator's mail
        assert await read(engine, name, operators, source=source) is None


@pytest.mark.parametrize("source", [False, True])
async def test_a_missing_message_is_read_with_its_inbox_until_the_inbox_is_forgotten(engine, source):
    message_id = await engine.add(await engine.inbox("ada"))
    engine.clock.advance(ms=LIFETIME_MS)
    assert (await read(engine, "ada", message_id, source=source))[0].expires_at_ms <= engine.clock()
    await engine.sweep()
    assert (await read(engine, "ada", message_id, source=source))[1] is None
    engine.clock.advance(ms=NAME_HELD_MS)
    assert await read(engine, "ada", message_id, source=source) is None
    assert await read(engine, "nobody", message_id, source=source) is None


async def read_all(engine, name="ada", **more):
    found, after = [], ""
    while (one := (await read(engine, name, after, source=True, is_next=True, **more))[1]) is not None:
        found.append(one)
        after = one.message.id
    return found


async def test_sources_are_read_one_after_the_other_in_the_order_of_arrival(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    for number in range(4):
        await engine.add(inbox if number % 2 == 0 else other, raw=b"%d" % number)
    await engine.add(inbox, other, raw=b"both", recipients=("ada@x.test", "other@x.test"))
    assert [one.source for one in await read_all(engine)] == [b"0", b"2", b"both"]
    assert [one.source for one in await read_all(engine, "other")] == [b"1", b"3", b"both"]
    for source in await read_all(engine):
        assert (await read(engine, "ada", source.message.id, source=True))[1] == source


async def test_the_next_source_is_found_if_the_previous_source_was_deleted(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox, raw=b"%d" % number) for number in range(3)]
    await engine.storage.delete_messages(inbox.id, stored[:2])
    _, source = await read(engine, "ada", stored[0], source=True, is_next=True)
    assert source.message.id == stored[2]
    assert await read(engine, "nobody", "", source=True, is_next=True) is None


async def test_a_large_next_source_is_left_out_unless_requested(engine):
    await engine.add(await engine.inbox("ada"), raw=b"x" * 1000)
    assert [(one.message.size_bytes, one.source) for one in await read_all(engine, up_to_bytes=999)] == [(1000, None)]


ADA = "ada@mail.example.com"


def refuse(_inbox):
    raise AddressNotFound("not for you")


def reads(storage, message_id, permit):
    return [
        lambda: storage.list_messages(ADA, Page(), 0, permit),
        lambda: storage.list_messages(ADA, Page(text="hello"), 0, permit),
        lambda: storage.read_message(ADA, 0, permit, message_id=message_id),
        lambda: storage.read_message(ADA, 0, permit, message_id=message_id, source=True),
        lambda: storage.read_message(ADA, 0, permit, message_id="", source=True, is_next=True),
    ]


@pytest.fixture
async def message_id(engine):
    return await engine.add(await engine.inbox("ada"))


async def test_the_permit_is_called_once_with_the_inbox(engine, message_id):
    for read in reads(engine.storage, message_id, (seen := []).append):
        seen.clear()
        assert await read() is not None
        assert [inbox.address for inbox in seen] == [ADA]


async def test_the_permit_is_not_called_for_a_missing_inbox(engine):
    assert await engine.storage.list_messages("none@mail.example.com", Page(), 0, refuse) is None


async def test_a_refusal_reads_no_message(engine, message_id):
    """If messages were read before the refusal, the response time would reveal the content of an inbox."""
    statements = await engine.reading_statements()
    for read in reads(engine.storage, message_id, refuse):
        with pytest.raises(AddressNotFound):
            await read()
    assert len(statements) >= 4
    assert [one for one in statements if "message AS m" in one or "content" in one] == []


VERDICT = model.Authentication(
    model.SpfVerdict("pass", "bücher.example"),
    (model.DkimVerdict("fail", "bücher.example", "s1", "bad \0 signature"),),
    model.DmarcVerdict("pass", "reject", "bücher.example"),
    model.ArcVerdict("none"),
    (model.DnsAnswer("bücher.example", "TXT", "v=spf1 " + "🙂" * 9000),),
)


async def _read(engine, name, message_id):
    (listed,) = [one for one in await engine.messages(name, model.Page()) if one.id == message_id]
    _, full = await read(engine, name, message_id)
    _, source = await read(engine, name, message_id, source=True)
    assert listed.authentication == full.message.authentication == source.message.authentication
    return listed.authentication


async def test_a_verdict_is_read_in_every_inbox_of_its_message_and_reported_once(engine):
    told = engine.told()
    inbox, other = await engine.inbox("ada"), await engine.inbox("bob")
    message_id = await engine.add(inbox, other)
    await engine.add(inbox)
    assert await _read(engine, "ada", message_id) is None
    told.clear()
    await engine.storage.set_authentication(inbox.id, VERDICT, message_id=message_id)
    assert await _read(engine, "ada", message_id) == VERDICT
    assert told == [
        model.InboxChange(inbox.id, full=False, notice=model.VerdictReached(message_id, "pass", "bücher.example"))
    ]
    assert [one.authentication for one in await engine.messages("bob", model.Page())] == [None]
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(inbox.id, model.unchecked("none", "late"), message_id=message_id)
    assert await _read(engine, "ada", message_id) == VERDICT
    assert len(told) == 1


async def test_a_verdict_is_kept_with_a_message_whose_inbox_lives_longer(engine):
    inbox = await engine.inbox("ada")
    message_id = await engine.add(inbox)
    await engine.storage.set_authentication(inbox.id, VERDICT, message_id=message_id)
    await engine.move(inbox, engine.clock() + 5 * LIFETIME_MS)
    assert await _read(engine, "ada", message_id) == VERDICT


async def test_no_verdict_is_stored_for_a_message_or_an_inbox_that_has_ended(engine):
    gone, ended, expired = [await engine.inbox(name) for name in ("gone", "ended", "expired")]
    stored = [await engine.add(inbox) for inbox in (gone, ended, expired)]
    await engine.delete(gone, stored[0])
    await engine.end(ended)
    told = engine.told()
    wrong = [(gone, stored[0]), (ended, stored[1]), (gone, stored[2]), (gone, message_id_of(1)), (gone, "x")]
    for inbox, message_id in wrong:
        with pytest.raises(MessageNotFound):
            await engine.storage.set_authentication(inbox.id, VERDICT, message_id=message_id)
    engine.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(expired.id, VERDICT, message_id=stored[2])
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(OPERATOR_INBOX_ID, VERDICT, message_id=stored[2])
    assert told == []
