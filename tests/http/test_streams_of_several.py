"""``POST /api/v1/events``: several inboxes in one stream, over a real connection."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.ratelimit import TokenBuckets

from .conftest import Client
from .streams import Stream, until

TARGET = "/api/v1/events"


@pytest.fixture
def follow(serve, world):
    @asynccontextmanager
    async def opened(*inboxes, app=None):
        body = json.dumps({"inboxes": inboxes}).encode()
        head = f"POST {TARGET} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        async with serve(app or world.app()) as served, await served.connect() as connection:
            await connection.send(head.encode() + body)
            with anyio.fail_after(PATIENCE_SECONDS):
                yield await Stream(connection).open()

    return opened


async def told(stream, count):
    """Read events; return the name and the data of each."""
    events = [await stream.next() for _ in range(count)]
    assert all(event.id is None for event in events)
    return [(event.name, event.data) for event in events]


@pytest.mark.both_engines
async def test_one_stream_reports_all_inboxes_until_the_last_inbox_ends(world, client, follow, clock):
    busy, empty = await client.create(local_part="busy", private=True), await client.create(local_part="empty")
    known, first = [await world.deliver(busy["address"]) for _ in range(2)]
    wishes = (
        {"address": "BUSY+shop@mail.example.com", "token": busy["token"], "after": known},
        {"address": empty["address"], "token": "not needed"},
    )
    async with follow(*wishes) as stream:
        assert stream.status == 200
        path = f"/api/v1/addresses/{busy['address']}"
        holder = {"Authorization": f"Bearer {busy['token']}"}
        listed = (await client.get(f"{path}/messages", holder)).json()["messages"][0]
        resource = (await client.get(path, holder)).json()
        mine, theirs = wishes[0]["address"], empty["address"]
        assert await told(stream, 3) == [
            ("message", {"address": mine} | listed),
            ("inbox", resource | {"address": mine}),
            ("inbox", (await client.get(f"/api/v1/addresses/{theirs}")).json()),
        ]
        assert (listed["id"], resource["message_count"]) == (first, 2)

        ids = [await world.deliver(address) for address in (theirs, busy["address"])]
        seen = await told(stream, 2)
        assert sorted((data["address"], data["id"]) for _, data in seen) == sorted(
            zip((theirs, mine), ids, strict=True)
        )
        await world.service.inboxes.delete_message(busy["address"], first, busy["token"])
        assert await told(stream, 1) == [("deleted", {"address": mine, "id": first})]
        await world.service.inboxes.change(busy["address"], busy["token"], 1800)
        ((name, data),) = await told(stream, 1)
        assert (name, data) == ("extended", {"address": mine, "expires_at": data["expires_at"]})

        await world.service.inboxes.delete(busy["address"], busy["token"])
        assert await told(stream, 1) == [("deleted", {"address": mine})]
        clock.advance(ms=3_600_000 - 50)
        last = await world.deliver(theirs)
        assert [data["id"] for _, data in await told(stream, 1)] == [last]
        clock.advance(ms=50)
        assert await told(stream, 1) == [("expired", {"address": theirs})]
        assert await stream.next() is None
        assert len(world.service.bus) == 0


@pytest.mark.both_engines
async def test_an_unreadable_inbox_costs_a_token_and_looks_the_same_for_every_reason(world, client, follow, clock):
    ended = await client.create()
    clock.advance(ms=3_600_000)
    private, wrong, deleted, readable = [await client.create(private=number < 2) for number in range(4)]
    await world.service.inboxes.delete(deleted["address"], deleted["token"])
    refused = [
        {"address": "never@mail.example.com"},
        {"address": "no address at all"},
        {"address": private["address"]},
        {"address": wrong["address"], "token": readable["token"]},
        {"address": ended["address"], "token": ended["token"]},
        {"address": deleted["address"], "token": deleted["token"]},
    ]
    app = world.app(TokenBuckets(10, 10))
    async with follow(*refused[:3], {"address": readable["address"]}, *refused[3:], app=app) as stream:
        assert 'ratelimit: "default";r=3;' in stream.head.lower()
        assert await told(stream, 6) == [("unavailable", {"address": one["address"]}) for one in refused]
        assert [name for name, _ in await told(stream, 1)] == ["inbox"]
        message_id = await world.deliver(readable["address"])
        assert [data["id"] for _, data in await told(stream, 1)] == [message_id]


async def test_no_more_unreadable_inboxes_are_reported_than_there_are_tokens(world, client, follow, caplog):
    """Twenty guesses in one request reveal no more than twenty requests would."""
    first, last = await client.create(), await client.create()
    guesses = [{"address": f"guess-{number}@mail.example.com"} for number in range(18)]
    app = world.app(TokenBuckets(10, 10))
    caplog.set_level("INFO", "tmpmaild")
    async with follow({"address": first["address"]}, *guesses, {"address": last["address"]}, app=app) as stream:
        assert 'ratelimit: "default";r=0;' in stream.head.lower()
        names = [(name, data["address"]) for name, data in await told(stream, 20)]
        assert names[:9] == [("unavailable", one["address"]) for one in guesses[:9]]
        assert names[9:] == [
            *[("limited", one["address"]) for one in [*guesses[9:], last]],
            ("inbox", first["address"]),
        ]
    assert "HTTP from 127.0.0.1 refused: rate-limited" in caplog.messages


async def test_a_stream_uses_one_slot_and_ends_when_nothing_more_can_come(world, client, follow):
    held = [{"address": (await client.create())["address"]} for _ in range(3)]
    app = world.app(max_streams_per_client=1)
    async with follow(*held, app=app) as stream:
        await told(stream, 3)
        refused = await Client(app, peer="127.0.0.1").post(TARGET, {"inboxes": held})
        assert (refused.status, refused.json()["code"]) == (429, "too-many-streams")
    await until(lambda: not len(world.service.bus))
    async with follow({"address": "never@mail.example.com"}, app=app) as stream:
        assert await told(stream, 1) == [("unavailable", {"address": "never@mail.example.com"})]
        assert await stream.next() is None


ONE = {"address": "one@mail.example.com"}


WRONG = [
    ({}, ["/inboxes"]),
    ({"inboxes": []}, ["/inboxes"]),
    ({"inboxes": {"0": {"address": "one@mail.example.com"}}}, ["/inboxes"]),
    ({"inboxes": [{"address": "one@mail.example.com"}, None, "one@mail.example.com"]}, ["/inboxes/1", "/inboxes/2"]),
    (
        {"inboxes": [{}, {"address": 1, "token": 1, "after": 1}]},
        ["/inboxes/0/address", "/inboxes/1/address", "/inboxes/1/token", "/inboxes/1/after"],
    ),
    (
        {"inboxes": [{"address": "one@mail.example.com", "after": "x", "token": None}]},
        ["/inboxes/0/token", "/inboxes/0/after"],
    ),
    (
        {
            "inboxes": [
                {"address": "two@mail.example.com"},
                {"address": "one@mail.example.com"},
                {"address": "ONE+x@MAIL.example.com"},
            ]
        },
        ["/inboxes/2/address"],
    ),
    ({"inboxes": [{"address": "one@mail.example.com", "has": ["code", "x"]}]}, ["/inboxes/0/has"]),
    ({"inboxes": [ONE] * 21}, ["/inboxes"]),
    ({"inboxes": [1] * 21}, ["/inboxes"]),
]


async def test_mistakes_are_reported_for_each_part_and_unknown_members_are_ignored(client):
    for body, pointers in WRONG:
        answer = await client.post(TARGET, body)
        assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
        assert sorted(one["pointer"] for one in answer.json()["errors"]) == sorted(pointers)
    numbers = b"9" * 5000
    body = b'{"inboxes": [{"address": "one@mail.example.com", "more": %b}], "more": %b}' % (numbers, numbers)
    answer = await client.post(TARGET, body)
    assert (answer.status, answer.header("content-type")) == (200, "text/event-stream")
    assert (await client.ask("PUT", TARGET)).header("allow") == "GET, HEAD, OPTIONS, POST"


@pytest.mark.both_engines
async def test_each_inbox_has_its_own_filter_for_messages(world, client, follow):
    some, all_ = [(await client.create(local_part=name))["address"] for name in ("some", "all")]
    async with follow({"address": some, "has": ["code"]}, {"address": all_}) as stream:
        assert [name for name, _ in await told(stream, 2)] == ["inbox", "inbox"]
        ids = [await world.deliver(address) for address in (some, all_)]
        ids.append(await world.deliver(some, b"Subject: Your code is 481516\r\n\r\n"))
        seen = await told(stream, 2)
        assert sorted((data["address"], data["id"]) for _, data in seen) == [(all_, ids[1]), (some, ids[2])]
