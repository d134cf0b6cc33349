"""``GET /api/v1/refusals``: there only where the operator wants it."""

import pytest
from services import rules


async def test_they_are_listed_oldest_first_with_the_time(open_world, clock):
    async with open_world(keep_refusals=True) as world:
        world.service.refusals.add("192.0.2.7", "RCPT TO:<no-one@mail.example.com>", "550 5.1.1 No such address here")
        clock.now_ms += 1500
        world.service.refusals.add("2001:db8::7", "x" * 10_000, "500 5.5.2 Line too long")
        first, second = (await world.client().get("/api/v1/refusals")).json()["refusals"]
        assert first.pop("at") < second["at"]
        assert first == {
            "client": "192.0.2.7",
            "command": "RCPT TO:<no-one@mail.example.com>",
            "reason": "550 5.1.1 No such address here",
        }
        assert len(second["command"]) == 400


async def test_without_the_key_there_is_no_such_path(open_world):
    async with open_world() as world:
        world.service.refusals.add("192.0.2.7", "AUTH", "502 5.5.1 Command not implemented")
        answer = await world.client().get("/api/v1/refusals")
        assert (answer.status, answer.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_reload_turns_it_on_and_off(open_world, wanted):
    async with open_world(keep_refusals=not wanted) as world:
        world.service.refusals.add("192.0.2.7", "AUTH", "502 5.5.1 Command not implemented")
        world.service.change_rules(rules(keep_refusals=wanted))
        assert (await world.client().get("/api/v1/refusals")).status == (200 if wanted else 404)
        assert world.service.refusals.newest() == ()
