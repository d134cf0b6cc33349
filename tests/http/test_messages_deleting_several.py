"""``DELETE /api/v1/addresses/{address}/messages``."""

import pytest

from tables import rows_of

from .conftest import bearer

ROWS = rows_of(__file__)

SOME = "msg_01m7y0sgyf0000000000000000"


@pytest.fixture
async def ids(world, held):
    return [await world.deliver(held["address"], b"Subject: %d\r\n\r\n" % number) for number in range(5)]


def path(held, query=""):
    return f"/api/v1/addresses/{held['address']}/messages{query}"


async def delete(client, held, query="", **more):
    return await client.ask("DELETE", path(held, query), bearer(held["token"]), **more)


async def left(client, held):
    messages = (await client.get(path(held, "?order=asc"), bearer(held["token"]))).json()["messages"]
    return [message["id"] for message in messages]


@pytest.mark.both_engines
async def test_all_are_deleted_and_counted(client, held, ids):
    assert await left(client, held) == ids
    answer = await delete(client, held)
    assert (answer.status, answer.json()) == (200, {"deleted": 5})
    assert answer.header("content-type") == "application/json"
    assert await left(client, held) == []
    assert (await delete(client, held)).json() == {"deleted": 0}


@pytest.mark.both_engines
async def test_those_that_are_named_are_deleted_and_what_is_not_there_is_no_error(client, held, ids):
    await left(client, held)
    query = f"?id={ids[3]}&id={ids[1]}&id={ids[1]}&id={SOME}"
    assert (await delete(client, held, query)).json() == {"deleted": 2}
    assert (await delete(client, held, query)).json() == {"deleted": 0}
    assert await left(client, held) == [ids[0], ids[2], ids[4]]


@pytest.mark.both_engines
async def test_all_up_to_one_are_deleted_and_what_came_later_stays(world, client, held, ids):
    later = await world.deliver(held["address"])
    assert (await delete(client, held, f"?up_to={ids[4]}")).json() == {"deleted": 5}
    assert (await delete(client, held, f"?up_to={ids[4]}")).json() == {"deleted": 0}
    assert await left(client, held) == [later]


@pytest.mark.parametrize(
    ("query", "pointers"),
    [*ROWS["what is not so deletes nothing"], ("?" + "&".join([f"id={SOME}"] * 101), ["id"])],
)
async def test_what_is_not_so_deletes_nothing(client, held, ids, query, pointers):
    answer = await delete(client, held, query)
    assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert await left(client, held) == ids


async def test_a_parameter_that_is_misspelt_does_not_delete_everything(client, held, ids):
    answer = await delete(client, held, f"?ids={ids[0]}&upto={ids[1]}&id={ids[2]}&up_to={ids[3]}")
    assert answer.status == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["ids", "upto", "up_to"]
    assert await left(client, held) == ids


async def test_a_hundred_can_be_named(client, held, ids):
    names = [*ids, *[f"{SOME[:-2]}{number:02}" for number in range(95)]]
    assert (await delete(client, held, "?" + "&".join(f"id={name}" for name in names))).json() == {"deleted": 5}


@pytest.mark.both_engines
async def test_only_the_holder_of_the_token_deletes(client, held, ids):
    assert (await client.ask("DELETE", path(held))).json()["code"] == "unauthorized"
    wrong = await client.ask("DELETE", path(held), bearer("wrong"))
    assert (wrong.status, wrong.json()["code"]) == (404, "address-not-found")
    assert await left(client, held) == ids
