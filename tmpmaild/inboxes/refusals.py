"""What SMTP clients were refused lately, for testers whose mail did not come. In memory only."""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

_MOST_KEPT = 100
_MAX_COMMAND_CHARACTERS = 400
_KEPT_MS = 3_600_000  # commands name addresses, which live no longer by default


class Refusal(Struct, frozen=True):
    """A command that was refused, with the reply; or how a connection ended without a mail.

    ``client`` is its IP address. A login is never in ``command``.
    """

    at_ms: int
    client: str
    command: str
    reason: str


class Refusals:
    """The newest refusals; none unless ``wanted``, which ``want`` changes."""

    def __init__(self, clock: Callable[[], int], *, wanted: bool) -> None:
        self._clock = clock
        self._kept: deque[Refusal] = deque(maxlen=_MOST_KEPT)
        self.wanted = wanted

    def want(self, *, wanted: bool) -> None:
        """Keep refusals from now on, or drop all that there are."""
        self.wanted = wanted
        if not wanted:
            self._kept.clear()

    def add(self, client: str, command: str, reason: str) -> None:
        """Keep a refusal, if they are wanted."""
        if self.wanted:
            self._kept.append(Refusal(self._clock(), client, command[:_MAX_COMMAND_CHARACTERS], reason))

    def forget_expired(self, now_ms: int) -> None:
        """Drop what is older than an hour."""
        while self._kept and self._kept[0].at_ms <= now_ms - _KEPT_MS:
            self._kept.popleft()

    def newest(self) -> Sequence[Refusal]:
        """Return those that are kept, oldest first."""
        return tuple(self._kept)
