"""The operator's inbox (postmaster and abuse): limits for each client, and eviction when it is full.

Each client and each network may only fill a share of the inbox, so that room remains for other clients. If many
networks together fill the inbox, the oldest message of the largest sender is deleted to make room for the next message:
mail to postmaster must be accepted (RFC 5321 §4.5.1). Messages in other inboxes are never deleted early to make room.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from tmpmaild.clients import client_name, client_network
from tmpmaild.storage.keys import MessageKey

OPERATOR_MAX_MESSAGES: Final = 200
OPERATOR_MAX_BYTES: Final = 50 * 1024 * 1024
CLIENT_SHARE: Final = 0.25
NETWORK_SHARE: Final = 0.5


class Entry(NamedTuple):
    """A message in the inbox: its key, the sending IP address, and the size charged for the message."""

    key: MessageKey
    remote_ip: str
    stored_bytes: int

    @property
    def client(self) -> str:
        """The client that sent the message, in the form used for limits."""
        return client_name(self.remote_ip)

    @property
    def network(self) -> str:
        """The network of the client that sent the message."""
        return _network(self.client)


def _network(client: str) -> str:
    return client_network(client) or client


def used_share(entries: Sequence[Entry]) -> float:
    """Return the used share of the inbox, by message count or by size, whichever is larger; 1 means full."""
    return max(len(entries) / OPERATOR_MAX_MESSAGES, sum(one.stored_bytes for one in entries) / OPERATOR_MAX_BYTES)


def _fit(entries: Sequence[Entry], cost_bytes: int, share: float = 1.0) -> bool:
    return used_share([*entries, Entry(MessageKey(0), "", cost_bytes)]) <= share


def _largest(entries: Iterable[Entry], sender: Callable[[Entry], Hashable]) -> list[Entry]:
    """Return the messages of the sender that uses the most space; in a tie, the sender of the oldest message wins."""
    groups: dict[Hashable, list[Entry]] = {}
    for one in entries:
        groups.setdefault(sender(one), []).append(one)
    return max(groups.values(), key=used_share, default=[])


class OperatorBox:
    """The messages in the operator's inbox, oldest first."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self.used_share = used_share(self.entries)

    def refuses(self, client: str | None, cost_bytes: int = 1) -> bool:
        """Return whether a message of this size would exceed the share of a client or its network.

        If the client is None, there are no limits. The first message of a client or network may be larger than the
        share.
        """
        if client is None:
            return False
        network = _network(client)
        of_network = [one for one in self.entries if one.network == network]
        of_client = [one for one in of_network if one.client == client]
        return any(
            entries and not _fit(entries, cost_bytes, share)
            for entries, share in ((of_client, CLIENT_SHARE), (of_network, NETWORK_SHARE))
        )

    def to_evict(self, cost_bytes: int) -> list[MessageKey]:
        """Return the keys of the messages to delete to make room for a message of this size.

        The result is empty if the message fits without any deletion, or if it is larger than the whole inbox.
        """
        evicted: list[MessageKey] = []
        remaining = list(self.entries)
        while remaining and cost_bytes <= OPERATOR_MAX_BYTES and not _fit(remaining, cost_bytes):
            oldest = _largest(_largest(remaining, lambda one: one.network), lambda one: one.client)[0]
            remaining.remove(oldest)
            evicted.append(oldest.key)
        return evicted

    def largest_network(self) -> tuple[str, int]:
        """Return the network that uses the most space in the inbox, and the number of its messages."""
        entries = _largest(self.entries, lambda one: one.network)
        return (entries[0].network, len(entries)) if entries else ("", 0)
