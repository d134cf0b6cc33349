"""The hosts of a URL: which is asked, and which takes writes. How to connect to one is in ``connecting.py``."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

import asyncpg

from tmpmaild.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.measures import Count, Gauge, Measure
from tmpmaild.storage.postgresql import connecting
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 2.0
_MISTAKES: Final = (
    *(asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError),
    *(asyncpg.InsufficientPrivilegeError, asyncpg.ClientConfigurationError),
    asyncpg.ProtocolViolationError,  # a pooler that does not know a setting
)
"""What is wrong with the URL rather than with the server."""


class Server:
    """The hosts of a URL, and how to connect to the one that takes writes."""

    def __init__(self, url: DatabaseUrl, password_file: Path | None = None) -> None:
        self.url = url
        self._password_file = password_file
        self._hosts = list(zip(url.hosts, url.ports, strict=True))
        self._turn = asyncio.Lock()
        self._refusal = ""
        self._refused_until = 0.0
        self._timeline = ""
        self._look_at = 0.0
        self._open: set[asyncpg.Connection] = set()
        self._connects = Count("storage_connects_total", "Connections to the database server that were opened.")

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection to the first host that takes writes.

        Raises ``StorageUnavailable`` when there is none now, ``DatabaseError`` when the server cannot be used. After a
        refusal no host is asked for ``_PAUSE_SECONDS``: the next ones are refused at once.
        """
        async with self._turn:
            if time.monotonic() < self._refused_until:
                raise StorageUnavailable(self._refusal)
            try:
                connection = await self._connect_to_first()
            except StorageUnavailable as error:
                self._refusal, self._refused_until = str(error), time.monotonic() + _PAUSE_SECONDS
                raise
        self._open = {one for one in self._open if not one.is_closed()} | {connection}
        self._connects.add()
        return connection

    def look_elsewhere(self) -> bool:
        """Begin with another host the next time; False if there is none, or if that was done a moment ago."""
        if len(self._hosts) == 1 or time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._hosts.append(self._hosts.pop(0))
        return True

    def terminate_all(self) -> None:
        """Close all connections at once: the host is silent. What waits for an answer fails."""
        for connection in self._open:
            connection.terminate()

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        open_now = Gauge("storage_connections", "Open connections to the database server.", self._count_open)
        return (open_now, self._connects)

    def _count_open(self) -> int:
        return sum(not one.is_closed() for one in self._open)

    async def _connect_to_first(self) -> asyncpg.Connection:
        password = await connecting.read_password(self.url, self._password_file)
        await connecting.check_files(self.url)
        reasons = []
        mistake: Exception | None = None
        for host, port in list(self._hosts):
            try:
                connection = await self._connect(host, port, password)
            except FAILURES as error:
                mistake = error if isinstance(error, _MISTAKES) else mistake
                reasons.append(f"{host}: {reason(error)}")
            else:
                if connection is not None:
                    return connection
                reasons.append(f"{host}: it takes no writes, or was the primary once")
            # The next connection begins with another host: this one may cost the time to wait for it.
            self._hosts.append(self._hosts.pop(self._hosts.index((host, port))))
        if mistake is not None:
            raise DatabaseError(f"{self.url}: {'; '.join(reasons)}") from mistake
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; None if it is not the primary."""
        connected = await connecting.connect(self.url, host, port, password)
        if connected is None:
            return None
        connection, timeline = connected
        if not self._is_newest(timeline):
            await connecting.close(connection)
            return None
        return connection

    def _is_newest(self, timeline: str) -> bool:
        """Return whether a primary has not been replaced by another one: each promotion begins a newer timeline."""
        if timeline < self._timeline:
            log.error("a primary of an older timeline is left alone: %s; stop it", self.url)
            return False
        if timeline > self._timeline:
            self.terminate_all()  # what is still connected is so to the primary before
        self._timeline = timeline
        return True
