"""``GET /api/v1/addresses/{address}/messages/{id}/raw``."""

import anyio
import pytest

from tmpmaild.http import answers as answers_module

from .conftest import scope_of

RAW = b"Subject: x\nX-Odd:\xff\0\r\n\r\nbody without a line end \xfe"
LARGE = b"Subject: large\r\n\r\n" + bytes(range(256)) * 4000


def path(address, message_id):
    return f"/api/v1/addresses/{address}/messages/{message_id}/raw"


@pytest.fixture
async def inbox(client):
    return (await client.create(local_part="chosen"))["address"]


@pytest.mark.both_engines
async def test_the_source_is_our_trace_fields_and_the_octets_as_they_came(world, client, inbox):
    message_id = await world.deliver(inbox, RAW, recipient="Chosen+tag@mail.example.com")
    answer = await client.get(path(inbox, message_id))
    assert answer.status == 200
    assert (
        answer.body
        == (
            b"Return-Path: <sender@example.org>\r\n"
            b"Received: from client.example ([192.0.2.7])\r\n"
            b"\tby localhost with ESMTP id %b\r\n"
            b"\tfor <Chosen+tag@mail.example.com>; Mon, 21 Sep 2026 14:13:20 +0000\r\n" % message_id.encode()
        )
        + RAW
    )


@pytest.mark.parametrize("raw", [RAW, LARGE], ids=["small", "large"])
async def test_a_browser_keeps_it_as_a_file_and_nobody_caches_it(world, client, inbox, raw):
    message_id = await world.deliver(inbox, raw)
    answer = await client.get(path(inbox, message_id))
    assert answer.header("content-type") == "message/rfc822"
    assert answer.header("content-disposition") == f'attachment; filename="{message_id}.eml"'
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("cache-control") == "no-store"
    assert int(answer.header("content-length")) == len(answer.body)
    assert answer.body.endswith(b"+0000\r\n" + raw)


async def test_a_large_source_needs_a_place(world, client, inbox, monkeypatch):
    monkeypatch.setattr(answers_module, "_SLOTS_PER_CLIENT", 1)
    large, small = await world.deliver(inbox, LARGE), await world.deliver(inbox, RAW)
    taking = anyio.Event()

    async def never_takes(_):
        taking.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.app, scope_of(path(inbox, large)), None, never_takes)
        await taking.wait()
        with monkeypatch.context() as impatient:
            impatient.setattr(answers_module, "_WAIT_SECONDS", 0.05)
            answer = await client.get(path(inbox, large))
        assert (answer.status, answer.json()["code"]) == (503, "busy")
        assert (await client.get(path(inbox, small))).status == 200
        assert (await client.get(path(inbox, large), peer="192.0.2.77")).status == 200
        tasks.cancel_scope.cancel()
    assert (await client.get(path(inbox, large))).status == 200


async def test_what_is_over_while_it_waits_for_a_place_is_not_shown(world, client, inbox, monkeypatch, clock):
    message_id = await world.deliver(inbox, LARGE)
    take = answers_module.AnswerSlots.take

    def late(self, name):
        clock.advance(seconds=3600)
        return take(self, name)

    monkeypatch.setattr(answers_module.AnswerSlots, "take", late)
    answer = await client.get(path(inbox, message_id))
    assert (answer.status, answer.json()["code"]) == (410, "address-expired")


async def test_other_methods_are_as_everywhere(world, client, inbox):
    target = path(inbox, await world.deliver(inbox))
    assert (await client.ask("HEAD", target)).status == 200
    for method, status in (("OPTIONS", 204), ("DELETE", 405)):
        answer = await client.ask(method, target)
        assert (answer.status, answer.header("allow")) == (status, "GET, HEAD, OPTIONS")


@pytest.mark.both_engines
async def test_a_message_of_another_inbox_or_of_none_is_not_found(world, client, inbox):
    other = (await client.create(local_part="other"))["address"]
    message_id = await world.deliver(other)
    last = message_id[:-1] + "1"
    for text in (message_id, last, "msg_" + "0" * 26, "x", "%00", "..", "%FF", "%ED%A0%80", "a" * 5000):
        answer = await client.get(path(inbox, text))
        assert (answer.status, answer.json()["code"]) == (404, "message-not-found")
    assert (await client.get(path(other, last))).json()["code"] == "message-not-found"
    for text in ("%2F", "%0A%2F", "a/b"):
        assert (await client.get(path(inbox, text))).json()["code"] == "not-found"
    assert (await client.get(path(other, message_id) + "%0A")).json()["code"] == "not-found"


@pytest.mark.both_engines
async def test_an_address_that_is_over_or_never_was_says_so_before_its_messages_do(world, client, inbox, clock):
    message_id = await world.deliver(inbox)
    answer = await client.get(path("unknown@mail.example.com", message_id))
    assert (answer.status, answer.json()["code"]) == (404, "address-not-found")
    clock.advance(seconds=3600)
    for text in (message_id, "msg_nothing"):
        answer = await client.get(path(inbox, text))
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")


@pytest.mark.both_engines
async def test_the_operators_mail_is_not_served(world, client, inbox):
    message_id = await world.deliver("postmaster@mail.example.com")
    for address in ("postmaster@mail.example.com", "abuse@mail.example.com", "postmaster", inbox):
        assert (await client.get(path(address, message_id))).status == 404
