"""A reader of event streams on a connection."""

import json

import anyio

from patience import PATIENCE_SECONDS


class Event:
    """One event of a stream: ``id`` and ``name`` may be None, ``data`` is decoded."""

    def __init__(self, block):
        fields = [line.partition(": ") for line in block.splitlines()]
        values = {name: value for name, _, value in fields}
        assert len(values) == len(fields)
        assert set(values) <= {"id", "event", "data", "retry"}
        self.id = values.get("id")
        self.name = values.get("event")
        self.retry = values.get("retry")
        self.data = json.loads(values["data"]) if "data" in values else None


class Stream:
    """A client that reads events from a socket."""

    def __init__(self, socket):
        self.socket = socket
        self.head = ""
        self.comments = 0
        self._text = ""
        self._octets = b""

    async def open(self):
        while b"\r\n\r\n" not in self._octets:
            self._octets += await self.socket.receive()
        head, _, self._octets = self._octets.partition(b"\r\n\r\n")
        self.head = head.decode()
        return self

    @property
    def status(self):
        return int(self.head.split()[1])

    async def chunk(self):
        """Read one chunk of the body; return None at the end."""
        while b"\r\n" not in self._octets:
            self._octets += await self.socket.receive()
        size, _, self._octets = self._octets.partition(b"\r\n")
        length = int(size, 16)
        while len(self._octets) < length + 2:
            self._octets += await self.socket.receive()
        chunk, self._octets = self._octets[:length], self._octets[length + 2 :]
        return chunk or None

    async def next(self):
        """Read the next event; return None at the end of the stream."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                while "\n\n" not in self._text:
                    chunk = await self.chunk()
                    if chunk is None:
                        assert not self._text
                        return None
                    self._text += chunk.decode()
                block, _, self._text = self._text.partition("\n\n")
                if block.startswith(":"):
                    self.comments += 1
                elif not block.startswith("retry"):
                    return Event(block)

    async def ids(self, count):
        return [(await self.next()).id for _ in range(count)]


async def until(condition):
    with anyio.fail_after(PATIENCE_SECONDS):
        while not condition():
            await anyio.sleep(0.001)
