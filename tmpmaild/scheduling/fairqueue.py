"""A queue of waiting clients: the client that has recently used the least processor time is served first."""

import asyncio
import heapq
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tmpmaild.clients import client_network
from tmpmaild.scheduling.usage import Timer, Usage

PATIENCE_SECONDS: Final = 1.0
"""Once a client has waited longer than this, every other turn goes to the client that has waited longest."""

_MIN_ENTRIES: Final = 64

N = TypeVar("N")
R = TypeVar("R")
T = TypeVar("T")


class Waiter(Generic[T]):
    """A task that waits in a flow.

    When the wait ends, the future ``granted`` receives the granted value, and ``on_grant`` is called.
    """

    __slots__ = ("_on_grant", "flow", "granted")

    def __init__(self, flow: "_Flow[T]", on_grant: Callable[[], None] | None) -> None:
        self.flow = flow
        self.granted: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._on_grant = on_grant

    def grant(self, value: T) -> None:
        """End the wait, and pass the granted value to the waiting task."""
        self.granted.set_result(value)
        if self._on_grant is not None:
            self._on_grant()


class _Flow(Generic[T]):
    """The tasks of one client that wait for the same kind of resource, in order of arrival."""

    __slots__ = ("client", "kind", "number", "since", "waiting")

    def __init__(self, client: str, kind: str, since: float, number: int) -> None:
        self.client = client
        self.kind = kind
        self.since = since  # the time at which the flow was created or last served
        self.number = number
        self.waiting: OrderedDict[Waiter[T], None] = OrderedDict()


class _LazyHeap(Generic[N]):
    """A heap whose keys never decrease; a member with an increased key is moved when it reaches the top."""

    def __init__(self, key: Callable[[N], float], is_gone: Callable[[N], bool]) -> None:
        self._key = key
        self._is_gone = is_gone
        self._entries: list[tuple[float, int, N]] = []
        self._most = _MIN_ENTRIES

    def add(self, member: N, number: int) -> None:
        """Add a member; members with the same key are sorted by ``number``."""
        if len(self._entries) >= self._most:  # removed members stay until they reach the top
            self._entries = [entry for entry in self._entries if not self._is_gone(entry[2])]
            heapq.heapify(self._entries)
            self._most = max(_MIN_ENTRIES, 2 * len(self._entries))
        heapq.heappush(self._entries, (self._key(member), number, member))

    def first(self, found: Callable[[N], R | None]) -> R | None:
        """Call ``found`` for each member in order, and return the first result that is not None."""
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
    """The flows of one network for the same kind of resource."""

    __slots__ = ("by_age", "by_usage", "flows", "name", "number")

    def __init__(self, name: str, number: int, level: Callable[["_Flow[T]"], float]) -> None:
        self.name = name
        self.number = number
        self.flows: dict[str, _Flow[T]] = {}
        self.by_usage = _LazyHeap[_Flow[T]](level, self._is_gone)
        self.by_age = _LazyHeap[_Flow[T]](_since, self._is_gone)

    def _is_gone(self, flow: "_Flow[T]") -> bool:
        return self.flows.get(flow.client) is not flow

    def since(self) -> float:
        """Return the time at which the longest-waiting flow began to wait."""
        return self.by_age.first(_since) or 0.0


def _since(flow: _Flow[Any]) -> float:
    return flow.since


class Eligible(NamedTuple):
    """Determines which networks and clients may be served."""

    network: Callable[[str], bool] = lambda _network: True
    client: Callable[[str], bool] = lambda _client: True


class _Flows(Generic[T]):
    """The flows for one kind of resource.

    As few flows as possible are examined, since thousands of clients may be waiting.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._networks: dict[str, _Network[T]] = {}
        self._by_usage = _LazyHeap[_Network[T]](lambda network: usage.network_level(network.name), self._is_gone)
        self._by_age = _LazyHeap[_Network[T]](lambda network: network.since(), self._is_gone)

    def _is_gone(self, network: _Network[T]) -> bool:
        return self._networks.get(network.name) is not network

    def get(self, client: str) -> _Flow[T] | None:
        """Return a client's flow."""
        network = self._networks.get(client_network(client))
        return network.flows.get(client) if network is not None else None

    def add(self, flow: _Flow[T]) -> None:
        """Add a flow."""
        name = client_network(flow.client)
        network = self._networks.get(name)
        is_new = network is None
        if network is None:
            network = self._networks[name] = _Network(
                name, flow.number, lambda flow: self._usage.client_level(flow.client)
            )
        network.flows[flow.client] = flow
        network.by_usage.add(flow, flow.number)
        network.by_age.add(flow, flow.number)
        if is_new:  # added after its flow, because its key depends on the flow
            self._by_usage.add(network, network.number)
            self._by_age.add(network, network.number)

    def remove(self, flow: _Flow[T]) -> None:
        """Remove a flow if it is still in the queue."""
        name = client_network(flow.client)
        network = self._networks.get(name)
        if network is not None and network.flows.get(flow.client) is flow:
            del network.flows[flow.client]
            if not network.flows:
                del self._networks[name]

    def first(self, eligible: Eligible, *, by_age: bool) -> _Flow[T] | None:
        """Return the eligible flow with the lowest usage or, with ``by_age``, with the longest wait."""

        def first_of(network: _Network[T]) -> _Flow[T] | None:
            if not eligible.network(network.name):
                return None
            flows = network.by_age if by_age else network.by_usage
            return flows.first(lambda flow: flow if eligible.client(flow.client) else None)

        return (self._by_age if by_age else self._by_usage).first(first_of)


class FairQueue(Generic[T]):
    """A queue of waiting clients, with one flow per client and kind of resource.

    The network that has recently used the least processor time is served first, and within it the client that has used
    the least. Once a client has waited longer than ``PATIENCE_SECONDS``, every other turn goes to the client that has
    waited longest. Otherwise, a client with a new address for each request would always be served first.
    """

    def __init__(self, usage: Usage, timer: Timer) -> None:
        self._usage = usage
        self._timer = timer
        self._kinds: defaultdict[str, _Flows[T]] = defaultdict(lambda: _Flows(usage))
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
        release: Callable[[T], None],
        on_grant: Callable[[], None] | None = None,
    ) -> T:
        """Wait in a client's flow; return the granted value.

        ``joined`` is called immediately, ``on_grant`` when the turn is granted, and ``release`` if the task is
        cancelled after the turn was granted.
        """
        waiting = self._join(client, kind, on_grant)
        joined()
        try:
            return await waiting.granted
        except BaseException:
            self._leave(waiting)
            if waiting.granted.done() and not waiting.granted.cancelled():
                release(waiting.granted.result())
            else:
                joined()  # other waiting tasks may now be able to continue
            raise

    def _join(self, client: str, kind: str, on_grant: Callable[[], None] | None) -> Waiter[T]:
        flows = self._kinds[kind]
        flow = flows.get(client)
        if flow is None:
            self._begun += 1
            flow = _Flow(client, kind, self._timer.monotonic(), self._begun)
            flows.add(flow)
        waiting = Waiter(flow, on_grant)
        flow.waiting[waiting] = None
        self._length += 1
        return waiting

    def _leave(self, waiting: Waiter[T]) -> None:
        flow = waiting.flow
        if waiting in flow.waiting:
            del flow.waiting[waiting]
            self._length -= 1
            if not flow.waiting:
                self._kinds[flow.kind].remove(flow)

    def first(self, eligible: Mapping[str, Eligible]) -> Waiter[T] | None:
        """Return the first waiter among the eligible flows of each kind; None if there is no such waiter."""
        flow = self._first_flow(eligible, by_age=False)
        if flow is not None and self._is_for_longest:
            longest = self._first_flow(eligible, by_age=True)
            if longest is not None and self._timer.monotonic() - longest.since > PATIENCE_SECONDS:
                flow = longest
        return None if flow is None else next(iter(flow.waiting))

    def _first_flow(self, eligible: Mapping[str, Eligible], *, by_age: bool) -> _Flow[T] | None:
        first = [self._kinds[kind].first(of_kind, by_age=by_age) for kind, of_kind in eligible.items()]
        flows = [flow for flow in first if flow is not None]
        if by_age:
            return min(flows, key=lambda flow: (flow.since, flow.number), default=None)
        return min(flows, key=lambda flow: (*self._usage.rank(flow.client), flow.number), default=None)

    def next(self, eligible: Mapping[str, Eligible]) -> Waiter[T] | None:
        """Remove and return the ``first`` waiter, or None; the caller must call the waiter's ``grant``."""
        while (waiting := self.first(eligible)) is not None:
            waiting.flow.since = self._timer.monotonic()
            self._leave(waiting)
            if not waiting.granted.done():  # the waiting task may have been cancelled a moment ago
                self._is_for_longest = not self._is_for_longest
                return waiting
        return None
