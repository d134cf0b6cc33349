"""``GET /api/v1/addresses/{address}/messages.mbox``."""

import asyncio
import itertools
import mailbox

import anyio
import pytest

from tmpmaild.errors import StorageUnavailable
from tmpmaild.http import responses

from .conftest import scope_of
from .streams import until

LARGE = b"Subject: large\r\n\r\n" + b"x" * 1_000_000 + b"\r\n"


@pytest.fixture
def at(held):
    return path(held)


def path(held):
    return f"/api/v1/addresses/{held['address']}/messages.mbox"


def mails(octets, tmp_path):
    """Return the messages of an mbox as Python reads them."""
    (tmp_path / "mbox").write_bytes(octets)
    box = mailbox.mbox(tmp_path / "mbox", create=False)
    try:
        return [box.get_bytes(key) for key in sorted(box.keys())]
    finally:
        box.close()


async def source(client, held, message_id):
    answer = await client.get(f"/api/v1/addresses/{held['address']}/messages/{message_id}/raw")
    return answer.body.replace(b"\r\n", b"\n")


@pytest.mark.both_engines
async def test_the_file_has_every_message_as_its_source_returns_it_oldest_first(world, client, held, at, tmp_path):
    raws = [b"Subject: %d\r\n\r\nbody %d\r\n" % (number, number) for number in range(3)]
    ids = [await world.deliver(held["address"], raw) for raw in [*raws, LARGE]]
    await world.deliver((await client.create())["address"])
    answer = await client.get(at)
    assert answer.status == 200
    assert mails(answer.body, tmp_path) == [await source(client, held, one) for one in ids]
    assert answer.body.startswith(
        b"From sender@example.org Mon Sep 21 14:13:20 2026\nReturn-Path: <sender@example.org>\n"
    )


async def test_the_fields_of_a_sender_check_are_the_same_as_in_a_source(open_world, tmp_path):
    raw = b"Authentication-Results: localhost; dkim=pass\r\nSubject: x\r\n\r\n"
    async with open_world(check=lambda *_: True) as world:
        client = world.client()
        held = await client.create(local_part="chosen")
        message_id = await world.deliver(held["address"], raw)
        (mail,) = mails((await client.get(path(held))).body, tmp_path)
        assert mail == await source(client, held, message_id)
    assert b"X-Claimed-Authentication-Results: localhost" in mail


async def test_it_is_a_file_with_the_name_of_the_inbox(client, at):
    answer = await client.get(at.replace("chosen", "CHOSEN+tag"))
    assert answer.header("content-type") == "application/mbox"
    assert answer.header("content-disposition") == 'attachment; filename="chosen@mail.example.com.mbox"'
    assert answer.header("cache-control") == "no-store"
    assert "sandbox" in answer.header("content-security-policy")
    assert answer.header("content-length") is None


class Slow:
    """A client that reads the start of the response, and the rest when the test allows it."""

    def __init__(self, app, target):
        self.messages = []
        self._turns = anyio.Semaphore(1)
        self._task = asyncio.ensure_future(app(scope_of(target), anyio.sleep_forever, self._send))

    async def _send(self, message):
        self.messages.append(message)
        await self._turns.acquire()

    async def first_part(self):
        await until(lambda: len(self.messages) == 2)

    async def take_all(self):
        for _ in range(100):
            self._turns.release()
        await self._task

    def body(self):
        return b"".join([message.get("body", b"") for message in self.messages])

    @property
    def is_complete(self):
        return not self.messages[-1].get("more_body", self.messages[-1]["type"] == "http.response.start")


@pytest.fixture
async def three(world, held):
    return [await world.deliver(held["address"], b"Subject: %b\r\n\r\n" % name) for name in (b"one", b"two", b"six")]


@pytest.mark.usefixtures("three")
async def test_a_client_that_does_not_read_is_disconnected_and_its_slot_freed(world, at, monkeypatch):
    monkeypatch.setattr(responses, "SLOTS_PER_CLIENT", 1)
    client = world.client()
    monkeypatch.setattr(responses, "SLICE_SECONDS", 0.05)
    sent = []

    async def takes_the_start(message):
        sent.append(message)
        if message["type"] == "http.response.body":
            await anyio.sleep_forever()

    await client.app(scope_of(at), None, takes_the_start)
    assert len(sent) == 2
    assert (await client.get(at)).status == 200


@pytest.mark.usefixtures("three")
async def test_each_part_moves_the_deadline_by_its_length_and_the_time_until_it_is_ready(client, at, monkeypatch):
    monkeypatch.setattr(responses, "SLICE_SECONDS", float("inf"))
    monkeypatch.setattr(responses, "SEND_SECONDS", 1000)
    monkeypatch.setattr(responses, "PACE_BYTES_PER_SECOND", 0.5)
    start, seconds = anyio.current_time(), itertools.count(step=100)
    monkeypatch.setattr(anyio, "current_time", lambda: start + next(seconds))
    parts, deadlines = [], []

    async def take(message):
        if message.get("more_body"):
            parts.append(message["body"])
            deadlines.append(anyio.current_effective_deadline())

    await client.app(scope_of(at), None, take)
    moved = [later - earlier for earlier, later in itertools.pairwise(deadlines)]
    assert moved == pytest.approx([len(part) * 2 + 100 for part in parts[:-1]])
    assert len(parts) == 3


@pytest.mark.usefixtures("three")
async def test_a_client_that_exceeds_the_deadline_gets_no_end(client, at, monkeypatch):
    monkeypatch.setattr(responses, "SLICE_SECONDS", float("inf"))
    monkeypatch.setattr(responses, "SEND_SECONDS", 0.01)
    sent = []

    async def take_no_body(message):
        sent.append(message)
        if message["type"] == "http.response.body":
            await anyio.sleep_forever()

    await client.app(scope_of(at), None, take_no_body)
    assert [message.get("more_body") for message in sent] == [None, True]


async def test_the_file_needs_a_slot_like_every_large_response(world, at, three, monkeypatch):
    monkeypatch.setattr(responses, "SLOTS_PER_CLIENT", 1)
    client = world.client()
    slow = Slow(client.app, at)
    await slow.first_part()
    monkeypatch.setattr(responses, "WAIT_SECONDS", 0.05)
    answer = await client.get(at)
    assert (answer.status, answer.json()["code"]) == (503, "busy")
    assert (await client.ask("HEAD", at)).status == 200
    await slow.take_all()
    assert (await client.get(at)).status == 200


@pytest.mark.usefixtures("slots_come_late", "three")
async def test_an_inbox_that_expires_while_waiting_for_a_slot_is_a_problem(client, at):
    assert (await client.get(at)).json()["code"] == "address-expired"


async def test_at_most_two_messages_are_in_memory(world, client, held, at, monkeypatch):
    """The next message is read only when the client has received the previous message."""
    for _ in range(5):
        await world.deliver(held["address"], LARGE)
    reads = []
    read = world.storage.read_message

    async def counted(*args, **more):
        reads.append(args)
        return await read(*args, **more)

    monkeypatch.setattr(world.storage, "read_message", counted)
    slow = Slow(client.app, at)
    await slow.first_part()
    assert len(reads) == 1
    await slow.take_all()
    assert len(reads) == 6


@pytest.mark.both_engines
async def test_a_client_on_a_socket_gets_every_message_in_chunks(world, served, held, at, tmp_path):
    for _ in range(3):
        await world.deliver(held["address"], LARGE)
    request = f" {at} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    head, _, body = (await served.ask(b"GET" + request)).partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert body.endswith(b"\r\n0\r\n\r\n")
    assert len(mails(unchunked(body), tmp_path)) == 3
    assert (await served.ask(b"HEAD" + request)).partition(b"\r\n\r\n")[2] == b""


def unchunked(body):
    octets = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        if size == b"0":
            return octets
        octets, body = octets + body[: int(size, 16)], body[int(size, 16) + 2 :]


@pytest.mark.usefixtures("three")
async def test_a_response_that_is_cut_off_lacks_the_last_chunk(world, served, at, monkeypatch):
    read, seen = world.storage.read_message, []

    async def once(*args, **more):
        seen.append(args)
        if len(seen) > 1:
            raise StorageUnavailable("away")
        return await read(*args, **more)

    monkeypatch.setattr(world.storage, "read_message", once)
    answer = await served.ask(f"GET {at} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert b"Subject: one" in answer
    assert not answer.endswith(b"0\r\n\r\n")
