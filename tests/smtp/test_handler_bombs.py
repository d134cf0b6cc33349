"""Mails made to overload their reader: taken, listed with what could be read, and the source is there octet by octet."""

import asyncio
import json
import time

import pytest

from growth import cpu_seconds
from tmpmaild.mail import charsets, headers, mime

MIXED = "Content-Type: multipart/mixed; boundary=x\r\n\r\n"


def nested(levels):
    return "".join(f"Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n" for n in range(levels))


# How it is made, the subject that must be read all the same, and what must be owned up to.
BOMBS = {
    "100,000 parts": (lambda: MIXED + "--x\r\n\r\na\r\n" * 100_000, mime.TOO_MANY_PARTS),
    "50 KB of quotes in To": (lambda: "To: " + '"' * 50_000 + "\r\n\r\n", headers.FIELD_CUT),
    "an unknown charset": (
        lambda: "Content-Type: text/plain; charset=x-none\r\n\r\ncaf\xe9\r\n",
        charsets.UNKNOWN_CHARSET,
    ),
}


@pytest.fixture(scope="module")
def ordinary_seconds():
    """Return what it costs to read ten megabytes of ordinary text."""
    text = (
        b"Subject: x\r\n\r\n" + b"A line of ordinary text, with words in it, as long as they are in mail.\r\n" * 140_000
    )
    return min(cpu_seconds(mime.parse, text) for _ in range(3))


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_is_taken_and_shown_soon_with_its_source_as_it_came(serve, name, ordinary_seconds):
    make, warning = BOMBS[name]
    source = ("Subject: boom\r\n" + make()).encode("latin-1")
    async with serve() as house:
        client = await house.connect()
        await client.begin()
        client.write(source + b".\r\n")
        began = time.process_time()
        assert (await client.reply()).startswith("250 2.0.0 Ok: stored as ")
        taken_seconds = time.process_time() - began
        (message,) = await house.messages("abc")
        _, shown = await house.service.mail.source("abc@ours.test", message.id)
        shown_seconds = time.process_time() - began - taken_seconds
        assert taken_seconds < 80 * ordinary_seconds
        assert shown_seconds < 40 * ordinary_seconds
        assert (message.subject, message.size_bytes) == ("boom", len(source))
        assert shown == source
        ((stored,),) = house.read("SELECT warnings FROM content")
        assert mime.UNREADABLE not in json.loads(stored)
        assert warning is None or warning in json.loads(stored)


async def test_bombs_at_once_keep_nobody_from_speaking(serve):
    async with serve() as house:
        clients = [await house.connect() for _ in range(4)]
        for client in clients:
            await client.begin()
        other = await house.greeted()
        for client in clients:
            client.write((MIXED + "--x\r\n\r\na\r\n" * 100_000).encode() + b".\r\n")
        answers = [asyncio.ensure_future(client.reply()) for client in clients]
        answered = 0
        while not all(answer.done() for answer in answers):
            assert await other.say("NOOP") == ["250 2.0.0 Ok"]
            answered += 1
        assert answered > 20  # of several hundred; were a bomb read in the loop, there would be one or two between them
        assert all(answer.result().startswith("250 2.0.0 Ok: stored as ") for answer in answers)
