"""The definition of a large response, the slots for it, and content that expires or is deleted while it is encoded."""

import asyncio
from contextlib import asynccontextmanager
from ipaddress import ip_network

import anyio
import anyio.to_thread
import msgspec
import pytest

from tmpmaild.http import responses
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
async def test_all_content_of_a_response_counts(world, held, raw):
    """If some content did not count, a response of several megabytes might be treated as small."""
    for _ in range(3):
        await world.deliver(held["address"], raw)
    listing = await world.service.mail.list(held["address"], Page())
    encoded = msgspec.json.encode(Serializer("").message_list(listing))
    assert len(encoded) <= 1.1 * listing.characters


async def test_a_small_message_with_many_parts_is_a_large_response(world, held, monkeypatch):
    """The message's source and texts are small, but the description of its parts is not."""
    taken = []

    class Counted(responses.ResponseSlots):
        def take(self, client):
            taken.append(client)
            return super().take(client)

    monkeypatch.setattr("tmpmaild.http.app.ResponseSlots", Counted)
    client = world.client()
    message_id = await world.deliver(held["address"], parts(900, b""))
    answer = await client.get(path(held, f"/{message_id}"))
    assert (answer.status, len(answer.json()["attachments"])) == (200, 900)
    assert len(taken) == 1


@pytest.mark.parametrize(("exempt", "status"), [("192.0.2.0/24", 200), ("198.51.100.0/24", 503)])
async def test_a_client_waits_for_its_third_large_response_unless_it_is_exempt(
    world, held, monkeypatch, exempt, status
):
    if status == 503:
        monkeypatch.setattr(responses, "WAIT_SECONDS", 0.05)
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


class Turns:
    """Occupies all turns of the service, so that requests have to wait."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._held = []

    async def take(self):
        turn = self._scheduler.turn(0, "holder")
        await turn.__aenter__()
        self._held.append(turn)

    async def somebody_waits(self):
        await until(lambda: len(self._scheduler._queue) == 1)

    async def give_one(self):
        """Let the waiting request continue until it waits for its next turn."""
        await self._held.pop().__aexit__(None, None, None)
        await self.take()
        await self.somebody_waits()

    async def release(self):
        for turn in self._held:
            await turn.__aexit__(None, None, None)


@asynccontextmanager
async def held_up(world, target, *, given=0):
    """Send a request; give it this many turns, and then make it wait for its next turn."""
    turns = Turns(world.service.scheduler)
    for _ in range(2):
        await turns.take()
    asking = asyncio.ensure_future(world.client().get(target))
    await turns.somebody_waits()
    for _ in range(given):
        await turns.give_one()
    try:
        yield asking
    finally:
        await turns.release()
        await asyncio.wait([asking])


@pytest.fixture
async def two(world, held):
    """Store two large messages, and detect their codes and links."""
    message_ids = [await world.deliver(held["address"], LARGE) for _ in range(2)]
    await world.service.mail.list(held["address"], Page())
    return message_ids


@pytest.mark.parametrize("what", ["inbox", "message", "clock"])
async def test_a_message_that_ends_while_its_large_page_is_encoded_is_not_sent(world, held, two, what):
    async with held_up(world, path(held)) as asking:
        await world.end(what, held, two[0])
    answer = await asking
    if what == "message":
        assert [message["id"] for message in answer.json()["messages"]] == two[1:]
        assert answer.header("content-length") == str(len(answer.body))
    else:
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("what", ["inbox", "message", "clock"])
async def test_a_large_message_that_ends_while_it_is_encoded_is_not_sent(world, held, two, what, turns):
    """The request waits before each turn: reading the header, reading it again with the texts, encoding everything."""
    async with held_up(world, path(held, f"/{two[0]}"), given=turns) as asking:
        await world.end(what, held, two[0])
    answer = await asking
    expected = (404, "message-not-found") if what == "message" else (410, "address-expired")
    assert (answer.status, answer.json()["code"]) == expected
