"""Batches: waiting operations run together, each caller gets its own result, and no caller waits forever."""

import asyncio

import pytest

from tmpmaild.errors import Stopping, StorageUnavailable
from tmpmaild.model import InboxChange
from tmpmaild.storage.batching import Batcher, CommitMetrics, failures, notify


class Halves:
    """A processor of batches that halves numbers once it is allowed to.

    It fails for odd numbers, and for all numbers in a batch that contains a zero.
    """

    def __init__(self):
        self.batches = []
        self.may_answer = asyncio.Event()

    async def ask(self, numbers):
        self.batches.append(numbers)
        await self.may_answer.wait()
        if 0 in numbers:
            raise StorageUnavailable("away")
        return [ValueError(number) if number % 2 else number // 2 for number in numbers]


async def test_requests_during_a_batch_form_the_next_batch():
    halves = Halves()
    batcher = Batcher(halves.ask, lambda _: 3)
    first = batcher.submit(2)
    await asyncio.sleep(0)
    others = [batcher.submit(number) for number in (4, 6, 7, 8)]
    others[1].cancel()  # a cancelled operation is still processed
    halves.may_answer.set()
    found = await asyncio.gather(first, *others, return_exceptions=True)
    assert halves.batches == [[2], [4, 6, 7], [8]]
    assert [type(one) if isinstance(one, BaseException) else one for one in found] == [
        1,
        2,
        asyncio.CancelledError,
        ValueError,
        4,
    ]


async def test_each_request_of_a_failed_batch_gets_its_own_error():
    halves = Halves()
    halves.may_answer.set()
    batcher = Batcher(halves.ask, len)
    found = await asyncio.gather(*map(batcher.submit, (0, 2)), return_exceptions=True)
    assert [str(one) for one in found] == ["away"] * 2
    assert found[0] is not found[1]
    assert await batcher.submit(2) == 1


async def test_closing_waits_for_open_requests_and_accepts_no_more():
    halves = Halves()
    batcher = Batcher(halves.ask, len)
    asked = batcher.submit(2)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(Stopping):
        await batcher.submit(4)
    halves.may_answer.set()
    await closing
    assert asked.result() == 1


def test_each_failure_is_its_own_exception_unless_it_is_a_bug():
    assert len(set(map(id, failures(StorageUnavailable("away"), 3)))) == 3
    assert len(set(map(id, failures(KeyError("mistake"), 3)))) == 1


def test_a_failing_listener_does_not_keep_a_change_from_others(caplog):
    told, change = [], InboxChange("2", full=False)
    notify([lambda _: 1 / 0, told.extend], [change])
    assert told == [change]
    assert "ZeroDivisionError" in caplog.text


def test_the_reason_is_that_of_the_last_batch():
    metrics = CommitMetrics()
    for outcomes, reason in (([1], ""), ([1, StorageUnavailable("locked")], "locked"), ([KeyError("x")], "")):
        metrics.count_batch(outcomes, 0.001)
        assert metrics.reason_not_ready == reason
    counted = {one.name: one for one in metrics.metrics()}
    assert counted["storage_failed_batches_total"].values() == {(): 1}
