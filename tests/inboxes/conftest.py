"""A service with an inbox, and mail for it (``house``), and one with what it was built from (``world``)."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from services import service_over

from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Page
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

LIFETIME_MS = 3_600_000
DOMAINS = ("mail.example.com", "second.test")
MAIL = b"From: Ada <ada@example.com>\r\nSubject: Hi\r\n\r\nHello\r\n"


class House:
    """A service with one inbox."""

    def __init__(self, service, inbox, token, clock):
        self.service = service
        self.inbox = inbox
        self.token = token
        self.clock = clock

    async def deliver(self, subject="hello", address=None):
        mailbox = Mailbox(*(address or self.inbox.address).rsplit("@", 1))
        inbox_id = await self.service.recipient(mailbox)
        envelope = Envelope("a@example.org", (self.inbox.address,), "client.example", "192.0.2.7", tls=False)
        return await self.service.deliver(envelope, [inbox_id], b"Subject: %b\r\n\r\nbody\r\n" % subject.encode())

    @asynccontextmanager
    async def waiting(self, page=None, seconds=60):
        """Start a wait that is blocked; end it afterwards."""
        page = page or Page()
        task = asyncio.ensure_future(self.service.follower.wait(self.inbox.address, page, None, seconds))
        await self.asleep(1)
        try:
            yield task
        finally:
            task.cancel()

    async def asleep(self, listeners):
        """Return when so many listen and nothing else runs."""
        with anyio.fail_after(30):
            while len(self.service.bus) != listeners:
                await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.01)  # the first look goes through threads

    def follow(self, after=None, **more):
        return self.service.follower.follow(self.inbox.address, after, None, **more)


@pytest.fixture
async def storage(tmp_path, clock):
    settings = SqliteSettings(max_bytes=1 << 30, path=tmp_path / "mail.db")
    async with open_storage(settings, clock) as opened:
        yield opened


@pytest.fixture
async def house(storage, clock):
    service = service_over(storage, max_lifetime_seconds=7200)
    inbox, token = await service.create(NewAddress(local_part="chosen"), None)
    return House(service, inbox, token, clock)


class Choice:
    """Picks each character in turn, or always the first while ``stuck``."""

    def __init__(self):
        self.stuck = False
        self._numbers = itertools.count()

    def __call__(self, characters):
        return characters[0 if self.stuck else next(self._numbers) % len(characters)]


class World:
    """A service and what it was built from."""

    def __init__(self, storage, clock, **rules):
        self.clock = clock
        self.choice = Choice()
        self.gave_back = []
        self.service = service_over(
            storage,
            domains=DOMAINS,
            choice=self.choice,
            give_memory_back=lambda: self.gave_back.append(clock()),
            **rules,
        )

    async def create(self, **wish):
        return await self.service.create(NewAddress(**wish), "192.0.2.1")

    async def deliver(self, *recipients, raw=MAIL):
        inbox_ids = [await self.service.recipient(mailbox_of(recipient)) for recipient in recipients]
        envelope = Envelope("bounce@example.com", recipients, "mx.example.com", "192.0.2.9", tls=False)
        return await self.service.deliver(envelope, inbox_ids, raw)


def mailbox_of(address):
    return Mailbox(*address.rsplit("@", 1))


@pytest.fixture
async def small_storage(tmp_path, clock):
    settings = SqliteSettings(
        max_bytes=2**24,
        reserve_bytes=2**21,
        max_messages_per_inbox=2,
        max_bytes_per_inbox=2**20,
        path=tmp_path / "mail.db",
    )
    async with open_storage(settings, clock) as opened:
        yield opened


@pytest.fixture
def world(small_storage, clock):
    return World(small_storage, clock)
