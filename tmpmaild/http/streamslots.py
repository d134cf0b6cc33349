"""Limits how many event streams and waits a client may have open."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tmpmaild.http.problems import BadRequest
from tmpmaild.http.resource import Client


class StreamSlots:
    """The slots in use, by client; exempt clients take none. ``max_per_client`` may be changed; 0 means no limit.

    ``taken`` counts all streams and waits, those of exempt clients too.
    """

    def __init__(self, max_per_client: int) -> None:
        self.max_per_client = max_per_client
        self._taken: Counter[str] = Counter()
        self.taken = 0

    @contextmanager
    def take(self, client: Client) -> Iterator[None]:
        """Hold a slot. Raises ``BadRequest`` ("too-many-streams")."""
        if client.exempt or not self.max_per_client:
            with self._counted():
                yield
            return
        if self._taken[client.name] >= self.max_per_client:
            raise BadRequest("too-many-streams", "")
        self._taken[client.name] += 1
        try:
            with self._counted():
                yield
        finally:
            self._taken[client.name] -= 1
            if not self._taken[client.name]:
                del self._taken[client.name]

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
