"""A service with an inbox, and mail for it, for tests of waiting and following."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from services import connected

import emptydatabase
from tmpmaild.inboxes.creating import NewAddress, Rules
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Page
from tmpmaild.storage.settings import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

LIFETIME_MS = 3_600_000


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
async def house(tmp_path, clock):
    storage_settings = SqliteSettings(max_bytes=1 << 30, path=emptydatabase.begin(tmp_path / "mail.db"))
    async with open_storage(storage_settings, clock) as storage:
        tokens = iter(f"token-{number}" for number in range(100))
        rules = Rules(domains=("mail.example.com",), lifetime_ms=LIFETIME_MS, max_lifetime_ms=2 * LIFETIME_MS)
        service = connected(
            storage, InboxService(storage, rules, clock=clock, choice=min, new_token=lambda: next(tokens))
        )
        inbox, token = await service.create(NewAddress(local_part="chosen"), None)
        yield House(service, inbox, token, clock)
