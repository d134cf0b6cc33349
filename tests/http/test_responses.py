"""Large responses: only a few are sent at a time, and fewer for each client."""

import anyio
import pytest
from msgspec import Struct, json

from tmpmaild.http import responses
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import Client
from tmpmaild.http.responses import ResponseSlots, encode_in_steps
from tmpmaild.scheduling.turns import FairScheduler


def client(name, *, exempt=False):
    return Client(name, exempt)


class Item(Struct, omit_defaults=True):
    body: str
    name: str | None = None
    links: list[str] = []


class Items(Struct, rename="camel"):
    all_items: list[Item]
    text: str = ""


@pytest.mark.parametrize("piece", ["x", '"\\\n', "\x01\x7f", "äß", "\U0001f600", "<&>"])
def test_encoding_in_steps_gives_the_same_result(piece):
    long = piece * 70_000
    for value in (Items([Item("a"), Item(long, name=long, links=["b"])], long), Items([]), Item(long), Item(piece)):
        assert encode_in_steps(value) == json.encode(value)


@pytest.fixture
def refused(monkeypatch):
    """Return a function that checks that a client gets no slot, even after a very short wait."""

    async def refused(slots, one):
        with monkeypatch.context() as impatient:
            impatient.setattr(responses, "WAIT_SECONDS", 0.05)
            with pytest.raises(BadRequest) as error:
                await slots.take(one).__aenter__()
        return error.value.code

    return refused


async def test_a_freed_slot_is_given_to_a_waiting_client():
    slots = ResponseSlots(FairScheduler())
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
    async with slots.take(client("one")), slots.take(client("one")):
        pass  # both of the client's slots are free again


@pytest.mark.parametrize("clients", [[client("farm", exempt=True)] * 17, [client(f"192.0.{n}.1") for n in range(17)]])
async def test_one_exempt_client_or_many_clients_have_sixteen_slots(refused, clients):
    slots, holding = ResponseSlots(FairScheduler()), []

    async def hold(one):
        async with slots.take(one):
            holding.append(one)
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        for one in clients[:16]:
            tasks.start_soon(hold, one)
        await anyio.wait_all_tasks_blocked()
        assert holding == clients[:16]
        assert await refused(slots, clients[16]) == "busy"
        tasks.cancel_scope.cancel()
    async with slots.take(clients[16]):
        pass
