"""``GET /api/v1/refusals``: only available if the operator enables it."""

import pytest
from services import rules


async def test_refusals_are_listed_oldest_first_with_the_time(open_world, clock):
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


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_reload_turns_the_list_on_and_off(open_world, wanted):
    async with open_world(keep_refusals=not wanted) as world:
        world.service.refusals.add("192.0.2.7", "AUTH", "502 5.5.1 Command not implemented")
        answers = [await world.client().get("/api/v1/refusals")]
        world.service.change_rules(rules(keep_refusals=wanted))
        answers.append(await world.client().get("/api/v1/refusals"))
        assert [answer.status for answer in answers] == ([404, 200] if wanted else [200, 404])
        assert "not-found" in {answer.json().get("code") for answer in answers}
        assert world.service.refusals.newest() == ()
