"""A steady load on the real daemon for any duration, with measurements.

Messages, requests and streams are started at fixed times by separate tasks, so a slow response does not delay them.
"""

import asyncio
import json
import os
import random
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MAILS_PER_SECOND = 20
REQUESTS_PER_SECOND = 50
STREAMS = 500
LIFETIMES_SECONDS = (30, 90)
SWEEP_SECONDS = 5  # this is also how long expired data may remain in the file
MAIL_BYTES = (1_000, 2_000, 4_000, 8_000, 40_000)
PATIENCE_SECONDS = 30
MARGIN_SECONDS = 5  # an inbox that expires sooner gets no messages and no requests
TRIES = 20
SETTINGS = {"TMPMAILD_EXPIRY__INTERVAL_SECONDS": str(SWEEP_SECONDS), "TMPMAILD_ADDRESSES__LIFETIME_SECONDS": "60"}
MIB = 1024 * 1024
API = "/api/v1/addresses"


class Sample(NamedTuple):
    """The measurements for one second."""

    at_seconds: float
    resident_mib: float
    file_mib: float
    wal_mib: float
    live_mib: float


class Inbox(NamedTuple):
    address: str
    ends_at: float


class Soak:
    """The load and its measurements: ``mail_seconds`` (from final dot to 250) and ``get_seconds`` (complete requests).

    Both are lists of pairs: start time and duration.
    """

    def __init__(self, daemon):
        self._daemon = daemon
        self._random = random.Random(1)
        self._inboxes = []
        self._live = deque()  # the expiry times and sizes of live content
        self._live_bytes = 0
        self._tasks = set()
        self.mail_seconds, self.get_seconds = [], []
        self.samples = []
        self.mails = self.requests = self.events = self.failed = 0

    async def run(self, seconds):
        """Generate the load for a number of seconds."""
        self._began = time.monotonic()
        streams = [asyncio.create_task(self._follow(number / STREAMS)) for number in range(STREAMS)]
        actions = [(self._mail, MAILS_PER_SECOND), (self._request, REQUESTS_PER_SECOND), (self._sample, 1)]
        paces = [asyncio.create_task(self._pace(act, rate)) for act, rate in actions]
        await asyncio.sleep(seconds)
        for task in (*paces, *streams, *self._tasks):
            task.cancel()
        await asyncio.gather(*paces, *streams, *self._tasks, return_exceptions=True)

    async def _pace(self, act, rate):
        at = time.monotonic()
        while True:
            task = asyncio.create_task(act())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            at += 1 / rate
            await asyncio.sleep(at - time.monotonic())

    async def _follow(self, place):
        """Follow an inbox until it expires, then a new one; the start times of the followers are staggered."""
        await asyncio.sleep(place * LIFETIMES_SECONDS[0] / 3)
        while True:
            with suppress(OSError):
                lifetime = self._random.uniform(*LIFETIMES_SECONDS)
                inbox = await self._create(lifetime)
                self._inboxes.append(inbox)
                await self._stream(inbox)
                with suppress(ValueError):
                    self._inboxes.remove(inbox)

    async def _create(self, lifetime):
        body = json.dumps({"expires_in_seconds": int(lifetime)}).encode()
        answer = await self._ask("POST", API, body)
        return Inbox(json.loads(answer)["address"], time.monotonic() + int(lifetime))

    async def _stream(self, inbox):
        async with connected(self._daemon.http_port) as (reader, writer):
            writer.write(f"GET {API}/{inbox.address}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            while line := await reader.readline():
                self.events += line.startswith(b"event: message")

    def _choose(self):
        """Return a random inbox that does not expire soon, or None if a few attempts find no such inbox."""
        soon = time.monotonic() + MARGIN_SECONDS
        for inbox in self._random.sample(self._inboxes, min(TRIES, len(self._inboxes))):
            if inbox.ends_at > soon:
                return inbox
        return None

    async def _mail(self):
        inbox = self._choose()
        if inbox is None:
            return
        lines = self._random.randbytes(self._random.choice(MAIL_BYTES) // 2).hex()
        text = "\r\n".join(lines[start : start + 76] for start in range(0, len(lines), 76))
        octets = f"Subject: Your code is {self._random.randrange(10**6)}\r\n\r\n{text}\r\n.\r\n".encode()
        try:
            async with connected(self._daemon.smtp_port) as (reader, writer):
                for command in (b"", b"HELO a\r\n", b"MAIL FROM:<a@example.com>\r\n"):
                    await said(reader, writer, command)
                await said(reader, writer, f"RCPT TO:<{inbox.address}>\r\n".encode())
                await said(reader, writer, b"DATA\r\n")
                began = time.monotonic()
                answer = await said(reader, writer, octets)
                self.mail_seconds.append(self._since(began))
        except OSError:
            answer = b""
        self.mails += 1
        self._judge(inbox, succeeded=answer.startswith(b"250"))
        self._live.append((inbox.ends_at + SWEEP_SECONDS, len(octets)))
        self._live_bytes += len(octets)

    async def _request(self):
        inbox = self._choose()
        if inbox is None:
            return
        began = time.monotonic()
        succeeded = False
        with suppress(OSError):
            await self._ask("GET", f"{API}/{inbox.address}/messages?limit=20")
            succeeded = True
        self._judge(inbox, succeeded=succeeded)
        self.get_seconds.append(self._since(began))
        self.requests += 1

    def _judge(self, inbox, *, succeeded):
        """Count a failure, unless the inbox expired during a slow request."""
        self.failed += not succeeded and time.monotonic() < inbox.ends_at

    def _since(self, began):
        return began - self._began, time.monotonic() - began

    async def _ask(self, method, path, body=b""):
        async with connected(self._daemon.http_port) as (reader, writer):
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            )
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 2"):
                raise ConnectionError(head)
            return content

    async def _sample(self):
        now = time.monotonic()
        live = sorted(self._live)
        ended = [size for ends_at, size in live if ends_at < now]
        self._live = deque(live[len(ended) :])
        self._live_bytes -= sum(ended)
        file_mib, wal_mib = (os.stat(f"{self._daemon.database}{end}").st_size / MIB for end in ("", "-wal"))  # noqa: PTH116
        self.samples.append(
            Sample(now - self._began, self._daemon.memory_mib("VmRSS"), file_mib, wal_mib, self._live_bytes / MIB)
        )


@asynccontextmanager
async def connected(port):
    """Yield a connection to a port on this machine; it is closed afterwards."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(reader, writer, command):
    """Send a command and return its one-line reply."""
    writer.write(command)
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await reader.readline()


def descriptors(daemon):
    return sum(1 for _ in Path(f"/proc/{daemon.process.pid}/fd").iterdir())


def slope(points):
    """Return the least-squares slope of y over x."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]
