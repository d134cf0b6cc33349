"""After an erase, no file contains any expired content."""

import asyncio
import random

import pytest

from crowd import MARKED, marked_mail, marks, prove_erasure
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.model import Page, Webhook
from tmpmaild.storage.sqlite.layout import PAGE_BYTES


async def test_expired_data_is_in_no_file_during_other_work_and_after_it(open_engine, path, clock):
    async with open_engine(max_bytes=2**30) as engine:
        await prove_erasure(engine.storage, path, clock, 1_000)  # the system tests use more inboxes


async def test_an_expired_recipient_is_blanked_in_a_message_that_other_inboxes_still_have(open_engine, path, clock):
    async with open_engine() as engine:
        over, lives = await engine.inbox("zqx000001qz", lifetime_ms=1), await engine.inbox("zqx000002qz")
        addresses = ("zqx000001qz+ünï@mail.example.com", "zqx000002qz@mail.example.com")
        await engine.add(over, lives, recipients=addresses, html="x" * 9000)
        clock.advance(ms=1)
        await engine.sweep()
        assert set(marks(path)) == {2}


async def test_data_that_an_earlier_process_swept_but_did_not_erase_is_erased(open_engine, path, clock):
    async with open_engine() as engine:
        await engine.add(await engine.inbox("zqx000001qz"), subject="zqx000001qz")
        clock.advance(seconds=3600)
        while await engine.storage.sweep(clock()):
            pass
    async with open_engine() as engine:
        await engine.sweep()
        assert marks(path) == {}


def mark(number):
    return f"zqx{number:06d}qz"


async def swept_marks(engine, path, clock):
    await Cleaner(engine.storage, interval_seconds=30).sweep()
    return set(marks(path))


async def test_data_deleted_in_any_way_is_in_no_file_after_the_next_sweep(open_engine, path, clock):
    """Messages are deleted in three ways: one at a time, all in one request, and together with their address."""
    rng = random.Random(21)
    async with open_engine(max_messages_per_inbox=0) as engine:
        inboxes = [await engine.inbox(mark(1000 + number)) for number in range(5)]
        mails = [marked_mail(inboxes[number % 5], mark(number), rng) for number in range(400)]
        message_ids = await asyncio.gather(*map(engine.storage.add_message, mails))
        numbers, addresses = list(range(400)), set(range(1000, 1005))
        rng.shuffle(numbers)
        for count in (1, 120, 80):
            going, numbers = numbers[:count], numbers[count:]
            await asyncio.gather(*(engine.delete(inboxes[number % 5], message_ids[number]) for number in going))
            assert await swept_marks(engine, path, clock) == addresses.union(numbers)
        await engine.storage.delete_messages(inboxes[0].id)
        await engine.storage.delete_messages(inboxes[1].id, up_to=message_ids[201])
        numbers = [one for one in numbers if one % 5 > 1 or (one % 5 == 1 and one > 201)]
        assert await swept_marks(engine, path, clock) == addresses.union(numbers)
        await engine.end(inboxes[2])
        left = [one for one in numbers if one % 5 != 2]
        assert await swept_marks(engine, path, clock) == addresses.union(left) - {1002}


async def test_deleting_a_shared_message_blanks_the_recipient_and_the_last_recipient_deletes_it(
    open_engine, path, clock
):
    async with open_engine() as engine:
        inboxes = [await engine.inbox(f"box{number}") for number in range(3)]
        recipients = tuple(f"{mark(number)}+ünï@mail.example.com" for number in range(3))
        await engine.add(*inboxes, recipients=recipients, html=mark(9) * 500)
        left = {0, 1, 2, 9}
        for number in (1, 0, 2):
            (message,) = await engine.messages(f"box{number}", Page())
            await engine.delete(inboxes[number], message.id)
            left = left - {number} if len(left) > 2 else set()
            assert await swept_marks(engine, path, clock) == left


async def test_data_deleted_while_files_are_erased_is_erased_by_the_next_sweep(open_engine, path, clock):
    async with open_engine() as engine:
        inbox = await engine.inbox("box")
        message_ids = [await engine.add(inbox, subject=mark(number)) for number in range(40)]
        for message_id in message_ids:
            await asyncio.gather(engine.storage.erase(), engine.delete(inbox, message_id))
        assert await swept_marks(engine, path, clock) == set()


@pytest.mark.parametrize("way", ["replaced", "taken away", "taken away after a call", "ended"])
async def test_a_removed_webhook_is_in_no_file_after_the_next_sweep(open_engine, path, clock, way):
    async with open_engine() as engine:
        inbox, storage = await engine.inbox("box"), engine.storage
        await storage.erase()
        await storage.set_webhook(inbox.id, None, clock())
        await _set_webhook(engine, inbox, mark(1) * 100)
        assert not storage._writer.state.unerased  # no webhook has been removed yet
        stored = await storage.read_webhook(inbox.id)
        ways = {
            "replaced": lambda: _set_webhook(engine, inbox, "other"),
            "taken away": lambda: storage.set_webhook(inbox.id, None, clock()),
            "taken away after a call": lambda: storage.store_webhook(stored, None),
            "ended": lambda: engine.end(inbox),
        }
        await ways[way]()
        assert await swept_marks(engine, path, clock) == set()


async def _set_webhook(engine, inbox, text):
    webhook = Webhook(f"https://hooks.example/{text}", frozenset({"message"}), frozenset(), text)
    await engine.storage.set_webhook(inbox.id, webhook, engine.clock())


async def test_the_text_of_a_webhook_is_only_in_overflow_pages(open_engine, path):
    async with open_engine() as engine:
        for length in range(0, 4200, 40):
            await _set_webhook(engine, await engine.inbox(f"box{length}"), mark(1) + "x" * (length // 2))
        await engine.sweep()
    leaves, _ = pages_of(path)
    assert len(leaves) > 10
    assert [page for page in leaves if MARKED.search(page)] == []


def pages_of(path):
    """Return the b-tree leaves and the other pages; an overflow page starts with a page number below 2**24."""
    octets = path.read_bytes()
    pages = [octets[start : start + PAGE_BYTES] for start in range(0, len(octets), PAGE_BYTES)]
    return [page for page in pages if page[0] == 0x0D], [page for page in pages if page[0] != 0x0D]


async def test_text_of_any_length_is_only_in_overflow_pages(open_engine, path):
    """Message text of any length stays out of b-tree pages, because merging pages would leave copies of the text."""
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("zqx000001qz")
        lengths = [*range(0, 4200, 3), 9000, 70_000, 1_000_000]
        mark = "zqx000001qz"
        mails = [{"subject": mark * (1 + length % 5), "body": mark + "x" * length} for length in lengths]
        await asyncio.gather(*(engine.add(inbox, raw=mark.encode(), **mail) for mail in mails))
        await engine.sweep()
    leaves, others = pages_of(path)
    assert len(leaves) > len(lengths) // 8
    assert [page for page in leaves if MARKED.search(page)] == []
    assert len(others) > len(lengths)
