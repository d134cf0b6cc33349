"""Expired mail is also erased from the disk: no block of an ext4 file system, unmounted and read raw, contains it."""

import asyncio
import os
import random
import re
import sqlite3
import subprocess
from contextlib import closing, contextmanager

import pytest

from crowd import MARKED, marked_mail
from peers import which
from tmpmaild.model import NewInbox
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

LIFETIME_MS = 1000
IMAGE_BYTES = 700 << 20  # a sparse file; the service requires 256 MiB of free disk space
INBOXES, MAILS_EACH, ROUNDS = 30, 20, 4

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not which("mkfs.ext4"), reason="needs root and mkfs.ext4")


def make_disk(image):
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)


@contextmanager
def mounted(image, folder):
    subprocess.run(["mount", "-o", "loop", image, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def left_on(image):
    """Return the marks in all blocks, including free ones."""
    with image.open("rb") as octets:
        return {mark for part in iter(lambda: octets.read(64 << 20), b"") for mark in re.findall(MARKED, part)}


async def erased(storage, clock):
    while await storage.sweep(clock()):
        pass
    while not await storage.erase():
        await asyncio.sleep(0.01)


class Life:
    """Rounds of messages that arrive and expire, in a storage that is reopened for each phase."""

    def __init__(self, folder, clock):
        self.folder = folder
        self.clock = clock
        self.numbers = 0
        self.rng = random.Random(7)

    def opened(self):
        limits = {"max_bytes": 256 << 20, "max_messages_per_inbox": 0, "max_bytes_per_inbox": 0}
        return open_storage(SqliteSettings(path=self.folder / "mail.db", **limits), self.clock)

    async def receive(self, storage):
        for number in range(INBOXES):
            now_ms = self.clock()
            until_ms = now_ms + LIFETIME_MS * (1 + number % 3)  # long-lived inboxes move when the file shrinks
            name = f"box{self.numbers}-{number}@mail.example.com"
            inbox = await storage.create_inbox(
                NewInbox(name, now_ms, until_ms, private=False, token_hash=b"t" * 32, creator=None)
            )
            mails = [self.mail(inbox) for _ in range(MAILS_EACH)]
            await asyncio.gather(*map(storage.add_message, mails))

    def mail(self, inbox):
        self.numbers += 1
        return marked_mail(inbox, f"zqx{self.numbers:06d}qz", self.rng)

    async def rounds(self, storage):
        for _ in range(ROUNDS):
            await self.receive(storage)
            self.clock.advance(ms=LIFETIME_MS)
            await erased(storage, self.clock)

    async def end(self, storage):
        self.clock.advance(ms=3 * LIFETIME_MS)
        await erased(storage, self.clock)


async def while_it_runs(life):
    async with life.opened() as storage:
        await life.rounds(storage)
        await life.end(storage)


async def stopped_before(life):
    async with life.opened() as storage:
        await life.rounds(storage)
        await life.receive(storage)
    async with life.opened() as storage:
        await life.end(storage)


async def with_copies(life):
    async with life.opened() as storage:
        await life.receive(storage)
        async with storage.backup() as copy:
            assert re.search(MARKED, copy.read())
        await life.end(storage)


async def behind_a_reader(life):
    """Let the WAL grow while another connection reads; the WAL is truncated afterwards."""
    async with life.opened() as storage:
        await life.receive(storage)
        with closing(sqlite3.connect(life.folder / "mail.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM inbox").fetchall()
            for _ in range(3):
                await life.receive(storage)
            assert (life.folder / "mail.db-wal").stat().st_size > 8 << 20
        await life.end(storage)


@pytest.mark.parametrize("lives", [while_it_runs, stopped_before, with_copies, behind_a_reader])
async def test_no_disk_block_contains_expired_mail(tmp_path, clock, figure, lives):
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    make_disk(image)
    life = Life(folder, clock)
    with mounted(image, folder):
        async with life.opened() as storage:
            await life.receive(storage)
    assert left_on(image), "what is alive is there, so marks would be found"
    with mounted(image, folder):
        await lives(life)
    left = left_on(image)
    figure(f"expired mail on a raw ext4, {lives.__name__}", f"{len(left)} of {life.numbers:,}", "0")
    assert left == set()
