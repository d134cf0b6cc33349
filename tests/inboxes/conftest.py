"""A service with the objects it was built from, with or without an inbox, and helpers that write to the storage."""

import asyncio
import random
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from services import service_over

from patience import PATIENCE_SECONDS
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Inbox, Message, NewInbox, NewMail, Page, ParsedMail
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

LIFETIME_MS = 3_600_000
DOMAINS = ("mail.example.com", "second.test")
MAIL = b"From: Ada <ada@example.com>\r\nSubject: Hi\r\n\r\nHello\r\n"
INBOX = Inbox("7", "ada@mail.example.com", 0, 1000, private=False, token_hash=None, message_count=1, full=False)


def message(message_id, body="", **more):
    """Return a message as it appears in a list; omitted fields are empty."""
    texts = dict.fromkeys(("recipient", "from_address", "from_name", "subject"), "")
    rest = {"truncated": False, "size_bytes": 0, "has_html": False, "attachments": (), "body_bytes": len(body.encode())}
    return Message(**{"id": message_id, "received_at_ms": 0, "body": body} | texts | rest | more)


async def add_inbox(storage, address, lifetime_ms=1000, *, private=False, token_hash=b"", creator=None):
    now_ms = storage.clock()
    new = NewInbox(address, now_ms, now_ms + lifetime_ms, private=private, token_hash=token_hash, creator=creator)
    return await storage.create_inbox(new)


async def add_mail(storage, inbox_id, raw=b"secret-octets", parsed=None):
    """Store a message; the default "secret-octets" is easy to find in a file."""
    envelope = Envelope("bounce@example.com", ("x@mail.example.com",), "mx.example.com", "192.0.2.1", tls=False)
    parsed = parsed or ParsedMail("", "", "", "", None, (), (), ())
    return await storage.add_message(NewMail(envelope, (inbox_id,), raw, parsed))


def mailbox_of(address):
    return Mailbox(*address.rsplit("@", 1))


class Stuck(random.Random):
    """A random generator that always picks the first character while it is ``stuck``."""

    stuck = False

    def choice(self, characters):
        return characters[0] if self.stuck else super().choice(characters)


class World:
    """A service and the objects it was built from."""

    def __init__(self, storage, clock, **rules):
        self.storage = storage
        self.clock = clock
        self.random = Stuck()
        self.gave_back = []
        given = {"random": self.random, "release_memory": lambda: self.gave_back.append(clock())}
        self.service = service_over(storage, domains=DOMAINS, **given, **rules)

    async def create(self, **wish):
        return await self.service.inboxes.create(NewAddress(**wish), "192.0.2.1")

    async def deliver(self, *recipients, raw=MAIL):
        inbox_ids = [await self.service.deliverer.recipient(mailbox_of(recipient)) for recipient in recipients]
        envelope = Envelope("bounce@example.com", recipients, "mx.example.com", "192.0.2.9", tls=False)
        return await self.service.deliverer.deliver(envelope, inbox_ids, raw)


class House(World):
    """A ``World`` with one inbox."""

    inbox, token = None, ""

    async def open_inbox(self, local_part="chosen"):
        self.inbox, self.token = await self.create(local_part=local_part)

    async def deliver(self, subject="hello", address=None):
        raw = b"Subject: %b\r\n\r\nbody\r\n" % subject.encode()
        return await super().deliver(address or self.inbox.address, raw=raw)

    @asynccontextmanager
    async def waiting(self, page=None, seconds=60):
        """Start a wait that blocks, and cancel the wait afterwards."""
        page = page or Page()
        task = asyncio.ensure_future(self.service.follower.wait(self.inbox.address, page, None, seconds))
        await self.asleep(1)
        try:
            yield task
        finally:
            task.cancel()

    async def asleep(self, listeners):
        """Wait until there are this many listeners, and then a moment longer for reads that are still in progress."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(self.service.bus) != listeners:
                await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.01)  # the first read of the database uses threads

    def follow(self, after=None, **more):
        return self.service.follower.follow(self.inbox.address, after, None, **more)


@pytest.fixture
async def storage(tmp_path, clock):
    settings = SqliteSettings(max_bytes=1 << 30, path=tmp_path / "mail.db")
    async with open_storage(settings, clock) as opened:
        yield opened


@pytest.fixture
async def house(storage, clock):
    house = House(storage, clock, max_lifetime_seconds=7200)
    await house.open_inbox()
    return house


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
