"""What ends while it is being read is not shown: over a real service and storage, held up where reading waits."""

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
    """A house whose inbox holds two mails, and what ends them."""

    def __init__(self, storage, clock):
        super().__init__(storage, clock, max_lifetime_seconds=7200)
        self.mail = self.service.mail
        self.forming = anyio.Lock()
        self.numbers = itertools.count()

    async def open_inbox(self):
        """Create an inbox with two mails, whatever has become of the one before it."""
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

    # These do as the service does once it has found the inbox: the one reader may be held up.

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
    """Hold the thread that reads, after it has read what was asked for and before the answer arrives."""
    entered, left = threading.Event(), threading.Event()

    def hold(_connection):
        entered.set()
        left.wait(PATIENCE_SECONDS)

    reading = asyncio.ensure_future(task(house))  # asks for its read first; both go in one batch, answered together
    holding = asyncio.ensure_future(house.storage._reader.run(hold))
    await until(entered.is_set)
    try:
        yield reading
    finally:
        left.set()
        await asyncio.wait([holding, reading])


@asynccontextmanager
async def turns(house, task):
    """Hold all the threads that turns are given for."""
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
WARM = [(encode, forming), (message, turns)]  # all that is found is known already

ALL = [(*pair, False) for pair in HELD_UP] + [(*pair, True) for pair in WARM]

# A view lasts a minute, whatever its inbox does.
AS_LONG_AS_THE_INBOX = [one for one in ALL if one[0] is not look]


async def prepare(house, *, warm):
    """Open the inbox of a row: those before have ended theirs."""
    await house.open_inbox()
    house.secret, house.grant, _ = await house.service.viewer.permit(
        house.address, house.message_ids[0], remote_images=False
    )
    await look(house)  # from now on each is made anew
    if warm:
        await house.mail.list(house.address, Page())


@pytest.mark.parametrize("end", [House.delete_inbox, House.expire, House.shorten_and_expire])
async def test_nothing_is_shown_of_an_inbox_that_ends_while_it_is_read(house, end, subtests):
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


async def test_what_is_extended_while_it_is_read_is_shown_beyond_its_first_end(house, subtests):
    for read, hold, warm in AS_LONG_AS_THE_INBOX:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            async with hold(house, read) as reading:
                await house.extend_beyond_its_end()
            expected = house.message_ids if read in (list_, search, encode) else house.message_ids[:1]
            assert await reading == expected


async def test_what_others_delete_meanwhile_changes_nothing(house, subtests):
    for read, hold, warm in ALL:
        with subtests.test(read=read.__name__, warm=warm):
            await prepare(house, warm=warm)
            other, _ = await house.create()
            async with hold(house, read) as reading:
                await house.storage.move_expiry(other.id, expires_at_ms=house.clock(), now_ms=house.clock())
            expected = house.message_ids if read in (list_, search, encode) else house.message_ids[:1]
            assert await reading == expected


async def test_a_private_inbox_that_ends_meanwhile_says_so_to_its_holder_and_nothing_to_others(house):
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
async def test_a_page_whose_messages_all_go_meanwhile_is_read_again(house, hold):
    """There are others: an empty page that announces another has no place to go on from."""
    async with hold(house, lambda house: encode(house, limit=1)) as reading:
        await house.delete_message()
    assert await reading == house.message_ids[1:]


async def test_an_mbox_file_is_without_what_is_deleted_meanwhile_and_ends_with_its_inbox(house):
    await house.deliver()
    parts = house.mail.mbox(house.address)
    async with turns(house, lambda _: anext(parts)) as reading:
        await house.delete_message()
    assert house.message_ids[1].encode() in await reading
    await house.delete_inbox()
    assert [part async for part in parts] == []
    with pytest.raises(AddressExpired):
        await anext(house.mail.mbox(house.address))


async def test_who_sent_a_mail_is_checked_when_its_source_is_read_before_that(house):
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
    found.clear()  # the end of the read that set it
    return found


async def test_a_page_that_is_known_is_shown_without_reading(house, statements):
    await house.mail.list(house.address, Page())
    statements.clear()
    assert len((await house.mail.list(house.address, Page())).messages) == 2
    assert statements == []


@pytest.mark.parametrize("read", [list_, search, message, source, find])
async def test_what_nobody_deletes_is_read_once(house, statements, read):
    await read(house)
    assert len([sql for sql in statements if "FROM inbox" in sql]) == 1
