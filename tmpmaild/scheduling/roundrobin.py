"""Round-robin turns that ignore processor time: networks take turns, and so do the clients within a network."""

import asyncio
from collections import OrderedDict, deque
from typing import Generic, TypeVar

from tmpmaild.clients import client_network
from tmpmaild.scheduling.clients import current_client

T = TypeVar("T")


class RoundRobin(Generic[T]):
    """The items waiting for each client: networks take turns, and so do the clients within a network."""

    def __init__(self) -> None:
        self._networks: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._networks)

    def append(self, client: str, item: T) -> None:
        """Add an item after all other items of its client."""
        self._of(client).append(item)

    def put_back(self, client: str, item: T) -> None:
        """Put an item back in front of all other items, because its turn had already come."""
        self._of(client).appendleft(item)
        network = client_network(client)
        self._networks[network].move_to_end(client, last=False)
        self._networks.move_to_end(network, last=False)

    def _of(self, client: str) -> deque[T]:
        return self._networks.setdefault(client_network(client), OrderedDict()).setdefault(client, deque())

    def popleft(self) -> T:
        """Remove and return the next item."""
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
    """A semaphore like ``asyncio.Semaphore``, except that waiting clients take turns."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting = RoundRobin[asyncio.Future[None]]()

    async def __aenter__(self) -> None:
        if self._free:  # if a place is free, no client is waiting
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(current_client(), granted)
        try:
            await granted
        except BaseException:
            granted.cancel()  # has no effect if the wait has just ended
            if not granted.cancelled():
                self._release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():  # the wait may have been cancelled
                granted.set_result(None)
                return
        self._free += 1
