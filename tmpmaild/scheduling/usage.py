"""Ranks clients by the processor time that they have recently used."""

import math
from typing import Final, Protocol

from tmpmaild.clients import client_network

HALF_LIFE_SECONDS: Final = 2.0
"""The half-life of the processor time that a client has used."""

_MAX_REMEMBERED: Final = 4096
_NEGLIGIBLE_SECONDS: Final = 0.001


class Timer(Protocol):
    """The functions of the ``time`` module that are used here."""

    def monotonic(self) -> float:
        """Return a monotonic time in seconds."""

    def thread_time(self) -> float:
        """Return the processor time of the calling thread in seconds."""


class Usage:
    """The processor time that clients and their networks have recently used, with exponential decay.

    A *level* is the base-2 logarithm of the used time plus the clock time, in half-lives, at which it was computed.
    Levels computed at different times can therefore be compared, and a level changes only when a client uses more time.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._levels: dict[tuple[str, str], float] = {}
        self._most = _MAX_REMEMBERED

    def __len__(self) -> int:
        return len(self._levels)

    def charge(self, client: str, seconds: float) -> None:
        """Add processor time to the usage of a client and its network."""
        if seconds <= 0:
            return
        age = self._timer.monotonic() / HALF_LIFE_SECONDS
        for key in (("client", client), ("network", client_network(client))):
            self._levels[key] = math.log2(self._seconds(key, age) + seconds) + age
        if len(self._levels) > self._most:
            self._forget(age)

    def _seconds(self, key: tuple[str, str], age: float) -> float:
        level = self._levels.get(key)
        return 0.0 if level is None else 2.0 ** (level - age)

    def _forget(self, age: float) -> None:
        least = math.log2(_NEGLIGIBLE_SECONDS) + age
        self._levels = {key: level for key, level in self._levels.items() if level > least}
        self._most = max(_MAX_REMEMBERED, 2 * len(self._levels))

    def seconds(self, client: str) -> float:
        """Return the processor time in seconds that a client has recently used."""
        return self._seconds(("client", client), self._timer.monotonic() / HALF_LIFE_SECONDS)

    def rank(self, client: str) -> tuple[float, float]:
        """Return the levels of a client's network and of the client; the client with the lowest rank comes first."""
        return self.network_level(client_network(client)), self.client_level(client)

    def network_level(self, network: str) -> float:
        """Return the level of a network."""
        return self._levels.get(("network", network), -math.inf)

    def client_level(self, client: str) -> float:
        """Return a client's own level."""
        return self._levels.get(("client", client), -math.inf)
