"""Content that expires or is deleted while it is being read is not shown; the tests delay reads in a real service."""

import asyncio
import itertools
import threading
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest
from services import all_turns

from patience import PATIENCE_SECONDS
from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound
from tmpmaild.model import Page, unchecked

from . import conftest
from .conftest import LIFETIME_MS, World

MAIL = (
    b"Subject: hello\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    b'--b\r\nContent-Type: text/html\r\n\r\n<p>Your code: 481516</p><img src="cid:logo">\r\n'
    b"--b\r\nContent-Type: image/gif\r\nContent-ID: <logo>\r\n\r\nGIF89a\r\n--b--\r\n"
)


class House(conftest.House):
    """A ``House`` with two messages in its inbox, and methods that delete them or let them expire."""

    def __init__(self, storage, clock):
        super().__init__(storage, clock, max_lifetime_seconds=7200)
        self.mail = self.service.mail
        self.forming = anyio.Lock()
        self.numbers = itertools.count()

    async def open_inbox(self):
        """Create an inbox with two messages, even if the previous inbox has been deleted or has expired."""
        await super().open_inbox(f"chosen{next(self.numbers)}")
        self.message_ids = []
        await self.deliver()
        await self.deliver()
        _, self.attachment, _ = await self.mail.find_attachment(self.address, self.message_ids[0], "0")

    @property
    def address(self):
        return self.inbox.address

    async def deliver(self):
        self.message_ids.append(await World.deliver(self, self.address, raw=MAIL))

    # These methods skip the service's lookup of the inbox, because the only reader may be blocked.

    async def delete_inbox(self):
        await self.storage.move_expiry(self.inbox.id, expires_at_ms=self.clock(), now_ms=self.clock())

    async def delete_message(self):
        await self.storage.delete_messages(self.inbox.id, [self.message_ids[0]])

    async def expire(self):
        self.clock.advance(ms=LIFETIME_MS)

    async def shorten_and_expire(self):
        await self.storage.move_expiry(self.inbox.id, expires_at_ms=self.clock() + 1000, now_ms=self.clock())
        self.clock.advance(ms=1000)

    async def extend_beyond_its_end(self):
        await self.storage.move_expiry(
            self.inbox.id, expires_at_ms=self.inbox.expires_at_ms + 1000, now_ms=self.clock()
        )
        self.clock.advance(ms=LIFETIME_MS)


@pytest.fixture
async def house(storage, clock):
    house = House(storage, clock)
    await house.open_inbox()
    return house


async def list_(house):
    return [message.id for message in (await house.mail.list(house.address, Page(ascending=True))).messages]


async def search(house):
    page = Page(subject="hello", ascending=True)
    return [message.id for message in (await house.mail.list(house.address, page)).messages]


async def encode(house, **page):
    async def form(listing):
        async with house.forming:
            return [message.id for message in listing.messages]

    return (await house.mail.list_as(house.address, Page(ascending=True, **page), None, form))[1]


async def message(house):
    return [(await house.mail.message(house.address, house.message_ids[0])).full.message.id]


async def encode_message(house):
    async def form(shown):
        async with house.forming:
            return [shown.full.message.id]

    return await house.mail.message_as(house.address, house.message_ids[0], None, form)


async def source(house):
    assert await house.mail.source(house.address, house.message_ids[0])
    return house.message_ids[:1]


async def find_attachment(house):
    assert await house.mail.find_attachment(house.address, house.message_ids[0], "0")
    return house.message_ids[:1]


async def attachment(house):
    assert await house.mail.attachment_content(house.address, house.message_ids[0], house.attachment) == b"GIF89a"
    return house.message_ids[:1]


async def permit(house):
    _, grant, _ = await house.service.viewer.permit(house.address, house.message_ids[0], remote_images=False)
    return [grant.message_id]


async def look(house):
    assert "481516" in (await house.service.viewer.open(house.secret, house.grant)).html
    return house.message_ids[:1]


async def find(house):
    assert (await house.service.access.find(house.address)).id == house.inbox.id
    return house.message_ids[:1]


async def until(condition):
    with anyio.fail_after(PATIENCE_SECONDS):
        while not condition():
            await anyio.sleep(0.001)


@asynccontextmanager
async def reader(house, task):
    """Delay a read by stopping the reader's thread after it has read the rows and before the result arrives."""
    entered, left = threading.Event(), threading.Event()

    def hold(_connection):
        entered.set()
        left.wait(PATIENCE_SECONDS)

    # This read is queued first; both reads run in one batch and finish together.
    reading = asyncio.ensure_future(task(house))
    holding = asyncio.ensure_future(house.storage._reader.run(hold))
    await until(entered.is_set)
    try:
        yield reading
    finally:
        left.set()
        await asyncio.wait([holding, reading])


@asynccontextmanager
async def turns(house, task):
    """Delay a read by occupying all turns."""
    scheduler = house.service.scheduler
    async with all_turns(scheduler):
        reading = asyncio.ensure_future(task(house))
        await until(lambda: len(scheduler._queue) == 1)
        yield reading
    await asyncio.wait([reading])


def lock(find):
    @asynccontextmanager
    async def held(house, task):
        one = find(house)
        await one.acquire()
        reading = asyncio.ensure_future(task(house))
        await until(lambda: one.statistics().tasks_waiting == 1)
        try:
            yield reading
        finally:
            one.release()
            await asyncio.wait([reading])

    return held


forming = lock(lambda house: house.forming)
HELD_UP_BY = {
    reader: (list_, search, message, source, find_attachment, attachment, permit, look, find),
    turns: (list_, search, encode, message, attachment, permit, look),
    forming: (encode, encode_message),
}
HELD_UP = [(read, hold) for hold, reads in HELD_UP_BY.items() for read in reads]
WARM = [(encode, forming), (message, turns)]  # reads that also run when the codes and links are already known

ALL = [(*pair, False) for pair in HELD_UP] + [(*pair, True) for pair in WARM]

# A view is valid for a minute, independently of its inbox.
AS_LONG_AS_THE_INBOX = [one for one in ALL if one[0] is not look]


async def prepare(house, *, warm):
    """Open a new inbox, because the inboxes of earlier cases have been deleted or have expired."""
    await house.open_inbox()
    house.secret, house.grant, _ = await house.service.viewer.permit(
        house.address, house.message_ids[0], remote_images=False
    )
    await look(house)  # uses the page that was rendered in advance, so later views are rendered again
    if warm:
        await house.mail.list(house.address, Page())


@pytest.mark.parametrize("end", [House.delete_inbox, House.expire, House.shorten_and_expire])
async def test_no_content_is_shown_of_an_inbox_that_ends_while_it_is_read(house, end, subtests):
    for read, hold, warm in ALL:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            async with hold(house, read) as reading:
                await end(house)
                assert not reading.done()
            with pytest.raises((AddressExpired, MessageNotFound) if read is look else AddressExpired):
                await reading


async def test_a_message_that_is_deleted_while_it_is_read_is_not_shown(house, subtests):
    for read, hold, warm in ALL:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            async with hold(house, read) as reading:
                await house.delete_message()
                assert not reading.done()
            if read is find:
                await reading
            elif read in (list_, search, encode):
                assert await reading == house.message_ids[1:]
            else:
                with pytest.raises(MessageNotFound):
                    await reading


async def test_an_inbox_extended_during_a_read_is_shown_beyond_its_first_expiry(house, subtests):
    for read, hold, warm in AS_LONG_AS_THE_INBOX:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            async with hold(house, read) as reading:
                await house.extend_beyond_its_end()
            expected = house.message_ids if read in (list_, search, encode) else house.message_ids[:1]
            assert await reading == expected


async def test_deletions_elsewhere_change_nothing(house, subtests):
    for read, hold, warm in ALL:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            other, _ = await house.create()
            async with hold(house, read) as reading:
                await house.storage.move_expiry(other.id, expires_at_ms=house.clock(), now_ms=house.clock())
            expected = house.message_ids if read in (list_, search, encode) else house.message_ids[:1]
            assert await reading == expected


async def test_a_private_inbox_that_ends_meanwhile_is_only_reported_to_its_owner(house):
    house.inbox, token = await house.create(local_part="secret", private=True)
    await house.deliver()

    async def with_token(house):
        return await house.mail.list("secret@mail.example.com", Page(), token)

    async def without(house):
        return await house.mail.list("secret@mail.example.com", Page())

    async with turns(house, with_token) as reading:
        await house.delete_inbox()
    with pytest.raises(AddressExpired):
        await reading
    with pytest.raises(AddressNotFound):
        await without(house)


@pytest.mark.parametrize("hold", [turns, forming])
async def test_a_page_whose_messages_are_all_deleted_meanwhile_is_read_again(house, hold):
    """If it were not read again, the page would be empty and announce a next page without a start position."""
    async with hold(house, lambda house: encode(house, limit=1)) as reading:
        await house.delete_message()
    assert await reading == house.message_ids[1:]


async def test_an_mbox_file_leaves_out_deleted_messages_and_ends_with_its_inbox(house):
    await house.deliver()
    parts = house.mail.mbox(house.address)
    async with turns(house, lambda _: anext(parts)) as reading:
        await house.delete_message()
    assert house.message_ids[1].encode() in await reading
    await house.delete_inbox()
    assert [part async for part in parts] == []
    with pytest.raises(AddressExpired):
        await anext(house.mail.mbox(house.address))


async def test_reading_the_source_requests_a_sender_check_until_there_is_a_verdict(house):
    asked = []
    house.mail.check = lambda *one: not asked.append(one)
    await source(house)
    assert len(asked) == 1
    await house.storage.set_authentication(
        house.inbox.id, unchecked("fail", "it is not"), message_id=house.message_ids[0]
    )
    await source(house)
    assert asked == [(house.address, house.message_ids[0], "")]


async def test_an_inbox_that_is_deleted_between_two_portions_of_a_search_has_expired(house, monkeypatch):
    monkeypatch.setattr("tmpmaild.inboxes.filtering._PORTION", 1)
    async with reader(house, search) as reading:
        await house.delete_inbox()
    with pytest.raises(AddressExpired):
        await reading


@pytest.fixture
async def statements(house):
    found = []
    await house.storage._reader.run(lambda connection: connection.set_trace_callback(found.append))
    found.clear()  # discard the remaining statements of the read that installed the callback
    return found


async def test_a_cached_page_is_shown_without_reading(house, statements):
    await house.mail.list(house.address, Page())
    statements.clear()
    assert len((await house.mail.list(house.address, Page())).messages) == 2
    assert statements == []


@pytest.mark.parametrize("read", [list_, search, message, source, find])
async def test_unchanged_content_is_read_once(house, statements, read):
    await read(house)
    assert len([sql for sql in statements if "FROM inbox" in sql]) == 1
