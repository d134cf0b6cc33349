"""A webhook target on loopback that records requests and sends the responses that a test specifies."""

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple

from patience import PATIENCE_SECONDS

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Told(NamedTuple):
    """A recorded request."""

    line: str
    fields: dict
    body: bytes


class Receiver:
    """The requests that a target has received.

    ``answer`` is the response, or a function that is called with the request and a writer.
    """

    def __init__(self, answer=OK):
        self.answer = answer
        self.told = []
        self.connections = 0
        self._news = asyncio.Event()
        self._serving = set()  # otherwise a handler that waits forever may be garbage-collected during a test

    async def serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.strip().split("\r\n")
            fields = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
            told = Told(line, fields, await reader.readexactly(int(fields["content-length"])))
            self.told.append(told)
            self._news.set()
            if callable(self.answer):
                await self.answer(told, writer)
            else:
                writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def end(self):
        """Cancel all handlers that have not responded yet."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def wait(self, count):
        """Wait until the given number of requests has arrived; return all requests."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told


@asynccontextmanager
async def receiving(answer=OK, *, host="127.0.0.1", port=0, tls=None):
    """Yield a receiver that listens on its ``port``."""
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.end()
