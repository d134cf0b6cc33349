"""Many inboxes with marked messages, and a check that no file contains data from an expired inbox."""

import asyncio
import random
import re
from collections import Counter

from msgspec.structs import replace

from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.model import NAME_HELD_MS, Attachment, Envelope, NewInbox, NewMail, ParsedMail, Webhook

LONGEST_MS = 60_000
TOMBSTONE_BYTES = 250  # includes the tombstone's entries in two indexes
MARKED = re.compile(rb"zqx(\d{6})qz")


def marked_mail(inbox, mark, rng):
    """Return a message with the mark in every part that a sender controls."""
    body = (f"{mark} " + "lorem ipsum " * rng.choice([0, 3, 50, 300])) * 2
    html = rng.choice([None, f"<p>{mark}", f"<p>{mark}" * 20])
    attachment = Attachment(
        0, f"{mark}.pdf", f"application/{mark}", 1, "0" * 64, inline=False, content_id=f"{mark}@cid"
    )
    parsed = ParsedMail(
        f"{mark}@example.com", mark, mark, body, html, (attachment,), (("Subject", mark), (mark, mark)), (mark,)
    )
    envelope = Envelope(f"{mark}@example.org", (f"{mark}+tag@mail.example.com",), f"{mark}.example", mark, tls=False)
    return NewMail(envelope, (inbox.id,), f"Subject: {mark}\r\n\r\n{body}".encode(), parsed)


class Crowd:
    """Creates inboxes with marked names and messages, lets some of them expire, and records the live inboxes."""

    def __init__(self, storage, clock, size):
        self.storage = storage
        self.size = size
        self.clock = clock
        self.rng = random.Random(20)
        self.expires_at_ms = {}

    async def join(self, number):
        now_ms = self.clock()
        self.expires_at_ms[number] = now_ms + self.rng.randrange(1000, LONGEST_MS)
        mark = f"zqx{number:06d}qz"
        custom = "-custom-name"[: self.rng.randrange(12)] if number % 2 else ""
        address = f"{mark}{custom}@mail.example.com"
        inbox = await self.storage.create_inbox(
            NewInbox(address, now_ms, self.expires_at_ms[number], private=False, token_hash=b"t" * 32, creator=mark)
        )
        if number % 3 == 0:
            await self.have_a_webhook(inbox, mark)
        await self.storage.add_message(marked_mail(inbox, mark, self.rng))

    async def have_a_webhook(self, inbox, mark):
        """Set a webhook once or twice, and start a call; at random, record its failure or remove the webhook."""
        for _ in range(self.rng.randrange(1, 3)):
            url = f"https://{mark}.example/{mark * self.rng.choice([1, 20, 170])}"
            webhook = Webhook(url, frozenset({"message"}), frozenset(), mark)
            await self.storage.set_webhook(inbox.id, webhook, self.clock())
        stored = await self.storage.read_webhook(inbox.id)
        leased = await self.storage.store_webhook(stored, replace(stored.state, next_at_ms=self.clock() + 1))
        if self.rng.randrange(2):
            state = replace(leased.state, failures=self.rng.randrange(500), result="timeout")
            await self.storage.store_webhook(leased, self.rng.choice([state, None]))

    async def come_and_go(self):
        numbers = list(range(self.size))
        self.rng.shuffle(numbers)
        for start in range(0, self.size, 200):
            await asyncio.gather(*map(self.join, numbers[start : start + 200]))
            self.clock.advance(ms=self.rng.randrange(100, 400))
            if start % 1000 == 0:
                await self.storage.sweep(self.clock())

    def living(self):
        return {number for number, expires_at_ms in self.expires_at_ms.items() if expires_at_ms > self.clock()}


def marks(path):
    """Count the marks in all files of the database's folder."""
    octets = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return Counter(int(found[1]) for found in MARKED.finditer(octets))


async def _shrink(cleaner, path):
    """Sweep until the file no longer shrinks, because a single sweep runs for only a few seconds."""
    before = None
    while before != (now := path.stat().st_size):
        before = now
        await cleaner.sweep()


async def prove_erasure(storage, path, clock, size):
    """Let some and then all of ``size`` inboxes expire. After each sweep, no file may contain data of an expired inbox.

    At the end, the files must be small again.
    """
    cleaner = Cleaner(storage, interval_seconds=30)
    crowd = Crowd(storage, clock, size)
    await crowd.come_and_go()
    for _ in range(3):
        await cleaner.sweep()
        living = crowd.living()
        assert living
        assert set(marks(path)) == living
        clock.advance(ms=LONGEST_MS // 4)
    clock.advance(ms=LONGEST_MS)
    await cleaner.sweep()
    assert marks(path) == {}
    await _shrink(cleaner, path)
    assert path.stat().st_size < size * TOMBSTONE_BYTES + 100 * 1024
    clock.advance(ms=NAME_HELD_MS)
    await _shrink(cleaner, path)
    assert path.stat().st_size < 300 * 1024
    assert path.with_name("mail.db-wal").stat().st_size == 0
