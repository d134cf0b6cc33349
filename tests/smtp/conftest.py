"""A real SMTP server over a real service and a database in a temporary folder, and a client that reads replies."""

import asyncio
import secrets
import socket
import sqlite3
from contextlib import asynccontextmanager

import pytest

from tmpmaild.service import InboxService, Rules, Wish
from tmpmaild.smtp.server import Settings, SmtpServer
from tmpmaild.storage.sqlite import Settings as StorageSettings
from tmpmaild.storage.sqlite import open_storage

PATIENCE_SECONDS = 10


class Client:
    """An SMTP client that sends exactly what it is told to."""

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
        """Read one reply; of several lines, the last."""
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

    async def begin(self, recipient="abc@ours.test", sender="a@example.com"):
        """Go from the greeting to where the mail is expected."""
        await self.reply()
        said = await self.say("EHLO client.example", f"MAIL FROM:<{sender}>", f"RCPT TO:<{recipient}>", "DATA")
        assert [reply[:3] for reply in said] == ["250", "250", "250", "354"]

    async def rest(self):
        """Read until the server hangs up."""
        octets = b""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while chunk := await self.reader.read(65536):
                    octets += chunk
        except ConnectionResetError:
            pass
        return octets.decode()

    def reset(self):
        """Vanish with a RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    def close(self):
        self.writer.transport.abort()


class House:
    """The server, what stands behind it, and the way to it."""

    def __init__(self, path, storage, service, server, address):
        self.path = path
        self.storage = storage
        self.service = service
        self.server = server
        self.address = address
        self.clients = []

    async def connect(self, **options):
        client = Client(*await asyncio.open_connection(*self.address, **options))
        self.clients.append(client)
        return client

    async def create(self, name, creator=None):
        await self.service.create(Wish(local_part=name), creator)

    def sources(self):
        """Read the mails that are on disk, oldest first."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return [octets for (octets,) in connection.execute("SELECT octets FROM source ORDER BY id")]
        finally:
            connection.close()

    async def until(self, condition):
        """Wait for what the loop will bring about."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
def serve(tmp_path, clock):
    """Return a context manager that runs a server with these settings."""

    @asynccontextmanager
    async def run(*, tls=None, wrap=lambda service: service, names=("abc",), storage_bytes=0, **settings):
        defaults = {
            "hostname": "mx.ours.test",
            "max_message_bytes": 10 * 1024 * 1024,
            "max_connections": 1000,
            "max_connections_per_client": 50,
            "new_connections_per_minute": 600,
            "max_unknown_recipients": 100,
            "max_inflight_bytes": 64 * 1024 * 1024,
        }
        path = tmp_path / "mail.db"
        limits = {"max_messages_per_inbox": 1000, "max_bytes_per_inbox": 0, "max_share_per_creator": 1.0}
        async with open_storage(
            StorageSettings(path=path, max_bytes=storage_bytes, reserve_bytes=4096, **limits), clock
        ) as storage:
            service = InboxService(
                storage,
                Rules(("ours.test", "second.test"), 3_600_000),
                clock=clock,
                choice=secrets.choice,
                new_token=secrets.token_urlsafe,
            )
            server = SmtpServer(wrap(service), Settings(**(defaults | settings)), tls)
            listener = socket.create_server(("127.0.0.1", 0))
            await server.start([listener])
            house = House(path, storage, service, server, listener.getsockname())
            try:
                for name in names:
                    await house.create(name)
                yield house
            finally:
                for client in house.clients:
                    client.close()
                await server.stop(1)

    return run


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Make a certificate for localhost; Python's ssl module cannot."""
    import shutil
    import ssl
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is missing (Debian package: openssl)")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, ssl.create_default_context(cafile=folder / "cert.pem")
