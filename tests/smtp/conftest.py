"""A real SMTP server with its own service and database, and a client that reads replies."""

import asyncio
import socket
import ssl
import subprocess
from contextlib import asynccontextmanager

import pytest
import trustme
from services import service_over

from patience import PATIENCE_SECONDS
from tmpmaild.host import sockets
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import Page
from tmpmaild.smtp import replies
from tmpmaild.smtp.server import SmtpServer
from tmpmaild.smtp.settings import SmtpSettings


class Client:
    """An SMTP client that sends exactly the given bytes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def send(self, *lines):
        self.write(b"".join(line.encode() + b"\r\n" for line in lines))

    def write(self, octets):
        self.writer.write(octets)

    async def line(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self.reader.readline()).decode().removesuffix("\r\n")

    async def reply(self):
        """Read one reply; return its last line."""
        line = await self.line()
        while line[3:4] == "-":
            line = await self.line()
        return line

    async def replies(self, count):
        return [await self.reply() for _ in range(count)]

    async def say(self, *lines):
        """Send commands in one packet and return the reply to each."""
        self.send(*lines)
        return await self.replies(len(lines))

    async def begin(self, *names, sender="a@example.com"):
        """Run the dialogue from the greeting up to the reply to DATA."""
        await self.reply()
        await self.say("EHLO client.example")
        await self.start(*names, sender=sender)

    async def start(self, *names, sender="a@example.com"):
        """Start a message to inboxes; the server must accept all of them at RCPT."""
        rcpts = [f"RCPT TO:<{name}@ours.test>" for name in names or ("abc",)]
        said = await self.say(f"MAIL FROM:<{sender}>", *rcpts, "DATA")
        assert said == [str(replies.SENDER_OK), *[str(replies.RECIPIENT_OK)] * len(rcpts), str(replies.GO_AHEAD)]

    async def deliver(self, *recipients, mail="Subject: x\r\n\r\nhello"):
        """Send a message to inboxes, which must be accepted at RCPT; return the reply to the final dot."""
        await self.start(*recipients)
        return (await self.say(f"{mail}\r\n."))[0]

    async def rest(self):
        """Read until the server closes the connection."""
        octets = b""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while chunk := await self.reader.read(65536):
                    octets += chunk
        except ConnectionResetError:
            pass
        return octets.decode()

    async def start_tls(self, context):
        """Perform a TLS handshake; StreamWriter.start_tls does not work with uvloop on Python 3.11."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        async with asyncio.timeout(PATIENCE_SECONDS):
            transport = await loop.start_tls(self.writer.transport, protocol, context, server_hostname="localhost")
        reader.set_transport(transport)
        self.plain = self.writer  # keep a reference, because garbage collection would close the transport
        self.reader, self.writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def reset(self):
        """Close the connection with a RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    def close(self):
        self.writer.transport.abort()


class House:
    """The server, its service and storage, and its address."""

    def __init__(self, store, storage, service, server, address):
        self.store = store
        self.storage = storage
        self.service = service
        self.server = server
        self.address = address
        self.clients = []

    async def connect(self, **options):
        client = Client(*await asyncio.open_connection(*self.address, **options))
        self.clients.append(client)
        return client

    async def greeted(self):
        """Return a client that has sent EHLO."""
        client = await self.connect()
        await client.reply()
        await client.say("EHLO client.example")
        return client

    async def at_data(self, *recipients, **options):
        """Return a client whose recipients have been accepted, and which may now send its message."""
        client = await self.connect(**options)
        await client.begin(*recipients)
        return client

    async def run(self, program, arguments, octets):
        """Run a program that sends its standard input to the server; ``{port}`` in its arguments is replaced."""
        command = [program, *(one.format(port=self.address[1]) for one in arguments)]
        given = {"input": octets, "capture_output": True, "timeout": 30, "check": False}
        done = await asyncio.to_thread(subprocess.run, command, **given)
        assert done.returncode == 0, done.stdout + done.stderr

    async def create(self, *names, creator=None):
        for name in names:
            await self.service.inboxes.create(NewAddress(local_part=name), creator)

    async def order(self, name, *faults):
        inbox = await self.service.access.find(f"{name}@ours.test")
        self.service.faults.order(inbox, faults)

    async def messages(self, name):
        """Return the messages in an inbox as a reader gets them, newest first."""
        return (await self.service.mail.list(f"{name}@ours.test", Page(limit=1000))).messages

    def read(self, sql):
        """Return the rows that a query finds on disk."""
        return self.store.read(sql)

    def sources(self):
        """Return the raw sources on disk, oldest first."""
        return self.store.sources()

    def received_bytes(self):
        """Return the number of bytes received for unfinished messages, whether or not they are kept in memory."""
        mails = [one.conversation.data for one in self.server.connections.open]
        return sum(mail.received_bytes for mail in mails if mail)

    async def until(self, condition):
        """Let the event loop run until a condition is true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
def serve(store, clock):
    """Return a context manager that runs a server with these settings."""

    @asynccontextmanager
    async def run(
        *,
        tls=None,
        wrap=lambda deliverer: deliverer,
        names=("abc",),
        storage_bytes=0,
        listener=None,
        limits=None,
        accept_unknown=False,
        faults=False,
        keep_refusals=False,
        tls_first=False,
        **settings,
    ):
        defaults = {
            "hostname": "mx.ours.test",
            "max_message_bytes": 10 * 1024 * 1024,
            "max_connections": 1000,
            "max_connections_per_client": 50,
            "max_inflight_bytes": 64 * 1024 * 1024,
        }
        holds = {"max_messages_per_inbox": 1000, "max_bytes_per_inbox": 0, "max_share_per_creator": 1.0}
        holds = {"max_bytes": storage_bytes, "reserve_bytes": 4096} | holds | (limits or {})
        async with store.open(clock, **holds) as storage:
            service = service_over(
                storage,
                domains=("ours.test", "second.test"),
                accept_unknown=accept_unknown,
                faults=faults,
                keep_refusals=keep_refusals,
            )
            service.deliverer = wrap(service.deliverer)
            server = SmtpServer(service, SmtpSettings(**(defaults | settings)), tls, clock)
            bound = listener or sockets.bind_all(["127.0.0.1:0"])[0]
            await server.start(*([], [bound]) if tls_first else [[bound]])
            house = House(store, storage, service, server, bound.getsockname()[:2])
            try:
                await house.create(*names)
                yield house
            finally:
                for client in house.clients:
                    client.close()
                await server.stop(1)

    return run


@pytest.fixture
def talk(serve):
    """Return a context manager that runs a server and yields it with a client that has sent EHLO."""

    @asynccontextmanager
    async def run(**settings):
        async with serve(**settings) as house:
            yield house, await house.greeted()

    return run


@pytest.fixture(scope="session")
def certificate():
    """Create a certificate for localhost; return the server's and the client's TLS context."""
    ca = trustme.CA()
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("localhost").configure_cert(ours)
    theirs = ssl.create_default_context()
    ca.configure_trust(theirs)
    return ours, theirs
