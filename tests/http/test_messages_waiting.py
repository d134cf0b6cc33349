"""``GET …/messages?wait=``, which tests use to wait for their messages."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import pytest
from services import rules

from patience import PATIENCE_SECONDS

from .conftest import read_all
from .streams import until


def at(held, query):
    return f"/api/v1/addresses/{held['address']}/messages?{query}"


@asynccontextmanager
async def waiting(world, client, target, **more):
    """Start a request that waits, and cancel it at the end."""
    before = len(world.service.bus)
    task = asyncio.ensure_future(client.get(target, stays=True, **more))
    await until(lambda: len(world.service.bus) > before or task.done())
    await anyio.sleep(0.01)
    try:
        yield task
    finally:
        task.cancel()


async def finished(task):
    with anyio.fail_after(PATIENCE_SECONDS):
        return await task


@pytest.mark.both_engines
async def test_a_wait_returns_a_new_message_as_it_arrives_and_an_existing_one_immediately(world, client, held):
    async with waiting(world, client, at(held, "wait=50")) as task:
        assert not task.done()
        message_id = await world.deliver(held["address"])
        for answer in (await finished(task), await finished(client.get(at(held, "wait=50"), stays=True))):
            assert [message["id"] for message in answer.json()["messages"]] == [message_id]


async def test_an_unsuccessful_wait_explains_other_messages_and_refusals(world, client, held, clock):
    async def said(*queries):
        asks = [client.get(at(held, f"wait=1&explain=true&{query}"), stays=True) for query in queries]
        answers = [answer.json() for answer in await finished(asyncio.gather(*asks))]
        assert all(answer.pop("messages") == [] for answer in answers)
        return [answer["reason"] for answer in answers]

    assert await said("") == ["no message arrived; set smtp.keep_refusals to see what was refused"]
    clock.advance(ms=-1)
    world.service.change_rules(rules(*world.service.rules.domains, keep_refusals=True))
    world.service.refusals.add("127.0.0.1", "RCPT TO:<x@before.example>", "550 5.7.1 Relaying denied")
    clock.advance(ms=1)
    first = await world.deliver(held["address"], b"From: shop@shop.example\r\nSubject: Old\r\n\r\n")
    question = "no message arrived, and none was refused: does your application send to this server's SMTP port?"
    assert await said(f"after={first}") == [
        'no message arrived after that one; the newest up to it: "Old" from shop@shop.example'
    ]
    dropped = await client.create(local_part="dropped")
    answer = await finished(client.get(at(dropped, "wait=1&explain=true"), stays=True))
    assert answer.json()["reason"].startswith(
        f"{question} Some applications drop mail to example.com: set domains (in pytest "
    )
    answer = await finished(client.get(at(dropped, f"wait=1&explain=true&after={first}"), stays=True))
    assert answer.json()["reason"] == "no message arrived after that one"
    other = await client.create(local_part="chosen", domain="second.test")
    answer = await finished(client.get(at(other, "wait=1&explain=true"), stays=True))
    assert answer.json()["reason"] == question
    world.service.refusals.add("127.0.0.1", "RCPT TO:<\x1bx@mial.example>", "550 5.7.1 Relaying denied")
    world.service.refusals.add("127.0.0.1", "", "the TLS handshake failed")
    refused = "; refused: RCPT TO:<\ufffdx@mial.example>: 550 5.7.1 Relaying denied; the TLS handshake failed"
    assert await said("has=code&has=link", "subject=new", f"after={first}") == [
        f'messages that do not match: "Old" from shop@shop.example without a code or a link{refused}',
        f'messages that do not match: "Old" from shop@shop.example{refused}',
        f'no message arrived after that one; the newest up to it: "Old" from shop@shop.example{refused}',
    ]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "limit=1",
        "has=code",
        "subject=x&order=asc",
        "wait=1",
        "wait=1&has=link",
        "wait=1&explain=false",
        "explain=true",
    ],
)
@pytest.mark.parametrize("mails", [0, 1])
async def test_the_list_has_exactly_one_field_unless_a_wait_is_to_be_explained(world, client, held, query, mails):
    for _ in range(mails):
        await world.deliver(held["address"])
    answer = await finished(client.get(at(held, query), stays=True))
    assert (answer.status, list(answer.json())) == (200, ["messages"])


@pytest.mark.parametrize("value", ["1", "yes", "True", ""])
async def test_a_switch_of_a_query_is_true_or_false(client, held, value):
    answer = await client.get(at(held, f"explain={value}"))
    assert answer.status == 422
    assert answer.json()["errors"] == [{"pointer": "explain", "detail": "expected true or false"}]


async def test_a_wait_of_no_seconds_and_a_head_request_do_not_wait(client, held):
    assert (await finished(client.get(at(held, "wait=0"), stays=True))).json() == {"messages": []}
    assert (await finished(client.ask("HEAD", at(held, "wait=50"), stays=True))).status == 200


@pytest.mark.both_engines
async def test_expiry_ends_a_wait(world, client, held, clock):
    clock.advance(ms=3_600_000 - 30)
    async with waiting(world, client, at(held, "wait=50")) as task:
        clock.advance(ms=30)
        answer = await finished(task)
    assert (answer.status, answer.json()["code"]) == (410, "address-expired")


async def test_waits_beyond_the_cap_are_refused_and_a_slot_is_freed_when_its_client_leaves(world, held):
    client = world.client(max_streams_per_client=3)
    tasks = []
    async with anyio.create_task_group() as group:
        for _ in range(3):
            tasks.append(anyio.CancelScope())
            group.start_soon(wait_until_gone, client, at(held, "wait=50"), tasks[-1])
        await until(lambda: len(world.service.bus) == 3)
        for _ in range(100):
            answer = await client.get(at(held, "wait=50"), stays=True)
            assert (answer.status, answer.json()["code"]) == (429, "too-many-streams")
            assert answer.header("retry-after") == "5"
        assert (await client.get(at(held, "limit=1"))).status == 200
        async with waiting(world, client, at(held, "wait=50"), peer="192.0.2.77") as other:
            assert not other.done()
        tasks[0].cancel()
        with anyio.fail_after(PATIENCE_SECONDS):
            while (answer := await client.get(at(held, "wait=1"), stays=True)).status == 429:
                await anyio.sleep(0.001)
        assert answer.status == 200
        group.cancel_scope.cancel()


async def wait_until_gone(client, target, scope):
    with scope:
        await client.get(target, stays=True)


async def test_a_client_that_disconnects_ends_its_wait(world, client, held):
    gone = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.get(at(held, "wait=50"), stays=gone))
        await until(lambda: len(world.service.bus))
        gone.set()
        await until(lambda: not len(world.service.bus))


@pytest.mark.parametrize("mails", [0, 1])
async def test_a_client_that_half_closes_its_connection_gets_a_response_as_if_it_did_not_wait(
    world, served, held, mails
):
    """The server cannot distinguish such a client from a disconnected client, which must not keep its slot."""
    message_ids = [await world.deliver(held["address"]) for _ in range(mails)]
    async with await served.connect() as stream:
        await stream.send(f"GET {at(held, 'wait=50&subject=hello')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await stream.send_eof()
        head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert [message["id"] for message in json.loads(body)["messages"]] == message_ids
    await served.drained()
    assert len(world.service.bus) == 0


async def test_a_client_that_half_closes_during_its_wait_gets_a_response_at_once(world, served, held):
    async with await served.connect() as stream:
        await stream.send(f"GET {at(held, 'wait=50')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: len(world.service.bus))
        await stream.send_eof()
        head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    assert (head[:13], json.loads(body)) == (b"HTTP/1.1 200 ", {"messages": []})
    await served.drained()


class SlowToLeave:
    """A request that takes a while to stop listening to its client."""

    def __init__(self):
        self.leaving = anyio.Event()
        self.may_leave = anyio.Event()

    async def wait(self):
        try:
            await anyio.sleep_forever()
        finally:
            self.leaving.set()
            with anyio.CancelScope(shield=True):
                await self.may_leave.wait()


@pytest.mark.both_engines
@pytest.mark.parametrize("end", ["inbox", "message", "clock"])
async def test_a_message_that_ends_between_the_wait_and_the_response_is_not_shown(world, client, held, end):
    slow = SlowToLeave()
    task = asyncio.ensure_future(client.get(at(held, "wait=50"), stays=slow))
    await until(lambda: len(world.service.bus))
    message_id = await world.deliver(held["address"])
    await slow.leaving.wait()
    await world.end(end, held, message_id)
    slow.may_leave.set()
    answer = await finished(task)
    if end == "message":
        assert (answer.status, answer.json()) == (200, {"messages": []})
    else:
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")
