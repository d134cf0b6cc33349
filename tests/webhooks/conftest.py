"""A service over a storage whose webhooks are called, and a target for them on loopback."""

import pytest
from houses import House
from receivers import receiving


@pytest.fixture
async def house(store, clock):
    async with receiving() as receiver, store.open(clock, max_bytes=1 << 30) as storage:
        yield House(storage, clock, receiver)
