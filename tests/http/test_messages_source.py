"""``GET /api/v1/addresses/{address}/messages/{id}/raw``."""

import pytest

pytestmark = pytest.mark.both_engines

RAW = b"Subject: x\nX-Odd:\xff\0\r\n\r\nbody without a line end \xfe"
LARGE = b"Subject: large\r\n\r\n" + bytes(range(256)) * 4000


def path(address, message_id):
    return f"/api/v1/addresses/{address}/messages/{message_id}/raw"


@pytest.fixture
async def inbox(client):
    return (await client.create(local_part="chosen"))["address"]


async def test_the_source_consists_of_our_trace_fields_and_the_received_bytes(world, client, inbox):
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
async def test_a_browser_saves_it_as_a_file_and_it_is_never_cached(world, client, inbox, raw):
    message_id = await world.deliver(inbox, raw)
    answer = await client.get(path(inbox, message_id))
    assert answer.header("content-type") == "message/rfc822"
    assert answer.header("content-disposition") == f'attachment; filename="{message_id}.eml"'
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("cache-control") == "no-store"
    assert int(answer.header("content-length")) == len(answer.body)
    assert answer.body.endswith(b"+0000\r\n" + raw)


@pytest.mark.usefixtures("slots_come_late")
async def test_a_message_that_ends_while_waiting_for_a_slot_is_not_shown(world, client, inbox):
    message_id = await world.deliver(inbox, LARGE)
    answer = await client.get(path(inbox, message_id))
    assert (answer.status, answer.json()["code"]) == (410, "address-expired")


async def test_a_message_of_another_inbox_or_a_nonexistent_one_is_not_found(world, client, inbox):
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


async def test_the_operators_mail_is_not_served(world, client, inbox):
    message_id = await world.deliver("postmaster@mail.example.com")
    for address in ("postmaster@mail.example.com", "abuse@mail.example.com", "postmaster", inbox):
        assert (await client.get(path(address, message_id))).status == 404
