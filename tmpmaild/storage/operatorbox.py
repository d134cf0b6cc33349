"""The operator's inbox (postmaster and abuse): limits for each client, and eviction when it is full.

Each client, and each network, may fill only a share of the inbox, so that there is room for others. If many networks
together fill it nevertheless, the oldest message of the largest sender is deleted to make room for the next message:
mail to postmaster must get through (RFC 5321 §4.5.1). In no other inbox is a message deleted early to make room.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from tmpmaild.clients import client_name, client_network
from tmpmaild.storage.keys import MessageKey

OPERATOR_MAX_MESSAGES: Final = 200
OPERATOR_MAX_BYTES: Final = 50 * 1024 * 1024
CLIENT_SHARE: Final = 0.25
NETWORK_SHARE: Final = 0.5


class Held(NamedTuple):
    """A message in the inbox: its key, the IP address that sent it, and its size as charged."""

    key: MessageKey
    remote_ip: str
    stored_bytes: int

    @property
    def client(self) -> str:
        """The client that sent the message, as limits count clients."""
        return client_name(self.remote_ip)

    @property
    def network(self) -> str:
        """The network of that client."""
        return _network(self.client)


def _network(client: str) -> str:
    return client_network(client) or client


def used_share(held: Sequence[Held]) -> float:
    """Return the share of the inbox that messages use, by number or size, whichever is larger; 1 means full."""
    return max(len(held) / OPERATOR_MAX_MESSAGES, sum(one.stored_bytes for one in held) / OPERATOR_MAX_BYTES)


def _fit(held: Sequence[Held], cost_bytes: int, share: float = 1.0) -> bool:
    return used_share([*held, Held(MessageKey(0), "", cost_bytes)]) <= share


def _largest(held: Iterable[Held], sender: Callable[[Held], Hashable]) -> list[Held]:
    """Return the messages of the sender that uses the most space; a tie goes to the sender of the oldest message."""
    groups: dict[Hashable, list[Held]] = {}
    for one in held:
        groups.setdefault(sender(one), []).append(one)
    return max(groups.values(), key=used_share, default=[])


class OperatorBox:
    """The messages in the operator's inbox, oldest first."""

    def __init__(self, held: Iterable[Held]) -> None:
        self.held = tuple(held)
        self.used_share = used_share(self.held)

    def refuses(self, client: str | None, cost_bytes: int = 1) -> bool:
        """Return whether a message of this size would exceed the share of a client or its network.

        A client of None has no limits. The first message of a client or network may be larger than the share.
        """
        if client is None:
            return False
        network = _network(client)
        of_network = [one for one in self.held if one.network == network]
        of_client = [one for one in of_network if one.client == client]
        return any(
            held and not _fit(held, cost_bytes, share)
            for held, share in ((of_client, CLIENT_SHARE), (of_network, NETWORK_SHARE))
        )

    def giving_way(self, cost_bytes: int) -> list[MessageKey]:
        """Return the keys of the messages to delete to make room for a message of this size.

        Empty if the message fits already, or is larger than the inbox.
        """
        gone: list[MessageKey] = []
        left = list(self.held)
        while left and cost_bytes <= OPERATOR_MAX_BYTES and not _fit(left, cost_bytes):
            oldest = _largest(_largest(left, lambda one: one.network), lambda one: one.client)[0]
            left.remove(oldest)
            gone.append(oldest.key)
        return gone

    def largest_network(self) -> tuple[str, int]:
        """Return the network that uses most of the inbox, and its number of messages."""
        held = _largest(self.held, lambda one: one.network)
        return (held[0].network, len(held)) if held else ("", 0)
