"""All SMTP connections of the process: their limits, their shared state and their metrics."""

import asyncio
import logging
import ssl
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import count
from typing import Any, Protocol

from tmpmaild.clients import belongs, client_name
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.faults import Refusals
from tmpmaild.metrics import Count, Gauge, Histogram, Metric
from tmpmaild.ratelimit import TokenBuckets, changed_buckets
from tmpmaild.smtp import replies
from tmpmaild.smtp.memory import MailMemory
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.settings import SmtpSettings

_DRAIN_SECONDS = 0.002
# When all connections are in use, a connection is asked to close at most once per interval, so the cost is constant.
_CLOSE_IDLE_INTERVAL_SECONDS = 2
# Replies that are sent when the server closes a connection, and replies that ``admit`` has already reported with the
# limit.
_NOT_REPORTED = frozenset({replies.STOPPING, replies.TIMEOUT, replies.TOO_MANY_CONNECTIONS, replies.BLOCKED_CLIENT})

ClientAddress = tuple[str, int]
"""IP address and port."""

refusal_log = logging.getLogger("tmpmaild.smtp.connections")
"""Operators' fail2ban filters contain this name."""


class Connection(Protocol):
    """The protocol object of an open connection; it may be replaced while the first bytes are read."""

    remote_ip: str

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow or does not read, at loop time ``now``."""

    def close_if_idle(self, now: float) -> bool:
        """Close the connection if the client is idle and nothing is in progress; return whether it was closed."""

    def stop(self) -> None:
        """Close the connection, but first reply to any message that is being received or stored."""

    def abort(self) -> None:
        """Close the connection immediately."""


class Connections:
    """All open SMTP connections of the process, and their shared state. ``tls`` may be replaced at any time.

    ``settings`` are changed by ``change_settings``; ``blocks`` are the blocked IP addresses. ``open`` is sorted by
    activity. It maps each connection to the loop time of its last activity or last request to close. ``tasks`` produce
    the pending replies; a task may outlive its connection. ``numbers`` yields session numbers.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None,
        blocks: Blocks,
        refused: Refusals,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tls = tls
        self._blocks = blocks
        self.refused = refused
        self.stopping = False
        self.open: OrderedDict[Connection, float] = OrderedDict()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.per_client: defaultdict[str, int] = defaultdict(int)
        self.memory = MailMemory()
        self.metrics = SmtpMetrics(lambda: len(self.open), lambda: self.memory.held_bytes)
        self._next_drain_at = 0.0
        self.numbers = count(1)
        self._buckets: TokenBuckets | None = None
        self.change_settings(settings)

    def change_settings(self, settings: SmtpSettings) -> None:
        """Apply new settings. Open sessions keep the values that they have announced, such as SIZE."""
        self.settings = settings
        max_bytes = settings.max_inflight_bytes
        self.memory.limit(max_bytes, max(max_bytes // 2, settings.max_message_bytes))
        self._buckets = changed_buckets(self._buckets, TokenBuckets, settings.new_connections_per_minute)
        self._is_exempt = lru_cache(maxsize=4096)(lambda ip: belongs(ip, settings.exempt))

    def admit(self, connection: Connection) -> Reply | None:
        """Count a new connection; return a reply if it must be refused because of a limit."""
        client = client_name(connection.remote_ip)
        self.touch(connection)
        self.per_client[client] += 1
        if self.stopping:  # the connection was accepted before the listeners were closed
            return replies.STOPPING
        if self._blocks.has_any and self._blocks.has_client(connection.remote_ip):
            self.metrics.refused_connections.add("blocked")
            text, reply = "SMTP connection from %s refused: blocked", replies.BLOCKED_CLIENT
            extra = {"event": "smtp_connection_refused", "client": client, "code": reply.status}
            refusal_log.info(text, client, extra=extra)
            return reply
        limit = self._exceeded_limit(connection.remote_ip, client)
        return self._refusal(client, limit) if limit else None

    def admit_proxy(self, connection: Connection) -> Reply | None:
        """Count a trusted proxy's connection, whose client is not known yet; return a reply if it must be refused.

        Only the total limit applies: the other limits apply to the client.
        """
        self.touch(connection)
        if self.stopping:
            return replies.STOPPING
        return None if self._has_room() else self._refusal(connection.remote_ip, "max_connections")

    def _refusal(self, client: str, limit: str) -> Reply:
        """Report that a client is refused because of the limit with this key; return the reply."""
        self.metrics.refused_connections.add(limit)
        text, reply = "SMTP connection from %s refused: smtp.%s is reached", replies.TOO_MANY_CONNECTIONS
        key = f"smtp.{limit}"
        extra = {"event": "smtp_connection_refused", "client": client, "code": reply.status, "limit": key}
        refusal_log.info(text, client, limit, extra=extra)
        return reply

    def _has_room(self) -> bool:
        return not 0 < self.settings.max_connections < len(self.open) or self._make_room()

    def _make_room(self) -> bool:
        """Ask connections to close, starting with the one that has been idle longest, until one closes."""
        now = self.loop.time()
        while now - self.open[longest := next(iter(self.open))] >= _CLOSE_IDLE_INTERVAL_SECONDS:
            if longest.close_if_idle(now):
                return True
            self.touch(longest)
        return False

    def _exceeded_limit(self, remote_ip: str, client: str) -> str:
        """Return the key of the limit that the newest connection exceeds, or ""."""
        if not self._is_exempt(remote_ip):
            if 0 < self.settings.max_connections_per_client < self.per_client[client]:
                return "max_connections_per_client"
            if self._buckets is not None and not self._buckets.take(client, self.loop.time()).allowed:
                return "new_connections_per_minute"
        # The total limit is checked last: a client above its own limit must not displace another client.
        return "" if self._has_room() else "max_connections"

    def touch(self, connection: Connection) -> float:
        """Record that a connection is active; the most recently active connection is the last to be asked to close.

        Return the loop time.
        """
        self.open[connection] = now = self.loop.time()
        self.open.move_to_end(connection)
        return now

    def report(self, remote_ip: str, session: int, refusals: Iterable[tuple[str, Reply]]) -> None:
        """Count, log and record a client's refused commands, each with its reply."""
        for command, reply in refusals:
            self.metrics.count_refusal(reply)
            text = str(reply)
            if reply not in _NOT_REPORTED:
                limit = "smtp.max_inflight_bytes" if reply is replies.MEMORY_FULL else ""
                why = f"{text} ({limit} is reached)" if limit else text
                extra = {
                    "event": "smtp_refused",
                    "client": remote_ip,
                    "session": session,
                    "code": reply.status,
                    "limit": limit,
                }
                refusal_log.info("SMTP from %s refused: %s", remote_ip, why, extra=extra)
            self.refused.add(remote_ip, command, text)

    def forget(self, connection: Connection) -> None:
        """Stop counting a closed connection."""
        client = client_name(connection.remote_ip)
        self.open.pop(connection, None)
        self.per_client[client] -= 1
        if not self.per_client[client]:
            del self.per_client[client]

    def client(self, remote_ip: str) -> str | None:
        """Return the client to which limits apply, or None if the client is exempt."""
        return None if self._is_exempt(remote_ip) else client_name(remote_ip)

    def seconds_to_drain(self) -> float:
        """Return the delay before a session may read more of a discarded message.

        Sessions take turns to read discarded messages, so that they do not starve other sessions.
        """
        now = self.loop.time()
        self._next_drain_at = max(self._next_drain_at, now) + _DRAIN_SECONDS
        return self._next_drain_at - now


class SmtpMetrics:
    """The metrics of all SMTP connections; ``sessions`` returns the number of open connections."""

    def __init__(self, sessions: Callable[[], int], held_bytes: Callable[[], int]) -> None:
        self._mails = Count(
            "smtp_mails_total",
            "Messages received up to the final dot, by result (accepted, refused) and the reply's status code.",
            ("result", "status"),
        )
        self._accepted_bytes = Count("smtp_accepted_bytes_total", "Bytes of accepted messages.")
        self._refusals = Count(
            "smtp_refusals_total", "Negative replies, by code and enhanced status code.", ("code", "status")
        )
        self.refused_connections = Count(
            "smtp_refused_connections_total", "Refused connections, by reason (a limit, or blocked).", ("limit",)
        )
        self._memory = Count(
            "smtp_memory_refusals_total",
            "Messages refused because too much mail was arriving at once, in total or from one client.",
        )
        self._store_seconds = Histogram("smtp_store_seconds", "Time from a message's final dot to the reply.")
        self._gauges = (
            Gauge("smtp_sessions", "Open SMTP connections.", sessions),
            Gauge("smtp_held_bytes", "Bytes of mail in memory that have not been stored yet.", held_bytes),
        )

    def __iter__(self) -> Iterator[Metric]:
        """Yield every metric."""
        counted = (
            self._mails,
            self._accepted_bytes,
            self._refusals,
            self.refused_connections,
            self._memory,
            self._store_seconds,
        )
        return iter((*counted, *self._gauges))

    def count_mail(self, reply: Reply, size_bytes: int = 0, seconds: float = 0.0) -> None:
        """Count a message with the reply to its final dot."""
        self._mails.add("accepted" if reply.is_positive else "refused", reply.enhanced_status)
        if reply.is_positive:
            self._accepted_bytes.add(by=size_bytes)
            self._store_seconds.observe(seconds)

    def count_refusal(self, reply: Reply) -> None:
        """Count a negative reply."""
        self._refusals.add(str(reply.code), reply.enhanced_status)
        if reply is replies.MEMORY_FULL:
            self._memory.add()
