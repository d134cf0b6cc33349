"""The HTTP application with a real service and a real database, called as an ASGI application or over a socket."""

import json
import logging
import random
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import anyio
import pytest
from services import service_over

from patience import PATIENCE_SECONDS
from tmpmaild.http import server as server_module
from tmpmaild.http import streams
from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.http.responses import ResponseSlots
from tmpmaild.http.server import HttpServer
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import NO_SESSION, Envelope
from tmpmaild.ratelimit import RateLimits

LIFETIME_MS = 3_600_000


class Answer:
    """A response; ``headers`` are pairs with lower-case names."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
        self.body = body

    def header(self, name):
        values = [value for key, value in self.headers if key == name]
        assert len(values) < 2, values
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)


def scope_of(target, method="GET", headers=(), *, host="mail.example.com", peer="192.0.2.1"):
    """Return the ASGI scope of a request."""
    path, _, query = (target if isinstance(target, bytes) else target.encode()).partition(b"?")
    given = [(name.lower().encode(), value.encode("latin-1")) for name, value in dict(headers).items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "asgi": {"spec_version": "2.1", "version": "3.0"},
        "method": method,
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [*([(b"host", host.encode("latin-1"))] if host is not None else []), *given],
        "client": (peer, 50000) if peer != "unix" else None,
        "server": ("192.0.2.99", 80),
        "state": {},
        "extensions": {},
    }


class Client:
    """Calls an ASGI application in the way a server would."""

    def __init__(self, app, peer="192.0.2.1"):
        self.app = app
        self.peer = peer

    async def ask(
        self, method, target, headers=(), body=b"", *, host="mail.example.com", peer=None, parts=None, stays=False
    ):
        """Send a request.

        A client that ``stays`` remains connected until the response is complete, or until an event is set.
        """
        scope = scope_of(target, method, headers, host=host, peer=peer or self.peer)
        chunks = list(parts) if parts is not None else [body]
        sent = []

        async def receive():
            if not chunks:
                if stays:
                    await (anyio.Event() if stays is True else stays).wait()
                return {"type": "http.disconnect"}
            chunk = chunks.pop(0)
            if chunk is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        assert not rest or not rest[-1].get("more_body")
        return Answer(start["status"], start["headers"], b"".join(message.get("body", b"") for message in rest))

    async def get(self, target, headers=(), **more):
        return await self.ask("GET", target, headers, **more)

    async def post(self, target="/api/v1/addresses", body=b"", headers=(), **more):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", target, headers, body, **more)

    async def create(self, **members):
        answer = await self.post(body=members or b"")
        assert answer.status == 201, answer.body
        return answer.json()


class World:
    """A service with its own database, and a clock that only the test advances."""

    def __init__(self, service, storage, clock):
        self.service = service
        self.storage = storage
        self.clock = clock
        self.page_buckets = None

    def app(self, buckets=None, **settings):
        return HttpApp(self.service, HttpSettings(**settings), RateLimits(buckets, self.page_buckets))

    def client(self, buckets=None, **settings):
        return Client(self.app(buckets, **settings))

    async def deliver(
        self,
        address,
        raw=b"Subject: hello\r\n\r\nbody\r\n",
        sender="sender@example.org",
        recipient=None,
        session=NO_SESSION,
    ):
        local_part, _, domain = address.rpartition("@")
        inbox_id = await self.service.deliverer.recipient(Mailbox(local_part, domain))
        recipients = (recipient or address,)
        envelope = Envelope(sender, recipients, "client.example", "192.0.2.7", tls=False, session=session)
        return await self.service.deliverer.deliver(envelope, [inbox_id], raw)

    async def end(self, what, held, message_id):
        """Delete an inbox or one of its messages, or let both expire."""
        if what == "inbox":
            await self.service.inboxes.delete(held["address"], held["token"])
        elif what == "message":
            await self.service.inboxes.delete_message(held["address"], message_id, held["token"])
        else:
            self.clock.advance(ms=LIFETIME_MS)


@pytest.fixture
def open_world(store, clock):
    """Return a context manager that opens a ``World``.

    Arguments that are not storage limits set the service's rules.
    """

    @asynccontextmanager
    async def opened(*, domains=("mail.example.com", "second.test"), check=None, **more):
        kinds = ("max_bytes", "reserve_bytes", "max_messages_per_inbox", "max_bytes_per_inbox", "max_share_per_creator")
        limits = {name: more.pop(name, default) for name, default in zip(kinds, (1 << 30, 0, 0, 0, 1.0), strict=True)}
        async with store.open(clock, **limits) as storage:
            service = service_over(storage, domains=domains, check=check, random=random.Random(1), **more)
            yield World(service, storage, clock)

    return opened


@pytest.fixture
def slots_come_late(monkeypatch, clock):
    """Make inboxes expire while a large response waits for its slot."""
    take = ResponseSlots.take

    def late(self, name):
        clock.advance(ms=LIFETIME_MS)
        return take(self, name)

    monkeypatch.setattr(ResponseSlots, "take", late)


def expected(name, message_id):
    """Return the JSON that clients get for a message, according to ``messages.json``."""
    return json.loads(Path(__file__).with_name("messages.json").read_text().replace("ID", message_id))[name]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def held(client):
    return await client.create(local_part="chosen")


@pytest.fixture
async def world(open_world):
    async with open_world() as opened:
        yield opened


@pytest.fixture
async def client(world):
    return world.client()


class Served:
    """A listening server, and raw connections to it."""

    def __init__(self, server, address):
        self.server = server
        self.address = address

    def connect(self):
        return anyio.connect_tcp(*self.address)

    async def ask(self, octets):
        """Send bytes, and return everything received until the server closes the connection."""
        async with await self.connect() as stream:
            await stream.send(octets)
            return await read_all(stream)

    async def drained(self):
        """Wait until the server has no connections."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while self.server.connections:
                await anyio.sleep(0.005)


async def read_all(stream):
    received = bytearray()
    with anyio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return bytes(received)


@pytest.fixture
def serve(monkeypatch):
    """Return a function that serves an application, with heartbeats and idle limits that cannot affect a test."""
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 10 * PATIENCE_SECONDS)
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 10 * PATIENCE_SECONDS)

    @asynccontextmanager
    async def served(app, *, max_connections=100, grace_seconds=0.2, **more):
        listener = socket.create_server(("127.0.0.1", 0))
        server = HttpServer(app, max_connections=max_connections, **more)
        await server.start([listener])
        try:
            yield Served(server, listener.getsockname())
        finally:
            await server.stop(grace_seconds)
            assert not server.connections

    return served


@pytest.fixture
async def served(world, serve):
    async with serve(world.app()) as one:
        yield one


@pytest.fixture
def nothing_is_logged(caplog):
    """Check that no client causes a log entry and that no task fails unnoticed."""
    caplog.set_level(logging.INFO)
    yield
    records = [record for phase in ("setup", "call", "teardown") for record in caplog.get_records(phase)]
    assert [record.getMessage() for record in records] == []
