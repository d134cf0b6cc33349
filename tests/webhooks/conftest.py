"""A service with a storage, its webhook dispatcher, and a target on loopback."""

import pytest
from receivers import receiving
from webhookharness import WebhookHarness


@pytest.fixture
async def harness(store, clock, monkeypatch):
    monkeypatch.setattr("random.random", lambda: 0.0)  # removes the jitter from retry times
    async with receiving() as receiver, store.open(clock, max_bytes=1 << 30) as storage:
        yield WebhookHarness(storage, clock, receiver)
