"""Large answers: a few at once, and fewer of one client."""

import anyio
import pytest

from tmpmaild.http import answers
from tmpmaild.http.answers import LargeAnswerSlots
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.resource import Client


def client(name, *, exempt=False):
    return Client(name, exempt)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(answers, "_WAIT_SECONDS", 0.05)


async def test_one_client_cannot_take_all_places():
    slots = LargeAnswerSlots()
    async with slots.take(client("greedy")), slots.take(client("greedy")):
        with pytest.raises(BadRequest) as refused:
            async with slots.take(client("greedy")):
                pass
        assert refused.value.code == "busy"
        async with slots.take(client("modest")):
            pass
    assert slots._of_client == {}


async def test_a_place_that_comes_free_is_given_to_who_waits(monkeypatch):
    monkeypatch.setattr(answers, "_WAIT_SECONDS", 10)
    slots = LargeAnswerSlots()
    served = anyio.Event()

    async def wait():
        async with slots.take(client("one")):
            served.set()

    async with anyio.create_task_group() as tasks:
        async with slots.take(client("one")), slots.take(client("one")):
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not served.is_set()
        await served.wait()
    assert slots._of_client == {}


async def test_an_exempt_client_takes_as_many_places_as_there_are_and_no_more():
    slots = LargeAnswerSlots()
    exempt = client("farm", exempt=True)
    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(_hold, slots, exempt)
        await anyio.wait_all_tasks_blocked()
        assert slots._all.borrowed_tokens == 16
        with pytest.raises(BadRequest):
            async with slots.take(exempt):
                pass
        tasks.cancel_scope.cancel()
    assert slots._all.borrowed_tokens == 0
    assert slots._of_client == {}


async def test_many_clients_share_sixteen_places():
    slots = LargeAnswerSlots()
    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(_hold, slots, client(str(number)))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(BadRequest):
            async with slots.take(client("one more")):
                pass
        tasks.cancel_scope.cancel()
    async with slots.take(client("one more")):
        pass


async def _hold(slots, one):
    async with slots.take(one):
        await anyio.sleep_forever()
