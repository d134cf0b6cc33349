"""The operator's inbox (postmaster and abuse): who may still send to it, and what gives way when it is full.

A client may fill a part of it, and so may all clients of a network, so that others always have room. If many networks
together fill it all the same, the oldest message of the largest sender is deleted for the next one: mail to postmaster
must get through (RFC 5321 §4.5.1). This is the one inbox in which a message may be deleted before its time.
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
    """A message in the inbox: its key, the IP address that sent it, what it is charged."""

    key: MessageKey
    remote_ip: str
    stored_bytes: int

    @property
    def client(self) -> str:
        """The client that sent it, as limits are kept for."""
        return client_name(self.remote_ip)

    @property
    def network(self) -> str:
        """The network of that client."""
        return _network(self.client)


def _network(client: str) -> str:
    return client_network(client) or client


def used_share(held: Sequence[Held]) -> float:
    """Return the part of the inbox that some messages take, by their number or their size: 1 is all of it."""
    return max(len(held) / OPERATOR_MAX_MESSAGES, sum(one.stored_bytes for one in held) / OPERATOR_MAX_BYTES)


def _fit(held: Sequence[Held], cost_bytes: int, share: float = 1.0) -> bool:
    return used_share([*held, Held(MessageKey(0), "", cost_bytes)]) <= share


def _largest(held: Iterable[Held], sender: Callable[[Held], Hashable]) -> list[Held]:
    """Return the messages of the sender that takes most; of equal ones that of the oldest message."""
    groups: dict[Hashable, list[Held]] = {}
    for one in held:
        groups.setdefault(sender(one), []).append(one)
    return max(groups.values(), key=used_share, default=[])


class OperatorBox:
    """What the operator's inbox holds, oldest first."""

    def __init__(self, held: Iterable[Held]) -> None:
        self.held = tuple(held)
        self.used_share = used_share(self.held)

    def refuses(self, client: str | None, cost_bytes: int = 1) -> bool:
        """Return whether the share of a client or of its network is used up; None is a client without limits.

        The first message of each may be larger than the share.
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
        """Return the keys of the messages that must be deleted for one more to fit; none if it never would."""
        gone: list[MessageKey] = []
        left = list(self.held)
        while left and cost_bytes <= OPERATOR_MAX_BYTES and not _fit(left, cost_bytes):
            oldest = _largest(_largest(left, lambda one: one.network), lambda one: one.client)[0]
            left.remove(oldest)
            gone.append(oldest.key)
        return gone

    def largest_network(self) -> tuple[str, int]:
        """Return the network that takes most of the inbox, and how many messages are from it."""
        held = _largest(self.held, lambda one: one.network)
        return (held[0].network, len(held)) if held else ("", 0)
