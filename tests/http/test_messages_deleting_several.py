"""``DELETE /api/v1/addresses/{address}/messages``."""

import pytest

from .conftest import bearer

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
async def test_named_messages_all_messages_or_all_up_to_a_message_are_deleted_and_counted(world, client, held, ids):
    assert await left(client, held) == ids
    later = await world.deliver(held["address"])
    for query, count, rest in (
        (f"?id={ids[3]}&id={ids[1]}&id={ids[1]}&id={SOME}", 2, [ids[0], ids[2], ids[4], later]),
        (f"?up_to={ids[4]}", 3, [later]),
        ("", 1, []),
    ):
        answer = await delete(client, held, query)
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert answer.json() == {"deleted": count}
        assert (await delete(client, held, query if rest else "")).json() == {"deleted": 0}
        assert await left(client, held) == rest


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("?id=msg_01m7y0sgyf0000000000000000&up_to=msg_01m7y0sgyf0000000000000000", ["up_to"]),
        ("?id=", ["id"]),
        ("?up_to=", ["up_to"]),
        ("?to=ada@mail.example.com", ["to"]),
        ("?id=msg_01m7y0sgyf0000000000000000&id=x", ["id"]),
        ("?id=MSG_01M7Y0SGYF0000000000000000&up_to=x", ["id", "up_to"]),
        ("?" + "&".join([f"id={SOME}"] * 101), ["id"]),
    ],
)
async def test_invalid_requests_delete_nothing(client, held, ids, query, pointers):
    answer = await delete(client, held, query)
    assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert await left(client, held) == ids


async def test_a_misspelt_parameter_does_not_delete_everything_and_a_hundred_messages_can_be_named(client, held, ids):
    answer = await delete(client, held, f"?ids={ids[0]}&upto={ids[1]}&id={ids[2]}&up_to={ids[3]}")
    assert answer.status == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["ids", "upto", "up_to"]
    assert await left(client, held) == ids
    names = [*ids, *[f"{SOME[:-2]}{number:02}" for number in range(95)]]
    assert (await delete(client, held, "?" + "&".join(f"id={name}" for name in names))).json() == {"deleted": 5}
