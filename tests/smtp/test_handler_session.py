"""The information that a reader receives about the SMTP session of a message."""

import pytest

from tmpmaild.model import AcceptedRecipient, Page, SmtpSession

pytestmark = pytest.mark.both_engines


async def read(house, name):
    (message,) = await house.messages(name)
    _, full = await house.storage.read_message(f"{name}@ours.test", house.server.handler.clock(), message_id=message.id)
    return full.envelope


async def test_each_inbox_sees_the_session_with_its_own_recipients(talk, certificate, clock):
    ours, theirs = certificate
    async with talk(tls=ours, names=("abc", "def"), auth="any") as (house, client):
        await client.say("STARTTLS")
        await client.start_tls(theirs)
        await client.say("EHLO real.example", "AUTH PLAIN AGEAYg==")
        begun_ms = clock()
        await client.say("MAIL FROM:<a@example.com> SIZE=100 body=8BITMIME AUTH=<>")
        for recipient in ("ABC+1@ours.test", "def@Ours.test", "nobody@ours.test", "abc@ours.test"):
            clock.advance(seconds=1)
            await client.say(f"RCPT TO:<{recipient}>")
        clock.advance(seconds=1)
        await client.say("DATA")
        await client.say("Subject: x\r\n\r\nhello\r\n.")
        abc, other = await read(house, "abc"), await read(house, "def")
    times_ms = [begun_ms + 1000 * seconds for seconds in range(6)]
    assert abc.session == SmtpSession(
        greeting="EHLO",
        tls_version="TLSv1.3",
        tls_cipher="TLS_AES_256_GCM_SHA384",
        auth="PLAIN",
        parameters="SIZE=100 body=8BITMIME AUTH=<>",
        data_at_ms=times_ms[5],
        recipients=(AcceptedRecipient("ABC+1@ours.test", times_ms[1]), AcceptedRecipient("abc@ours.test", times_ms[4])),
    )
    assert other.session.recipients == (AcceptedRecipient("def@Ours.test", times_ms[2]),)
    assert (abc.helo, abc.remote_ip, abc.tls) == ("real.example", "127.0.0.1", True)


async def test_a_second_message_has_no_details_of_the_first_message(serve, clock):
    async with serve(names=("abc", "def")) as house:
        client = await house.connect()
        await client.reply()
        await client.say("EHLO client.example", "MAIL FROM:<> SIZE=9", "RCPT TO:<abc@ours.test>", "RSET")
        await client.say("HELO client.example")
        assert (await client.deliver("def")).startswith("250 ")
        session = (await read(house, "def")).session
    assert session == SmtpSession("HELO", data_at_ms=clock(), recipients=(AcceptedRecipient("def@ours.test", clock()),))


async def test_an_inbox_created_by_a_message_also_shows_the_session(talk):
    async with talk(accept_unknown=True) as (house, client):
        await client.deliver("abc", "brand-new")
        assert [one.address for one in (await read(house, "brand-new")).session.recipients] == ["brand-new@ours.test"]
        assert (await house.service.mail.list("abc@ours.test", Page())).messages


async def test_any_bytes_are_kept_and_line_feeds_get_their_carriage_return(serve):
    async with serve() as house:
        client = await house.at_data()
        client.write(bytes(range(256)) + b"\n..b\n.c\r\n.\r\n")
        said = await client.reply()
        (message,) = await house.messages("abc")
        assert said == f"250 2.0.0 Ok: stored as {message.id}"
        assert house.sources() == [bytes(range(256)).replace(b"\n", b"\r\n") + b"\r\n.b\r\nc\r\n"]
