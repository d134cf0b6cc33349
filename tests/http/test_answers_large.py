"""What counts as large, who gets slots for it, and mail that ends while a large answer is made of it."""

import asyncio
from contextlib import asynccontextmanager
from ipaddress import ip_network

import anyio
import anyio.to_thread
import msgspec
import pytest

from tmpmaild.http import answers
from tmpmaild.http.schemas import Serializer
from tmpmaild.model import Page

from .conftest import scope_of
from .streams import until

LONG = b"x" * 8000
LARGE = b"Subject: large\r\n\r\n" + b"x" * 70_000


def parts(count, fields):
    part = b"--b\r\nContent-Type: application/x\r\n%b\r\n\r\n" % fields
    return b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * count + b"--b--\r\n"


MAILS = {
    "a long From": b"From: %b@example.org\r\n\r\n" % LONG,
    "a long name": b"From: %b <a@example.org>\r\n\r\n" % LONG[:900],
    "long Content-IDs": parts(150, b"Content-ID: <%b>" % LONG),
    "long media types": parts(150, b"Content-Type: %b/%b" % (LONG[:127], LONG[:127])),
    "many small parts": parts(900, b""),
    "many links": b"\r\n" + b"".join(b"http://a.b/%d \r\n" % number for number in range(200)),
    "nothing at all": b"\r\n",
}


def path(held, rest=""):
    return f"/api/v1/addresses/{held['address']}/messages{rest}"


@pytest.mark.parametrize("raw", MAILS.values(), ids=MAILS)
async def test_all_that_an_answer_shows_counts(world, held, raw):
    """Else an answer of megabytes would pass for a small one."""
    for _ in range(3):
        await world.deliver(held["address"], raw)
    listing = await world.service.mail.list(held["address"], Page())
    encoded = msgspec.json.encode(Serializer("").message_list(listing))
    assert len(encoded) <= 1.1 * listing.characters


async def test_one_small_mail_of_many_parts_is_a_large_answer(world, held, monkeypatch):
    """Its source is small, and so are its texts; what is said of its parts is not."""
    taken = []

    class Counted(answers.AnswerSlots):
        def take(self, client):
            taken.append(client)
            return super().take(client)

    monkeypatch.setattr("tmpmaild.http.app.AnswerSlots", Counted)
    client = world.client()
    message_id = await world.deliver(held["address"], parts(900, b""))
    answer = await client.get(path(held, f"/{message_id}"))
    assert (answer.status, len(answer.json()["attachments"])) == (200, 900)
    assert len(taken) == 1


@pytest.mark.parametrize(("exempt", "status"), [("192.0.2.0/24", 200), ("198.51.100.0/24", 503)])
async def test_a_client_waits_for_its_third_large_answer_unless_it_is_exempt(world, held, monkeypatch, exempt, status):
    if status == 503:
        monkeypatch.setattr(answers, "_WAIT_SECONDS", 0.05)
    await world.deliver(held["address"], LARGE)
    client = world.client(exempt=(ip_network(exempt),))
    begun = []

    async def never_takes(_):
        begun.append(True)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(client.app, scope_of(path(held)), anyio.sleep_forever, never_takes)
        await until(lambda: len(begun) == 2)
        assert (await client.get(path(held))).status == status
        tasks.cancel_scope.cancel()


class Threads:
    """All threads that the service works in, held, and a request that waits for one."""

    def __init__(self):
        self._limiter = anyio.to_thread.current_default_thread_limiter()
        self._holders = [object() for _ in range(int(self._limiter.total_tokens))]

    async def hold(self):
        for holder in self._holders:
            await self._limiter.acquire_on_behalf_of(holder)

    async def somebody_waits(self):
        await until(lambda: self._limiter.statistics().tasks_waiting == 1)

    async def one_turn(self):
        """Let the waiting request continue until it waits for its next thread."""
        self._limiter.release_on_behalf_of(self._holders[0])
        await self._limiter.acquire_on_behalf_of(self._holders[0])
        await self.somebody_waits()

    def release(self):
        for holder in self._holders:
            self._limiter.release_on_behalf_of(holder)


@asynccontextmanager
async def held_up(client, target, *, turns=0):
    """Hold a request at a thread, after so many that it has had."""
    threads = Threads()
    await threads.hold()
    asking = asyncio.ensure_future(client.get(target))
    await threads.somebody_waits()
    for _ in range(turns):
        await threads.one_turn()
    try:
        yield asking
    finally:
        threads.release()
        await asyncio.wait([asking])


@pytest.fixture
async def two(world, held):
    """Store two large mails, and find their codes and links."""
    message_ids = [await world.deliver(held["address"], LARGE) for _ in range(2)]
    await world.service.mail.list(held["address"], Page())
    return message_ids


@pytest.mark.parametrize("what", ["inbox", "message", "clock"])
async def test_what_ends_while_its_large_page_is_encoded_is_not_sent(world, held, two, what):
    async with held_up(world.client(), path(held)) as asking:
        await world.end(what, held, two[0])
    answer = await asking
    if what == "message":
        assert [message["id"] for message in answer.json()["messages"]] == two[1:]
        assert answer.header("content-length") == str(len(answer.body))
    else:
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("what", ["inbox", "message", "clock"])
async def test_a_large_message_that_ends_while_it_is_made_is_not_sent(world, held, two, what, turns):
    """Held in each of its threads: its header is read, and again with the texts, then all is encoded."""
    async with held_up(world.client(), path(held, f"/{two[0]}"), turns=turns) as asking:
        await world.end(what, held, two[0])
    answer = await asking
    expected = (404, "message-not-found") if what == "message" else (410, "address-expired")
    assert (answer.status, answer.json()["code"]) == expected
