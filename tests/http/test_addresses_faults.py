"""The ``faults`` of an address: at creation, in a PATCH request, and as shown to the owner."""

import pytest

from tmpmaild.inboxes.faults import Fault

from .test_addresses import Held

GREYLISTED = {"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2, "delay_seconds": 3}
SHOWN = {"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2, "delay_seconds": 3.0}
SLOW = {"at": "end", "delay_seconds": 0.5}


@pytest.fixture
async def world(open_world):
    async with open_world(faults=True, max_lifetime_seconds=7200) as opened:
        yield opened


@pytest.mark.both_engines
async def test_faults_are_set_at_creation_and_shown_only_to_the_owner(world, client):
    created = await client.create(faults=[GREYLISTED, SLOW])
    assert created["faults"] == [SHOWN, {"at": "end", "times": 1, "delay_seconds": 0.5}]
    held = Held(client, created)
    inbox = await world.service.access.find(held.address)
    assert world.service.faults.take([inbox.id], "rcpt") == Fault("rcpt", "451 4.7.1 Greylisted", 2, 3)
    assert (await held.ask("GET")).json()["faults"][0] == SHOWN | {"times": 1}
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert "faults" not in (await client.get(held.path, headers)).json()


@pytest.mark.both_engines
async def test_patch_replaces_faults_and_changes_the_expiry_only_if_given(client, clock):
    created = await client.create(faults=[GREYLISTED])
    held = Held(client, created)
    answer = await held.ask("PATCH", body={"faults": [SLOW]})
    assert (answer.status, answer.json()["expires_at"]) == (200, created["expires_at"])
    assert answer.json()["faults"] == [{"at": "end", "times": 1, "delay_seconds": 0.5}]
    longer = (await held.ask("PATCH", body={"expires_in_seconds": 7200})).json()
    assert (longer["faults"], longer["expires_at"] > created["expires_at"]) == (answer.json()["faults"], True)
    both = (await held.ask("PATCH", body={"expires_in_seconds": 60, "faults": []})).json()
    assert (both["faults"], both["expires_at"] < created["expires_at"]) == ([], True)


async def test_invalid_faults_are_reported_with_their_pointers(client, subtests):
    for faults, pointers in [
        ("rcpt", ["/faults"]),
        ([7], ["/faults/0"]),
        ([{"at": "end", "delay_seconds": 0.5}, {"at": "end"}], ["/faults/1"]),
        ([{"at": "end", "delay_seconds": 0}], ["/faults/0"]),
        ([{"reply": "451 x"}], ["/faults/0/at"]),
        ([{"at": "mail", "delay_seconds": 0.5}], ["/faults/0/at"]),
        ([{"at": "RCPT", "delay_seconds": 0.5}], ["/faults/0/at"]),
        ([{"at": 1, "delay_seconds": 0.5}], ["/faults/0/at"]),
        ([{"at": None, "delay_seconds": 0.5}], ["/faults/0/at"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": ""}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 "}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451-4.7.1 a"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "250 2.0.0 Ok"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "354 go ahead"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "651 x"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "45 x"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": " 451 x"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 x\r\n250 Ok"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 x\n"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 x\x7f"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 ü"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "451 \t"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": "4\u0665\u0661 x"}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": 451}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "reply": None}], ["/faults/0/reply"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": 0}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": 101}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": -1}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": 1.5}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": "2"}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": 0.5, "times": True}], ["/faults/0/times"]),
        ([{"at": "end", "delay_seconds": -0.1}], ["/faults/0/delay_seconds"]),
        ([{"at": "end", "delay_seconds": 60.1}], ["/faults/0/delay_seconds"]),
        ([{"at": "end", "delay_seconds": "3"}], ["/faults/0/delay_seconds"]),
        ([{"at": "end", "delay_seconds": True}], ["/faults/0/delay_seconds"]),
        ([{"at": "end", "delay_seconds": None}], ["/faults/0/delay_seconds"]),
        (
            [{"at": "end", "delay_seconds": 0.5, "times": 0, "reply": "x"}, {"at": "x"}],
            ["/faults/0/reply", "/faults/0/times", "/faults/1/at"],
        ),
        ([SLOW] * 11, ["/faults"]),
        ([SLOW | {"reply": "451 " + "x" * 401}], ["/faults/0/reply"]),
    ]:
        with subtests.test(faults=faults, pointers=pointers):
            for answer in (
                await client.post(body={"faults": faults}),
                await Held(client, await client.create()).ask("PATCH", body={"faults": faults}),
            ):
                assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
                assert sorted(one["pointer"] for one in answer.json()["errors"]) == pointers


async def test_the_largest_values_are_accepted_and_a_delay_must_be_a_number(client):
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
