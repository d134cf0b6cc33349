"""Where mails are parsed, and what that leaves behind."""

import asyncio
import time

import pytest

from growth import cpu_seconds
from tmpmaild.errors import MailboxFull
from tmpmaild.mail import mime
from tmpmaild.model import Page

from .conftest import MAIL


async def test_a_large_mail_is_parsed_in_a_thread_and_stored(world):
    inbox, _ = await world.create()
    await world.deliver(inbox.address, raw=MAIL + b"more\r\n" * 20_000)
    (message,) = (await world.service.mail.list(inbox.address, Page())).messages
    assert message.body.count("more\n") == 20_000


async def test_html_of_more_than_some_kilobytes_is_not_parsed_in_the_event_loop(world):
    inbox, _ = await world.create()
    raw = b"Content-Type: Text/HTML\r\n\r\n" + b"<p>x\r\n" * 5000
    parsing_seconds = cpu_seconds(mime.parse, raw)
    began = time.thread_time()
    await world.deliver(inbox.address, raw=raw)
    assert time.thread_time() - began < parsing_seconds / 2


async def test_large_mails_that_cost_much_leave_a_place_for_a_small_one(world):
    large, second, small = [(await world.create())[0].address for _ in range(3)]
    stored = []

    async def deliver(address, html):
        await world.deliver(address, raw=b"Content-Type: text/html\r\n\r\n" + html)
        stored.append(address)

    costly = b"".join(b"<p style='display:none%d'>x" % n for n in range(12_000))
    async with asyncio.TaskGroup() as tasks:
        for address in (large, second):
            tasks.create_task(deliver(address, costly))
        tasks.create_task(deliver(small, b"<p>x" * 2000))
    assert stored[0] == small


async def test_memory_is_given_back_after_large_mail_and_once_a_second_at_most(world):
    inbox, _ = await world.create()
    large = MAIL + b"x" * 1_100_000  # over an inbox's limit here, but it is parsed first
    for advance_ms, times in ((0, 1), (999, 1), (1, 2)):
        world.clock.advance(ms=advance_ms)
        with pytest.raises(MailboxFull):
            await world.deliver(inbox.address, raw=large)
        assert len(world.gave_back) == times
    await world.deliver(inbox.address)
    assert len(world.gave_back) == 2
