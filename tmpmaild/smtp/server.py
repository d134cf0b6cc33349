"""Accepts SMTP connections, keeps count of them, and sends them home; what is said on one stands in ``session.py``."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import anyio
from msgspec import Struct

from tmpmaild.inboxes.service import InboxService
from tmpmaild.peers import Networks, belongs, client_name
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.smtp import replies
from tmpmaild.smtp.conversation import Conversation
from tmpmaild.smtp.handler import Handler
from tmpmaild.smtp.memory import Account, Memory
from tmpmaild.smtp.session import SmtpSession

_TICK_SECONDS = 5
# What the kernel may hold of what a client has sent. uvloop reads a full socket up to 32 times in a row before it looks
# at the next one; what fits one read is taken in turns.
_RECEIVE_BUFFER_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.002
# uvloop takes one connection a turn from each listener: behind a crowd an honest client would wait a turn for each.
_LISTENERS_A_SOCKET = 8


class Settings(Struct, frozen=True):
    """The limits of this edge; 0 means no limit for counts and rates."""

    hostname: str
    max_message_bytes: int
    max_connections: int
    max_connections_per_client: int
    new_connections_per_minute: int
    max_unknown_recipients: int
    max_inflight_bytes: int
    exempt: Networks = ()


class SmtpServer:
    """All SMTP connections of the process. ``tls`` may be exchanged while it runs."""

    def __init__(self, service: InboxService, settings: Settings, tls: ssl.SSLContext | None = None) -> None:
        self.handler = Handler(service, self._client)
        self.settings = settings
        self.tls = tls
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[Any]] = set()
        self._sessions: set[SmtpSession] = set()
        self._per_client: Counter[str] = Counter()
        self.memory = Memory(
            settings.max_inflight_bytes, max(settings.max_inflight_bytes // 2, settings.max_message_bytes)
        )
        self._next_drain_at = 0.0
        self._stopping = False
        rate = settings.new_connections_per_minute
        self._buckets = TokenBuckets(rate, rate) if rate else None
        self._is_exempt = lru_cache(maxsize=4096)(lambda ip: belongs(ip, settings.exempt))
        self._listeners: list[asyncio.Server] = []

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that are bound already."""
        for listener in sockets:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            for sock in (listener, *(listener.dup() for _ in range(_LISTENERS_A_SOCKET - 1))):
                self._listeners.append(
                    await self.loop.create_server(lambda: SmtpSession(self), sock=sock, backlog=1024)
                )

    async def watch(self) -> None:
        """Hang up, for ever, on who is idle, trickles or does not read. One timer for all connections."""
        while True:
            await anyio.sleep(_TICK_SECONDS)
            self.hang_up_on_idlers(self.loop.time())

    def hang_up_on_idlers(self, now: float) -> None:
        """End the sessions that have wasted their time, seen from loop time ``now``."""
        for session in list(self._sessions):
            session.watch(now)

    async def stop(self, grace_seconds: float) -> None:
        """Take nobody new, send the idle away, let mail that is coming in have its answer within the grace time."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for session in list(self._sessions):
            session.stop()
        with anyio.move_on_after(grace_seconds):
            while self._sessions or self.tasks:
                await anyio.sleep(0.01)
        for session in list(self._sessions):
            session.abort()

    def new_conversation(self) -> Conversation:
        """Begin the conversation of a new connection."""
        return Conversation(
            self.settings.hostname,
            max_message_bytes=self.settings.max_message_bytes,
            max_unknown_recipients=self.settings.max_unknown_recipients,
            offers_tls=self.tls is not None,
        )

    def seconds_to_drain(self) -> float:
        """Return when a session may read more of a mail that is thrown away: they take turns, all sessions together."""
        now = self.loop.time()
        self._next_drain_at = max(self._next_drain_at, now) + _DRAIN_SECONDS
        return self._next_drain_at - now

    def new_account(self, remote_ip: str) -> Account:
        """Open the account of what a connection holds in memory."""
        return Account(self.memory, self._client(remote_ip))

    def _client(self, remote_ip: str) -> str | None:
        """Return the client that limits are kept for, None for one that is exempt."""
        return None if self._is_exempt(remote_ip) else client_name(remote_ip)

    def admit(self, session: SmtpSession) -> str | None:
        """Count a new connection; return the reply to send it away with, if it is one too many."""
        settings = self.settings
        client = client_name(session.remote_ip)
        self._sessions.add(session)
        self._per_client[client] += 1
        if self._stopping:  # accepted before the listeners closed
            return replies.STOPPING
        if 0 < settings.max_connections < len(self._sessions):
            return replies.TOO_MANY_CONNECTIONS
        if self._is_exempt(session.remote_ip):
            return None
        if 0 < settings.max_connections_per_client < self._per_client[client]:
            return replies.TOO_MANY_CONNECTIONS
        if self._buckets is not None and not self._buckets.take(client, self.loop.time()).allowed:
            return replies.TOO_MANY_CONNECTIONS
        return None

    def forget(self, session: SmtpSession) -> None:
        """Stop counting a connection that is over."""
        client = client_name(session.remote_ip)
        self._sessions.discard(session)
        self._per_client[client] -= 1
        if not self._per_client[client]:
            del self._per_client[client]
