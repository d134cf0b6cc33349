"""Fair scheduling: threads (CPU time) and places (memory) are given to clients in turn, not first come, first served.

The work itself is not described here. A daemon has one ``FairScheduler``.
"""

import asyncio
import heapq
import logging
import math
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from tmpmaild.clients import client_network
from tmpmaild.metrics import Histogram, Metric

LIGHT_BYTES: Final = 80 * 1024
"""Work on an input up to this size is light. Work that takes less time for each byte counts fewer bytes."""

HALF_LIFE_SECONDS: Final = 2.0
"""After this time half of the CPU time that a client has used is forgotten."""

LITTLE_SECONDS: Final = 0.25
"""A client that has used at most this CPU time lately may use the thread that is kept for light work."""

PATIENCE_SECONDS: Final = 1.0
"""Every other turn goes to the client that has waited longest, if it has waited longer than this."""

GRACE_SECONDS: Final = 0.25
"""How far a holder of several places may be behind ``PACE_BYTES_PER_SECOND`` while others wait for one."""

LONE_GRACE_SECONDS: Final = 5.0
"""The same for a client that holds no more places than the client that waits would."""

PACE_BYTES_PER_SECOND: Final = 400 * 1024

_MOST_REMEMBERED: Final = 4096
_NEGLIGIBLE_SECONDS: Final = 0.001
_LEAST_PAUSE_SECONDS: Final = 0.01
_LEAST_ENTRIES: Final = 64
_EXEMPT: Final = "exempt"
_ORDINARY: Final = "ordinary"

N = TypeVar("N")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

log = logging.getLogger(__name__)

_client: ContextVar[str] = ContextVar("client", default="")


@contextmanager
def on_behalf_of(client: str) -> Iterator[None]:
    """Within this block, this task and the tasks that it starts work on behalf of a client."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


def current_client() -> str:
    """Return the client on whose behalf this task works; "" outside of ``on_behalf_of``."""
    return _client.get()


class Usage:
    """The CPU time that clients and their networks have used lately; it decays exponentially.

    A *level* is the base-2 logarithm of a time, plus the half-lives that had passed when it was used. So levels of
    different moments can be compared, and change only when a client uses more.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._levels: dict[tuple[str, str], float] = {}
        self._most = _MOST_REMEMBERED

    def charge(self, client: str, seconds: float) -> None:
        """Add CPU time."""
        if seconds <= 0:
            return
        age = self._clock() / HALF_LIFE_SECONDS
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
        self._most = max(_MOST_REMEMBERED, 2 * len(self._levels))

    def seconds(self, client: str) -> float:
        """Return the CPU time that a client has used lately."""
        return self._seconds(("client", client), self._clock() / HALF_LIFE_SECONDS)

    def rank(self, client: str) -> tuple[float, float]:
        """Return the level of a client's network and its own: the smallest is served first."""
        return self.network_level(client_network(client)), self.client_level(client)

    def network_level(self, network: str) -> float:
        """Return the level of a network."""
        return self._levels.get(("network", network), -math.inf)

    def client_level(self, client: str) -> float:
        """Return a client's own level."""
        return self._levels.get(("client", client), -math.inf)


class _Waiting(Generic[T]):
    """Somebody in a line; ``granted`` is done with what they get."""

    __slots__ = ("granted", "heavy_place", "line")

    def __init__(self, line: "_Line[T]", heavy_place: "HeavyPlace | None") -> None:
        self.line = line
        self.heavy_place = heavy_place
        self.granted: asyncio.Future[T] = asyncio.get_running_loop().create_future()


class _Line(Generic[T]):
    """Those of one client that wait for the same kind of thing, in order of arrival."""

    __slots__ = ("client", "kind", "number", "since", "waiting")

    def __init__(self, client: str, kind: str, since: float, number: int) -> None:
        self.client = client
        self.kind = kind
        self.since = since  # when it began, or was served last
        self.number = number
        self.waiting: OrderedDict[_Waiting[T], None] = OrderedDict()


class _Order(Generic[N]):
    """A heap by keys that only grow: a member whose key has grown is moved when it comes to the top."""

    def __init__(self, key: Callable[[N], float], is_gone: Callable[[N], bool]) -> None:
        self._key = key
        self._is_gone = is_gone
        self._entries: list[tuple[float, int, N]] = []
        self._most = _LEAST_ENTRIES

    def add(self, member: N, number: int) -> None:
        """Add a member, after those that have the same key and lower numbers."""
        if len(self._entries) >= self._most:  # those that are gone stay until they come to the top
            self._entries = [entry for entry in self._entries if not self._is_gone(entry[2])]
            heapq.heapify(self._entries)
            self._most = max(_LEAST_ENTRIES, 2 * len(self._entries))
        heapq.heappush(self._entries, (self._key(member), number, member))

    def first(self, found: Callable[[N], R | None]) -> R | None:
        """Return what ``found`` returns for the first member for which it returns anything."""
        passed, result = [], None
        while self._entries and result is None:
            key, number, member = self._entries[0]
            if self._is_gone(member):
                heapq.heappop(self._entries)
            elif (grown := self._key(member)) > key:
                heapq.heapreplace(self._entries, (grown, number, member))
            else:
                result = found(member)
                passed.append(heapq.heappop(self._entries))
        for entry in passed:
            heapq.heappush(self._entries, entry)
        return result


class _Network(Generic[T]):
    """The lines of one network for the same kind of thing."""

    __slots__ = ("by_age", "by_usage", "lines", "name", "number")

    def __init__(self, name: str, number: int, level: Callable[["_Line[T]"], float]) -> None:
        self.name = name
        self.number = number
        self.lines: dict[str, _Line[T]] = {}
        self.by_usage = _Order[_Line[T]](level, self._is_gone)
        self.by_age = _Order[_Line[T]](_since, self._is_gone)

    def _is_gone(self, line: "_Line[T]") -> bool:
        return self.lines.get(line.client) is not line

    def since(self) -> float:
        """Return since when the line waits that waits longest."""
        return self.by_age.first(_since) or 0.0


def _since(line: _Line[Any]) -> float:
    return line.since


class May(NamedTuple):
    """Which lines of a kind may be served."""

    network: Callable[[str], bool] = lambda _network: True
    client: Callable[[str], bool] = lambda _client: True


class _Lines(Generic[T]):
    """The lines for one kind of thing. None of them is looked at that need not be: thousands of clients may wait."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._networks: dict[str, _Network[T]] = {}
        self._by_usage = _Order[_Network[T]](lambda network: usage.network_level(network.name), self._is_gone)
        self._by_age = _Order[_Network[T]](lambda network: network.since(), self._is_gone)

    def _is_gone(self, network: _Network[T]) -> bool:
        return self._networks.get(network.name) is not network

    def get(self, client: str) -> _Line[T] | None:
        """Return a client's line."""
        network = self._networks.get(client_network(client))
        return network.lines.get(client) if network is not None else None

    def add(self, line: _Line[T]) -> None:
        """Add a line."""
        name = client_network(line.client)
        network = self._networks.get(name)
        is_new = network is None
        if network is None:
            network = self._networks[name] = _Network(
                name, line.number, lambda line: self._usage.client_level(line.client)
            )
        network.lines[line.client] = line
        network.by_usage.add(line, line.number)
        network.by_age.add(line, line.number)
        if is_new:  # only now, as its key needs its line
            self._by_usage.add(network, network.number)
            self._by_age.add(network, network.number)

    def remove(self, line: _Line[T]) -> None:
        """Remove a line, if it is still there."""
        name = client_network(line.client)
        network = self._networks.get(name)
        if network is not None and network.lines.get(line.client) is line:
            del network.lines[line.client]
            if not network.lines:
                del self._networks[name]

    def first(self, may: May, *, by_age: bool) -> _Line[T] | None:
        """Return the first line that may be served: that of who has used least, or has waited longest."""

        def of(network: _Network[T]) -> _Line[T] | None:
            lines = network.by_age if by_age else network.by_usage
            return (
                lines.first(lambda line: line if may.client(line.client) else None)
                if may.network(network.name)
                else None
            )

        return (self._by_age if by_age else self._by_usage).first(of)


class FairQueue(Generic[T]):
    """Waiting clients, each with a line for each kind of thing.

    The client whose network has used the least CPU time lately is first; within a network, the client that has used
    the least. Every other turn goes to the client that has waited longest, if it has waited longer than
    ``PATIENCE_SECONDS``: otherwise a client with a new address for each request would always be before it.
    """

    def __init__(self, usage: Usage, clock: Callable[[], float]) -> None:
        self._usage = usage
        self._clock = clock
        self._kinds: defaultdict[str, _Lines[T]] = defaultdict(lambda: _Lines(usage))
        self._begun = 0
        self._length = 0
        self._is_for_longest = False

    def __len__(self) -> int:
        return self._length

    async def wait(
        self,
        client: str,
        kind: str,
        *,
        joined: Callable[[], None],
        give_back: Callable[[T], None],
        heavy_place: "HeavyPlace | None" = None,
    ) -> T:
        """Wait in a client's line; return what ``next`` was told to give.

        ``joined`` is called at once, ``give_back`` if this is cancelled when something has been given already.
        """
        waiting = self._join(client, kind, heavy_place)
        joined()
        try:
            return await waiting.granted
        except BaseException:
            self._leave(waiting)
            if waiting.granted.done() and not waiting.granted.cancelled():
                give_back(waiting.granted.result())
            else:
                joined()  # others may be able to go on now
            raise

    def _join(self, client: str, kind: str, heavy_place: "HeavyPlace | None") -> _Waiting[T]:
        lines = self._kinds[kind]
        line = lines.get(client)
        if line is None:
            self._begun += 1
            line = _Line(client, kind, self._clock(), self._begun)
            lines.add(line)
        waiting = _Waiting(line, heavy_place)
        line.waiting[waiting] = None
        self._length += 1
        return waiting

    def _leave(self, waiting: _Waiting[T]) -> None:
        line = waiting.line
        if waiting in line.waiting:
            del line.waiting[waiting]
            self._length -= 1
            if not line.waiting:
                self._kinds[line.kind].remove(line)

    def first(self, may: Mapping[str, May]) -> _Waiting[T] | None:
        """Return who is first among the lines that ``may`` be served, by their kinds; None if there is nobody."""
        line = self._first_line(may, by_age=False)
        if line is not None and self._is_for_longest:
            longest = self._first_line(may, by_age=True)
            if longest is not None and self._clock() - longest.since > PATIENCE_SECONDS:
                line = longest
        return None if line is None else next(iter(line.waiting))

    def _first_line(self, may: Mapping[str, May], *, by_age: bool) -> _Line[T] | None:
        lines = [line for kind, of_kind in may.items() if (line := self._kinds[kind].first(of_kind, by_age=by_age))]
        if by_age:
            return min(lines, key=lambda line: (line.since, line.number), default=None)
        return min(lines, key=lambda line: (*self._usage.rank(line.client), line.number), default=None)

    def next(self, may: Mapping[str, May]) -> _Waiting[T] | None:
        """Remove who is ``first``; the caller completes ``granted``."""
        while (waiting := self.first(may)) is not None:
            waiting.line.since = self._clock()
            self._leave(waiting)
            if not waiting.granted.done():  # it may have been cancelled a moment ago
                self._is_for_longest = not self._is_for_longest
                return waiting
        return None


class RoundRobin(Generic[T]):
    """What waits for each client: networks take turns, and in them their clients. It charges nobody."""

    def __init__(self) -> None:
        self._networks: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._networks)

    def append(self, client: str, item: T) -> None:
        """Add something behind all else of its client."""
        self._of(client).append(item)

    def put_back(self, client: str, item: T) -> None:
        """Add something that comes before all else, as it was taken already."""
        self._of(client).appendleft(item)
        network = client_network(client)
        self._networks[network].move_to_end(client, last=False)
        self._networks.move_to_end(network, last=False)

    def _of(self, client: str) -> deque[T]:
        return self._networks.setdefault(client_network(client), OrderedDict()).setdefault(client, deque())

    def popleft(self) -> T:
        """Remove what comes first, and return it."""
        network, clients = next(iter(self._networks.items()))
        client, items = next(iter(clients.items()))
        item = items.popleft()
        if items:
            clients.move_to_end(client)
        else:
            del clients[client]
        if clients:
            self._networks.move_to_end(network)
        else:
            del self._networks[network]
        return item


class FairSemaphore:
    """Lets so many at a time into its block, as ``asyncio.Semaphore`` does, but clients that wait take turns."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting = RoundRobin[asyncio.Future[None]]()

    async def __aenter__(self) -> None:
        if self._free:  # nobody waits
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(current_client(), granted)
        try:
            await granted
        except BaseException:
            granted.cancel()  # nothing, if it was granted a moment ago
            if not granted.cancelled():
                self._give_back()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():  # it may have been cancelled
                granted.set_result(None)
                return
        self._free += 1


class HeavyPlace:
    """Memory for an input that is copied several times; it is taken together with a turn, until the block ends."""

    def __init__(self, leave: "Callable[[HeavyPlace], None]") -> None:
        self._leave = leave

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(self)


class Turn:
    """A thread that belongs to a client for the time of a block."""

    def __init__(
        self, charge: Callable[[float], None], cpu_seconds: Callable[[], float], limiter: anyio.CapacityLimiter
    ) -> None:
        self._charge = charge
        self._cpu_seconds = cpu_seconds
        self._limiter = limiter

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call a function in the thread, and charge its CPU time to the client."""
        used_seconds = 0.0

        def measured() -> T:
            nonlocal used_seconds
            begun = self._cpu_seconds()
            try:
                return function(*args)
            finally:
                used_seconds = self._cpu_seconds() - begun

        try:
            return await anyio.to_thread.run_sync(measured, limiter=self._limiter)
        finally:
            self._charge(used_seconds)


class _Thread(Enum):
    ANY = auto()
    LIGHT = auto()


class FairScheduler:
    """Gives threads to clients in turn.

    There are two threads, as Python code runs in one thread at a time anyway. One takes any work; the other is kept for
    light work of clients that have used little lately, so that they never wait for the end of large work. A client
    that is alone gets all turns.

    ``clock`` returns monotonic seconds, ``cpu_seconds`` the CPU time of the thread that calls it.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_seconds: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self.usage = Usage(clock)
        self._queue = FairQueue[_Thread](self.usage, clock)
        self._limiter = anyio.CapacityLimiter(len(_Thread))
        self._free = set(_Thread)
        self._heavy_place: HeavyPlace | None = None
        self._waited = Histogram("turn_wait_seconds", "How long work waited for its turn.")

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (self._waited,)

    def heavy_place(self) -> HeavyPlace:
        """Return a place, to be entered, for an input of which only one may be in memory at a time."""
        return HeavyPlace(self._leave_heavy_place)

    def _leave_heavy_place(self, place: HeavyPlace) -> None:
        if self._heavy_place is place:
            self._heavy_place = None
            self._dispatch()

    async def run(
        self,
        function: Callable[[*Ts], T],
        *args: *Ts,
        work_bytes: int,
        client: str | None = None,
        heavy_place: HeavyPlace | None = None,
    ) -> T:
        """Call a function in a turn of its own; the other arguments are those of ``turn``."""
        async with self.turn(work_bytes, client, heavy_place) as turn:
            return await turn.run(function, *args)

    @asynccontextmanager
    async def turn(
        self, work_bytes: int, client: str | None = None, heavy_place: HeavyPlace | None = None
    ) -> AsyncIterator[Turn]:
        """Wait for a turn, which lasts until the block ends.

        ``work_bytes`` is the size of the input. ``client`` is the client on whose behalf the work is done, by default
        the current one. With ``heavy_place`` the turn begins only when that is taken too.
        """
        owner, begun = current_client() if client is None else client, self._clock()
        kind = "heavy" if heavy_place else "light" if work_bytes <= LIGHT_BYTES else "large"
        thread = self._take_free(owner, kind, heavy_place)
        if thread is None:
            thread = await self._queue.wait(
                owner, kind, joined=self._dispatch, give_back=self._give_back, heavy_place=heavy_place
            )
        self._waited.observe(self._clock() - begun)
        try:
            yield Turn(partial(self.usage.charge, owner), self._cpu_seconds, self._limiter)
        finally:
            self._give_back(thread)

    def _take_free(self, client: str, kind: str, heavy_place: HeavyPlace | None) -> _Thread | None:
        """Return a thread that may be used at once; None if somebody waits, or if this must wait."""
        if len(self._queue) or not self._free:
            return None
        if _Thread.ANY in self._free and not (heavy_place and self._heavy_place):
            thread = _Thread.ANY
        elif _Thread.LIGHT in self._free and kind == "light" and self.usage.seconds(client) <= LITTLE_SECONDS:
            thread = _Thread.LIGHT
        else:
            return None
        self._free.remove(thread)
        self._heavy_place = heavy_place or self._heavy_place
        return thread

    def _give_back(self, thread: _Thread) -> None:
        self._free.add(thread)
        if len(self._queue):
            self._dispatch()

    def _dispatch(self) -> None:
        for thread, may in ((_Thread.ANY, self._may_use_any), (_Thread.LIGHT, self._may_use_light)):
            if thread in self._free and (waiting := self._queue.next(may())) is not None:
                self._free.remove(thread)
                self._heavy_place = waiting.heavy_place or self._heavy_place
                waiting.granted.set_result(thread)

    def _may_use_any(self) -> dict[str, May]:
        return dict.fromkeys(("light", "large") if self._heavy_place else ("light", "large", "heavy"), May())

    def _may_use_light(self) -> dict[str, May]:
        return {"light": May(client=lambda client: self.usage.seconds(client) <= LITTLE_SECONDS)}


class Place:
    """A place that a client holds. ``scope`` is cancelled if the client must give it up while it is sent to."""

    def __init__(self, client: str, clock: Callable[[], float], *, exempt: bool) -> None:
        self.client = client
        self.exempt = exempt
        self.scope = anyio.CancelScope()
        self._clock = clock
        self._sending_seconds = 0.0
        self._sending_since: float | None = None
        self._sending_bytes = 0
        self._sent_bytes = 0

    @contextmanager
    def sending(self, size_bytes: int) -> Iterator[None]:
        """Send so many bytes within this block, which lasts until the client has taken them."""
        self._sending_since, self._sending_bytes = self._clock(), size_bytes
        try:
            yield
            self._sent_bytes += size_bytes
        finally:
            self._sending_seconds += self._clock() - self._sending_since
            self._sending_since = None

    def behind_seconds(self) -> float | None:
        """Return how much longer the client has taken than at ``PACE_BYTES_PER_SECOND``; None if it is not sent to.

        That is for all of a response or for the part that is being sent, whichever is longer: the kernel takes the
        first parts at once, which would give a client that reads nothing most of a second.
        """
        if self._sending_since is None:
            return None
        part_seconds = self._clock() - self._sending_since
        all_seconds = self._sending_seconds + part_seconds
        return max(
            all_seconds - self._sent_bytes / PACE_BYTES_PER_SECOND,
            part_seconds - self._sending_bytes / PACE_BYTES_PER_SECOND,
        )


class Places:
    """A number of places, which stand for memory, given to clients in the order in which turns are given.

    A client has ``per_client`` at most, a network three quarters of all; an exempt client has no such share. While
    somebody waits for a place, a client that does not keep up with what is sent to it loses its place: soon if it
    holds more than its part, otherwise after ``LONE_GRACE_SECONDS``.
    """

    def __init__(
        self,
        scheduler: FairScheduler,
        most: int,
        per_client: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._per_client = per_client
        self._per_network = math.ceil(most * 3 / 4)
        self._clock = clock
        self._queue = FairQueue[Place](scheduler.usage, clock)
        self._held: set[Place] = set()
        self._of_client: Counter[str] = Counter()  # those of exempt clients are not counted here
        self._of_network: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def take(self, client: str, *, exempt: bool = False) -> AsyncIterator[Place]:
        """Wait for a place, and hold it until the block ends."""
        kind = _EXEMPT if exempt else _ORDINARY
        place = await self._queue.wait(client, kind, joined=self._dispatch, give_back=self._give_back)
        try:
            yield place
        finally:
            self._give_back(place)

    def _give_back(self, place: Place) -> None:
        self._held.remove(place)
        if not place.exempt:
            self._count(place.client, -1)
        self._dispatch()

    def _count(self, client: str, more: int) -> None:
        for counter, key in ((self._of_client, client), (self._of_network, client_network(client))):
            counter[key] += more
            if not counter[key]:
                del counter[key]

    def _dispatch(self) -> None:
        while (waiting := self._queue.next(self._may_have_one())) is not None:
            line = waiting.line
            place = Place(line.client, self._clock, exempt=line.kind == _EXEMPT)
            self._held.add(place)
            if not place.exempt:
                self._count(place.client, 1)
            waiting.granted.set_result(place)
        self._take_back_soon()

    def _may_have_one(self) -> dict[str, May]:
        if len(self._held) >= self._most:
            return {}
        return {_EXEMPT: May(), _ORDINARY: May(self._has_network_share, self._is_below_share)}

    def _is_below_share(self, client: str) -> bool:
        return self._of_client[client] < self._per_client

    def _has_network_share(self, network: str) -> bool:
        return self._of_network[network] < self._per_network

    def _in_the_way(self, client: str) -> list[Place]:
        """Return the places of which a client needs one."""
        if len(self._held) >= self._most:
            return list(self._held)
        network = client_network(client)
        return [place for place in self._held if not place.exempt and client_network(place.client) == network]

    def _take_back_soon(self) -> None:
        """Take a place back, now or as soon as one can be taken, while somebody waits for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (left_seconds := self.take_back()) is not None:
            self._timer = asyncio.get_running_loop().call_later(left_seconds, self._take_back_soon)

    def take_back(self) -> float | None:
        """Cut off the client that is furthest behind, if somebody waits for its place.

        Return the seconds after which to try again; None if nobody waits.
        """
        waiting = self._queue.first({_EXEMPT: May(), _ORDINARY: May(client=self._is_below_share)})
        if waiting is None:
            return None
        client = waiting.line.client
        held = self._in_the_way(client)
        if any(place.scope.cancel_called for place in held):  # it will be free in a moment
            return GRACE_SECONDS
        overdue = [(self._overdue_seconds(place, client), place) for place in held]
        seconds, slowest = max(overdue, key=lambda one: one[0])
        if seconds < 0:
            return min(max(-seconds, _LEAST_PAUSE_SECONDS), GRACE_SECONDS)
        extra = {"event": "http_slow_reader", "client": slowest.client}
        log.info("%s reads too slowly while others wait: cut off", slowest.client, extra=extra)
        slowest.scope.cancel()
        return GRACE_SECONDS

    def _overdue_seconds(self, place: Place, waiting_client: str) -> float:
        """Return for how long a place can have been taken back; negative: after how long it can be at the earliest."""
        behind_seconds = place.behind_seconds()
        if behind_seconds is None:
            return -math.inf
        has_more = not place.exempt and self._of_client[place.client] > self._of_client[waiting_client] + 1
        return behind_seconds - (GRACE_SECONDS if has_more else LONE_GRACE_SECONDS)
