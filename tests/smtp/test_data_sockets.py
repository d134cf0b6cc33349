"""The octets of a mail on their way from the socket to the disk: what is kept, what is changed, what ends it."""

import pytest

BIG = 10 * 1024 * 1024
SMUGGLED = "550 5.5.2 A dot alone between line ends other than CRLF is not accepted"


async def answer(house, wire, **begin):
    client = await house.connect()
    await client.begin(**begin)
    client.write(wire)
    return client, await client.reply()


WIRES = [
    (b".\r\n", b""),
    (b"\r\n.\r\n", b"\r\n"),
    (b"no blank line\r\n.\r\n", b"no blank line\r\n"),
    (b"Subject: headers only\r\n\r\n.\r\n", b"Subject: headers only\r\n\r\n"),
    (b"a\nb\n\nc\r\n.\r\n", b"a\r\nb\r\n\r\nc\r\n"),
    (b"a\n..b\n.c\r\n.\r\n", b"a\r\n.b\r\nc\r\n"),  # RFC 5321 §4.5.2, behind a bare LF too
    (b"..\r\n...\r\n.x\r\n.\r\n", b".\r\n..\r\nx\r\n"),
    (b"a\rb\r\r\n.\r\n", b"a\rb\r\r\n"),
    (b"\0a\0\r\n\0\r\n.\r\n", b"\0a\0\r\n\0\r\n"),
    (bytes(range(256)) + b"\r\n.\r\n", bytes(range(256)).replace(b"\n", b"\r\n") + b"\r\n"),
    (b"\x80\xff\xc3\x28\r\n.\r\n", b"\x80\xff\xc3\x28\r\n"),
]


@pytest.mark.both_engines
async def test_octets_are_kept_and_line_feeds_get_their_carriage_return(serve):
    async with serve() as house:
        said = [(await answer(house, wire))[1] for wire, _ in WIRES]
        assert house.sources() == [stored for _, stored in WIRES]
        ids = [message.id for message in await house.messages("abc")]
    assert said == [f"250 2.0.0 Ok: stored as {message_id}" for message_id in reversed(ids)]


async def test_a_line_may_be_as_long_as_a_mail(serve):
    async with serve() as house:
        line = b"x" * (BIG - 2)
        _, said = await answer(house, line + b"\r\n.\r\n")
        assert said.startswith("250 2.0.0 Ok: stored as ")
        assert house.sources() == [line + b"\r\n"]


@pytest.mark.parametrize("size_bytes", [0, BIG])
async def test_one_octet_over_the_limit_is_too_much_whether_it_was_announced_or_not(serve, size_bytes):
    async with serve() as house:
        client = await house.greeted()
        begin = (f"MAIL FROM:<> SIZE={size_bytes}", "RCPT TO:<abc@ours.test>", "DATA")
        assert (await client.say(*begin))[-1].startswith("354 ")
        client.write(b"x" * (BIG - 1) + b"\r\n.\r\n")
        assert await client.reply() == "552 5.3.4 Message too big"
        assert house.sources() == []
        assert (await client.deliver("abc")).startswith("250 2.0.0 Ok: stored as ")


async def test_a_mail_of_four_times_the_limit_ends_the_session(serve):
    async with serve(max_message_bytes=10_000) as house:
        client = await house.connect()
        await client.begin()
        client.write(b"x\r\n" * 12_000)
        await client.writer.drain()
        client.write(b"x" * 4_001)
        assert await client.rest() == "421 4.7.0 Message far over the limit, closing\r\n"
        assert house.sources() == []
        await house.until(lambda: not house.server.connections.open)


FALSE_ENDS = [
    b"\n.\n", b"\n.\r\n", b"\r.\r", b"\r.\r\n", b"\r.\n", b"\r\n.\n", b"\r\n.\r", b"\n.\r", b"\r\n\0.\r\n", b"\r\n.\0\r\n",
]  # fmt: skip


@pytest.mark.parametrize("false_end", FALSE_ENDS, ids=repr)
async def test_what_follows_a_false_end_is_never_run_nor_stored_wherever_the_packets_end(serve, false_end):
    forged = b"MAIL FROM:<ceo@example.com>\r\nRCPT TO:<def@ours.test>\r\nDATA\r\nforged"
    async with serve(names=("abc", "def")) as house:
        for cut in range(len(false_end) + 1):
            client = await house.connect()
            await client.begin()
            client.write(b"hello" + false_end[:cut])
            await house.until(lambda: house.received_bytes() == 5 + cut)  # noqa: B023 - awaited here
            client.write(false_end[cut:] + forged + b"\r\n.\r\n")
            assert await client.say("QUIT") == [SMUGGLED]
            assert await client.rest() == "221 2.0.0 Bye\r\n"
            await house.until(lambda: not house.server.connections.open)
        assert house.sources() == []


async def test_an_endless_command_of_fifty_megabytes_is_cut_off(serve):
    async with serve() as house:
        client = await house.connect()
        await client.reply()
        (session,) = house.server.connections.open
        held = []
        try:
            for _ in range(50):
                client.write(b"x" * 1_000_000)
                await client.writer.drain()
                held.append(session._conversation.input.waiting_bytes)
        except ConnectionError:
            pass
        await house.until(lambda: not house.server.connections.open)
        assert len(held) < 50
        assert max(held, default=0) <= 64 * 1024
