"""Faults that testers configure for their own addresses: which delivery steps fail, and how often.

Faults are stored only in memory.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import InvalidRequest
from tmpmaild.model import ExpiryMoved, Inbox, InboxChange, InboxDeleted

MAX_FAULTS = 10
"""The limit per address."""
_MAX_INBOXES = 2000
_MAX_REFUSALS = 100
_MAX_COMMAND_CHARACTERS = 400
_RETENTION_MS = 3_600_000  # commands contain addresses, and the default lifetime of an address is one hour

Step = Literal["rcpt", "data", "end"]
"""The step that fails: RCPT, DATA or the final dot."""


class Fault(Struct, frozen=True):
    """Delays the next ``times`` attempts at a delivery step, and then refuses them if there is a ``reply``.

    ``reply`` consists of a reply code from 400 to 599 and the reply text.
    """

    at: Step
    reply: str | None = None
    times: int = 1
    delay_seconds: float = 0


class _Ordered(Struct):
    expires_at_ms: int
    faults: list[Fault]


class Faults:
    """The faults of all inboxes. No faults can be configured unless ``allowed`` is true.

    Each fault occurs exactly as often as configured, even during concurrent deliveries, because ``take`` never awaits
    and is never called from other threads.
    """

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.ordered: dict[str, _Ordered] = {}

    def __len__(self) -> int:
        return len(self.ordered)

    def allow(self, *, allowed: bool) -> None:
        """Allow faults from now on, or forbid them and drop all existing faults."""
        self.allowed = allowed
        if not allowed:
            self.ordered.clear()

    def ensure_possible(self, faults: Sequence[Fault], inbox_id: str = "") -> None:
        """Raise ``InvalidRequest`` if these faults cannot be set for an existing or new inbox."""
        if not faults:
            return
        if not self.allowed:
            raise InvalidRequest(("/faults", "expected no faults: this server does not allow them (smtp.faults)"))
        if len(self.ordered) >= _MAX_INBOXES and inbox_id not in self.ordered:
            raise InvalidRequest(
                ("/faults", f"expected no faults: {_MAX_INBOXES} addresses already have faults, the maximum")
            )
        idle = [index for index, one in enumerate(faults) if one.reply is None and not one.delay_seconds]
        if idle:
            raise InvalidRequest(*[(f"/faults/{index}", "expected a reply, a delay or both") for index in idle])

    def order(self, inbox: Inbox, faults: Sequence[Fault]) -> None:
        """Replace the faults of an inbox."""
        if faults and self.allowed:
            self.ordered[inbox.id] = _Ordered(inbox.expires_at_ms, list(faults))
        else:
            self.ordered.pop(inbox.id, None)

    def remaining(self, inbox_id: str) -> Sequence[Fault]:
        """Return an inbox's pending faults, each with its number of remaining occurrences."""
        ordered = self.ordered.get(inbox_id)
        return tuple(ordered.faults) if ordered else ()

    def has(self, inbox_ids: Iterable[object], step: Step) -> bool:
        """Return whether ``take`` would return a fault."""
        return self._find(inbox_ids, step) is not None

    def take(self, inbox_ids: Iterable[object], step: Step) -> Fault | None:
        """Return the first fault of these inboxes at this step and decrement its count; None if there is no fault."""
        found = self._find(inbox_ids, step)
        if found is None:
            return None
        inbox_id, index = found
        faults = self.ordered[inbox_id].faults
        fault = faults[index]
        faults[index : index + 1] = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
        if not faults:
            del self.ordered[inbox_id]
        return fault

    def _find(self, inbox_ids: Iterable[object], step: Step) -> tuple[str, int] | None:
        for inbox_id in inbox_ids:
            ordered = self.ordered.get(inbox_id) if isinstance(inbox_id, str) else None
            for index, fault in enumerate(ordered.faults if ordered else ()):
                if fault.at == step:
                    return str(inbox_id), index
        return None

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the faults of deleted inboxes, and update the expiry of inboxes whose expiry has changed."""
        for change in changes:
            if isinstance(change.notice, InboxDeleted):
                self.ordered.pop(change.inbox_id, None)
            elif isinstance(change.notice, ExpiryMoved) and change.inbox_id in self.ordered:
                self.ordered[change.inbox_id].expires_at_ms = change.notice.expires_at_ms

    def forget_expired(self, now_ms: int) -> None:
        """Drop the faults of inboxes that have expired."""
        for inbox_id in [key for key, ordered in self.ordered.items() if ordered.expires_at_ms <= now_ms]:
            del self.ordered[inbox_id]


class Refusal(Struct, frozen=True):
    """A refused command and its reply, or the reason why a connection ended without a message.

    ``client`` is an IP address. ``command`` never contains credentials.
    """

    at_ms: int
    client: str
    command: str
    reason: str


class Refusals:
    """The newest refusals. They are recorded only while ``wanted`` is true; ``want`` changes this."""

    def __init__(self, clock: Callable[[], int], *, wanted: bool) -> None:
        self._clock = clock
        self._refusals: deque[Refusal] = deque(maxlen=_MAX_REFUSALS)
        self.wanted = wanted

    def want(self, *, wanted: bool) -> None:
        """Start recording refusals, or stop recording them and drop all recorded refusals."""
        self.wanted = wanted
        if not wanted:
            self._refusals.clear()

    def add(self, client: str, command: str, reason: str) -> None:
        """Record a refusal if recording is on."""
        if self.wanted:
            self._refusals.append(Refusal(self._clock(), client, command[:_MAX_COMMAND_CHARACTERS], reason))

    def forget_expired(self, now_ms: int) -> None:
        """Drop refusals that are older than an hour."""
        while self._refusals and self._refusals[0].at_ms <= now_ms - _RETENTION_MS:
            self._refusals.popleft()

    def newest(self) -> Sequence[Refusal]:
        """Return the recorded refusals, oldest first."""
        return tuple(self._refusals)
