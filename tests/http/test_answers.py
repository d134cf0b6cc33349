"""Large answers: a few at once, and fewer of one client."""

import anyio
import pytest

from tmpmaild.http import answers
from tmpmaild.http.answers import Places
from tmpmaild.http.problems import BadRequest


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(answers, "_WAIT_SECONDS", 0.05)


async def test_one_client_cannot_take_all_places():
    places = Places()
    async with places.take("greedy"), places.take("greedy"):
        with pytest.raises(BadRequest) as refused:
            async with places.take("greedy"):
                pass
        assert refused.value.code == "busy"
        async with places.take("modest"):
            pass
    assert places._of_client == {}


async def test_a_place_that_comes_free_is_given_to_who_waits(monkeypatch):
    monkeypatch.setattr(answers, "_WAIT_SECONDS", 10)
    places = Places()
    served = anyio.Event()

    async def wait():
        async with places.take("one"):
            served.set()

    async with anyio.create_task_group() as tasks:
        async with places.take("one"), places.take("one"):
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not served.is_set()
        await served.wait()
    assert places._of_client == {}


async def test_many_clients_share_sixteen_places():
    places = Places()
    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(_hold, places, str(number))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(BadRequest):
            async with places.take("one more"):
                pass
        tasks.cancel_scope.cancel()
    async with places.take("one more"):
        pass


async def _hold(places, client):
    async with places.take(client):
        await anyio.sleep_forever()
