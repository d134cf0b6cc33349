"""Limits on SMTP connections, and what all of them share: counts, memory and the TLS context. No I/O."""

import asyncio
import logging
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct

from tmpmaild.inboxes.refusals import Refusals
from tmpmaild.peers import Networks, belongs, client_name
from tmpmaild.ratelimit import TokenBuckets, changed_buckets
from tmpmaild.smtp import replies
from tmpmaild.smtp.bounds import Account, Memory, UnknownRecipients
from tmpmaild.smtp.conversation import Conversation
from tmpmaild.smtp.measures import SmtpMeasures
from tmpmaild.smtp.replies import Reply

_DRAIN_SECONDS = 0.002
# When places run out, a connection is asked to give way at most once in this time; so asking costs a constant.
_ASK_SECONDS = 2
# What the server closes by itself, and what ``admit`` has reported with the name of the limit.
_NOT_REPORTED = frozenset({replies.STOPPING, replies.TIMEOUT, replies.TOO_MANY_CONNECTIONS, replies.BLOCKED_CLIENT})

log = logging.getLogger(__name__)


class SmtpSettings(Struct, frozen=True, kw_only=True):
    """The name of this server and its limits; 0 means no limit for counts and rates. Those with a number are fixed."""

    hostname: str
    max_message_bytes: int
    max_connections: int
    max_connections_per_client: int
    new_connections_per_minute: int = 600
    max_unknown_recipients: int = 100
    unknown_recipients_per_minute: int = 60
    unknown_recipients_burst: int = 600
    max_inflight_bytes: int
    offers_auth: bool = False
    exempt: Networks = ()
    trusted_proxies: Networks = ()


class Connection(Protocol):
    """What the server needs of an open connection; ``session.py`` has the class."""

    remote_ip: str

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow or does not read, at loop time ``now``."""

    def give_way(self, now: float) -> bool:
        """Close the connection if it has been idle for a while at loop time ``now``; return whether it does so."""

    def stop(self) -> None:
        """Close the connection once the answer to a mail is sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class Connections:
    """All open SMTP connections of the process, and what they share. ``tls`` may be replaced at any time.

    ``settings`` are changed by ``change_settings``; ``is_blocked`` tells which IP addresses are refused.
    ``open`` has them in the order of their activity, each with the loop time of it, or of being asked to give way.
    ``tasks`` are the answers that are being worked on; some may outlive their connection.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None = None,
        is_blocked: Callable[[str], bool] = lambda _: False,
        refused: Refusals | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tls = tls
        self._is_blocked = is_blocked
        self.refused = refused or Refusals(lambda: 0, wanted=False)
        self.stopping = False
        self.open: OrderedDict[Connection, float] = OrderedDict()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.per_client: Counter[str] = Counter()
        self.memory = Memory()
        self.unknown = UnknownRecipients(self.loop.time)
        self.measures = SmtpMeasures(lambda: len(self.open), lambda: self.memory.held_bytes)
        self._next_drain_at = 0.0
        self._buckets: TokenBuckets | None = None
        self.change_settings(settings)

    def change_settings(self, settings: SmtpSettings) -> None:
        """Go by other settings. What an open session was told, such as the SIZE, stays as it is."""
        self.settings = settings
        max_bytes = settings.max_inflight_bytes
        self.memory.limit(max_bytes, max(max_bytes // 2, settings.max_message_bytes))
        self._buckets = changed_buckets(self._buckets, TokenBuckets, settings.new_connections_per_minute)
        self.unknown.limit(settings.unknown_recipients_per_minute, settings.unknown_recipients_burst)
        self._is_exempt = lru_cache(maxsize=4096)(lambda ip: belongs(ip, settings.exempt))

    def admit(self, connection: Connection) -> Reply | None:
        """Count a new connection; return the reply that refuses it if it is over a limit."""
        client = client_name(connection.remote_ip)
        self.touch(connection)
        self.per_client[client] += 1
        if self.stopping:  # accepted before the listeners closed
            return replies.STOPPING
        if self._is_blocked(connection.remote_ip):
            self.measures.count_refused_connection("blocked")
            log.info("SMTP connection from %s refused: blocked", client)
            return replies.BLOCKED_CLIENT
        limit = self._exceeded_limit(connection.remote_ip, client)
        return self._refusal(client, limit) if limit else None

    def admit_proxy(self, connection: Connection) -> Reply | None:
        """Count a trusted proxy's connection, whose client is not known yet; return the reply that refuses it.

        Only the limit in all can: the others are for the client.
        """
        self.touch(connection)
        if self.stopping:
            return replies.STOPPING
        return None if self._has_place() else self._refusal(connection.remote_ip, "max_connections")

    def _refusal(self, client: str, limit: str) -> Reply:
        """Report that a limit, named by its key, refuses a client; return the reply."""
        self.measures.count_refused_connection(limit)
        log.info("SMTP connection from %s refused: smtp.%s is reached", client, limit)
        return replies.TOO_MANY_CONNECTIONS

    def _has_place(self) -> bool:
        return not 0 < self.settings.max_connections < len(self.open) or self._free_a_place()

    def _free_a_place(self) -> bool:
        """Ask those that have been silent longest to give way, until one does."""
        now = self.loop.time()
        while now - self.open[longest := next(iter(self.open))] >= _ASK_SECONDS:
            if longest.give_way(now):
                return True
            self.touch(longest)
        return False

    def _exceeded_limit(self, remote_ip: str, client: str) -> str:
        """Return the key of the limit that the newest connection exceeds, or ""."""
        # The limit in all comes last: a client above a limit of its own must not cost another client its place.
        return self._exceeded_own_limit(remote_ip, client) or ("" if self._has_place() else "max_connections")

    def _exceeded_own_limit(self, remote_ip: str, client: str) -> str:
        if self._is_exempt(remote_ip):
            return ""
        if 0 < self.settings.max_connections_per_client < self.per_client[client]:
            return "max_connections_per_client"
        if self._buckets is not None and not self._buckets.take(client, self.loop.time()).allowed:
            return "new_connections_per_minute"
        return ""

    def touch(self, connection: Connection) -> float:
        """Note that a connection is active: it is the last to give way when places run out. Return the loop time."""
        self.open[connection] = now = self.loop.time()
        self.open.move_to_end(connection)
        return now

    def report(self, remote_ip: str, refusals: Iterable[tuple[str, Reply]]) -> None:
        """Count, log and keep what a client was refused, by its IP address: commands and replies."""
        for command, reply in refusals:
            self.measures.count_refusal(reply)
            text = str(reply)
            if reply is replies.MEMORY_FULL:
                log.info("SMTP from %s refused: %s (smtp.max_inflight_bytes is reached)", remote_ip, text)
            elif reply not in _NOT_REPORTED:
                log.info("SMTP from %s refused: %s", remote_ip, text)
            self.refused.add(remote_ip, command, text)

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection that was closed."""
        client = client_name(connection.remote_ip)
        self.open.pop(connection, None)
        self.per_client[client] -= 1
        if not self.per_client[client]:
            del self.per_client[client]

    def client(self, remote_ip: str) -> str | None:
        """Return the client that limits are kept for, None for one that is exempt."""
        return None if self._is_exempt(remote_ip) else client_name(remote_ip)

    def new_account(self, remote_ip: str) -> Account:
        """Open the account of what a connection holds in memory."""
        return Account(self.memory, self.client(remote_ip))

    def new_conversation(self) -> Conversation:
        """Begin the conversation of a new connection."""
        return Conversation(
            self.settings.hostname,
            max_message_bytes=self.settings.max_message_bytes,
            max_unknown_recipients=self.settings.max_unknown_recipients,
            offers_tls=self.tls is not None,
            offers_auth=self.settings.offers_auth,
        )

    def seconds_to_drain(self) -> float:
        """Return the delay before a session may read more of a discarded mail.

        All sessions read such mail in turns, so that it cannot starve the others.
        """
        now = self.loop.time()
        self._next_drain_at = max(self._next_drain_at, now) + _DRAIN_SECONDS
        return self._next_drain_at - now
