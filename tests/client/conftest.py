"""The real service on its own event loop, servers with scripted responses, and a common interface to both clients."""

import inspect
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from functools import partial

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from scripted import Scripted
from services import opened_service

from daemons import wait_until
from patience import PATIENCE_SECONDS
from tests.conftest import Clock
from tmpmaild import client as api
from tmpmaild.client import waiting
from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.http.server import HttpServer
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope
from tmpmaild.ratelimit import RateLimits
from tmpmaild.webhooktargets import parse_rule

LIFETIME_MS = 3_600_000
PLAIN = b"Subject: hello\r\n\r\nbody\r\n"


class Time:
    """A clock for a client: sleeping advances it immediately."""

    def __init__(self):
        self.seconds = 1000.0
        self.slept = []

    def __call__(self):
        return self.seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds


class InProcessService:
    """The real service on a real port; all methods are called from the test's own thread."""

    def __init__(self, portal, parts, clock):
        self.portal = portal
        self._parts = parts
        self.clock = clock

    def deliver(self, address, raw=PLAIN, sender="sender@example.org"):
        return self.portal.call(self._deliver, address, raw, sender)

    async def _deliver(self, address, raw, sender):
        local_part, _, domain = address.rpartition("@")
        inbox_id = await self._parts.deliverer.recipient(Mailbox(local_part, domain))
        envelope = Envelope(sender, (address,), "client.example", "192.0.2.7", tls=False)
        return await self._parts.deliverer.deliver(envelope, [inbox_id], raw)

    @contextmanager
    def served(self, buckets=None, **settings):
        """Serve on a port; yield the URL."""
        app = HttpApp(self._parts, HttpSettings(**settings), RateLimits(buckets, None))
        with self.portal.wrap_async_context_manager(_bind(app)) as port:
            yield f"http://127.0.0.1:{port}"

    def listeners(self):
        return len(self._parts.bus)

    @contextmanager
    def listening(self, more=1):
        """At the end of the block, wait until the number of listeners has grown by ``more``."""
        wanted = self.listeners() + more
        yield
        wait_until(lambda: self.listeners() == wanted)


@asynccontextmanager
async def _bind(app):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the daemon sets this option, too
    server = HttpServer(app, max_connections=100)
    await server.start([listener])
    try:
        yield listener.getsockname()[1]
    finally:
        await server.stop(0.2)


@pytest.fixture(scope="session")
def portal():
    with start_blocking_portal() as one:
        yield one


@pytest.fixture(scope="session")
def service(portal, tmp_path_factory):
    clock = Clock()
    path = tmp_path_factory.mktemp("client") / "mail.db"
    rules = {"max_lifetime_seconds": 7200, "faults": True, "webhooks": (parse_rule("hooks.example.org"),)}
    opened = opened_service(path, clock, domains=("mail.example.com", "second.test"), **rules)
    with portal.wrap_async_context_manager(opened) as parts:
        yield InProcessService(portal, parts, clock)


@pytest.fixture(scope="session")
def url(service):
    with service.served() as one:
        yield one


class Awaited:
    """An object of the async client, with the interface of the synchronous client."""

    KINDS = (api.AsyncClient, api.AsyncInbox, api.AsyncMail, api.AsyncAttachment)

    def __init__(self, thing, portal):
        self._thing = thing
        self._portal = portal

    def __repr__(self):
        return repr(self._thing)

    def __getattr__(self, name):
        return self._plain(getattr(self._thing, name))

    def _call(self, function, *arguments, **named):
        taken = {name: self._given(value) for name, value in named.items()}
        return self._plain(function(*map(self._given, arguments), **taken))

    def _given(self, value):
        if isinstance(value, list):
            return list(map(self._given, value))
        return value._thing if isinstance(value, Awaited) else value

    def _plain(self, value):
        if inspect.isawaitable(value):
            return self._plain(self._portal.call(_result, value))
        if inspect.ismethod(value):
            return partial(self._call, value)
        if inspect.isasyncgen(value):
            return self._iterated(value)
        if isinstance(value, list | tuple):
            return type(value)(map(self._plain, value))
        if isinstance(value, api.Arrived):
            return replace(value, mail=self._plain(value.mail))
        return Awaited(value, self._portal) if isinstance(value, self.KINDS) else value

    def _iterated(self, events):
        try:
            while True:
                try:
                    yield self._plain(self._portal.call(anext, events))
                except StopAsyncIteration:
                    return
        finally:
            self._portal.call(events.aclose)


async def _result(awaitable):
    return await awaitable


@pytest.fixture(scope="session")
def http():
    """Yield a client that trusts no certificates, which saves tests from loading the system's certificates."""
    with httpx2.Client(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as one:
        yield one


@pytest.fixture(scope="session")
def async_http(portal):
    async def make():
        return httpx2.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    with portal.wrap_async_context_manager(portal.call(make)) as one:
        yield one


@pytest.fixture
def connect_async(async_http):
    """Return a function that creates an async client; ``time`` is its clock."""

    def connected(url=None, *, time=None, **more):
        async def sleep(seconds):
            time.sleep(seconds)

        told = {"clock": time, "sleep": sleep} if time else {}
        return api.AsyncClient(url, http=async_http, **told, **more)

    return connected


@pytest.fixture(params=["sync", "async"])
def connect(request, portal, http, connect_async):
    """Return a function that creates a sync or async client; tests call both kinds in the same way."""

    def connected(url=None, *, time=None, **more):
        if request.param == "async":
            return Awaited(connect_async(url, time=time, **more), portal)
        told = {"clock": time, "sleep": time.sleep} if time else {}
        return api.Client(url, http=http, **told, **more)

    return connected


@pytest.fixture
def client(connect, url):
    return connect(url)


@pytest.fixture
def inbox(client, monkeypatch):
    """Return an inbox whose client tolerates very late responses to a wait, which are possible on busy machines."""
    monkeypatch.setattr(waiting, "_LATE_SECONDS", PATIENCE_SECONDS)
    return client.create()


@pytest.fixture
def at_once():
    """Return a function that runs a given function in a separate thread."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


@pytest.fixture
def fake_time():
    return Time()


@pytest.fixture
def scripted():
    with closing(Scripted()) as server:
        yield server


@pytest.fixture
def scripted_inbox(connect, scripted, fake_time):
    """Return an inbox on the scripted server; its client's clock only advances when the client sleeps."""
    scripted.say(scripted.address())
    inbox = connect(scripted.url, time=fake_time).inbox("x@a.test")
    scripted.asked.clear()
    return inbox


@pytest.fixture
def nobody():
    """Return the URL of a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"
