"""``faults`` of an address: at create, at PATCH, and in what its holder sees."""

import pytest

from tables import rows_of, table
from tmpmaild.inboxes.faults import Fault

from .test_addresses import Held

ROWS = rows_of(__file__)

GREYLISTED = {"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2, "delay_seconds": 3}
SHOWN = {"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2, "delay_seconds": 3.0}
SLOW = {"at": "end", "delay_seconds": 0.5}


@pytest.fixture
async def world(open_world):
    async with open_world(faults=True, max_lifetime_seconds=7200) as opened:
        yield opened


@pytest.mark.both_engines
async def test_faults_are_ordered_at_create_and_shown_to_the_holder_only(world, client):
    created = await client.create(faults=[GREYLISTED, SLOW])
    assert created["faults"] == [SHOWN, {"at": "end", "times": 1, "delay_seconds": 0.5}]
    held = Held(client, created)
    inbox = await world.service.access.find(held.address)
    assert world.service.faults.take([inbox.id], "rcpt") == Fault("rcpt", "451 4.7.1 Greylisted", 2, 3)
    assert (await held.ask("GET")).json()["faults"][0] == SHOWN | {"times": 1}
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert "faults" not in (await client.get(held.path, headers)).json()


@pytest.mark.both_engines
async def test_patch_sets_faults_anew_and_the_expiry_if_it_is_told(client, clock):
    created = await client.create(faults=[GREYLISTED])
    held = Held(client, created)
    answer = await held.ask("PATCH", body={"faults": [SLOW]})
    assert (answer.status, answer.json()["expires_at"]) == (200, created["expires_at"])
    assert answer.json()["faults"] == [{"at": "end", "times": 1, "delay_seconds": 0.5}]
    longer = (await held.ask("PATCH", body={"expires_in_seconds": 7200})).json()
    assert (longer["faults"], longer["expires_at"] > created["expires_at"]) == (answer.json()["faults"], True)
    both = (await held.ask("PATCH", body={"expires_in_seconds": 60, "faults": []})).json()
    assert (both["faults"], both["expires_at"] < created["expires_at"]) == ([], True)


@table(
    ("faults", "pointers"),
    [
        *ROWS["what cannot be is named by its pointer"],
        ([SLOW] * 11, ["/faults"]),
        ([SLOW | {"reply": "451 " + "x" * 401}], ["/faults/0/reply"]),
    ],
)
async def test_what_cannot_be_is_named_by_its_pointer(client, faults, pointers):
    for answer in (
        await client.post(body={"faults": faults}),
        await Held(client, await client.create()).ask("PATCH", body={"faults": faults}),
    ):
        assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
        assert sorted(one["pointer"] for one in answer.json()["errors"]) == pointers


async def test_what_just_fits_is_taken_and_a_number_that_is_none_is_no_delay(client):
    most = [
        {"at": "data", "reply": "599 " + "~" * 400, "times": 100, "delay_seconds": 60},
        {"at": "rcpt", "reply": "400  ", "times": 1e0, "delay_seconds": 0},
    ] * 5
    created = await client.create(faults=most)
    assert [one["reply"] for one in created["faults"]] == [one["reply"] for one in most]
    answer = await client.post(body=b'{"faults": [{"at": "end", "delay_seconds": 1e999}]}')
    assert [one["pointer"] for one in answer.json()["errors"]] == ["/faults/0/delay_seconds"]
    answer = await client.post(body=b'{"faults": [{"at": "end", "delay_seconds": NaN}]}')
    assert answer.status in (400, 422)


async def test_without_the_setting_faults_are_refused_and_not_shown(open_world):
    async with open_world() as world:
        client = world.client()
        assert (await client.post(body={"faults": [GREYLISTED]})).status == 422
        held = Held(client, await client.create(faults=[]))
        assert (await held.ask("PATCH", body={"faults": [SLOW]})).status == 422
        assert (await held.ask("PATCH", body={"faults": []})).status == 200
        assert "faults" not in (await held.ask("GET")).json()
