"""A single response lists every mistake in a request: wrong types, invalid values, and violations of the rules."""

import pytest

from tmpmaild.webhooktargets import parse_rule

from .test_addresses import Held

OUR_HOOKS = "https://hooks.example.org/"
# Each member with an invalid value.
CREATE = [
    {"local_part": 1},
    {"local_part": "postmaster"},
    {"domain": None},
    {"domain": "other.test"},
    {"private": "yes"},
    {"expires_in_seconds": "600"},
    {"faults": "none"},
    {"faults": [{"at": "end"}]},
    {"webhook": 5},
    {"webhook": {"url": "https://other.example/"}},
    {"expires_in_seconds": 10**9},
    {"webhook": {"url": OUR_HOOKS, "events": ["verdict"]}},
]
OF_NEW = ("local_part", "domain", "private")
QUERY = ["limit=abc", "order=up", "after=x", "has=verdict", "has=x", "wait=51"]


@pytest.fixture
async def world(open_world):
    async with open_world(faults=True, webhooks=(parse_rule("hooks.example.org"),)) as opened:
        yield opened


def pairs(mistakes, name_of):
    """Return every pair of mistakes in different members."""
    return [(one, other) for one in mistakes for other in mistakes if name_of(one) < name_of(other)]


def pointers(answer):
    assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
    return sorted(error["pointer"] for error in answer.json()["errors"])


async def test_two_mistakes_in_a_new_address_or_a_change_are_reported_together(client):
    held = Held(client, await client.create())
    for ask, members in (
        (lambda body: client.post(body=body), ()),
        (lambda body: held.ask("PATCH", body=body), OF_NEW),
    ):
        mistakes = [one for one in CREATE if one.keys().isdisjoint(members)]
        named = {str(one): pointers(await ask(one)) for one in mistakes}
        assert all(len(found) == 1 for found in named.values())
        for one, other in pairs(mistakes, lambda mistake: next(iter(mistake))):
            assert pointers(await ask(one | other)) == sorted(named[str(one)] + named[str(other)])


async def test_a_change_with_one_invalid_member_changes_nothing(client):
    held = Held(client, await client.create())
    before = (await held.ask("GET")).json()
    for mistake in CREATE[-3:]:
        answer = await held.ask(
            "PATCH", body={"expires_in_seconds": 60, "faults": [{"at": "end", "delay_seconds": 1}]} | mistake
        )
        assert answer.status == 422
        assert (await held.ask("GET")).json() == before


@pytest.mark.parametrize(("target", "parameters"), [("messages", QUERY), ("events", ["after=x", "has=verdict"])])
async def test_two_mistakes_in_a_query_are_reported_together(client, target, parameters):
    path = f"/api/v1/addresses/{(await client.create())['address']}/{target}"
    for one, other in pairs(parameters, lambda parameter: parameter.partition("=")[0]):
        named = sorted(parameter.partition("=")[0] for parameter in (one, other))
        assert pointers(await client.get(f"{path}?{one}&{other}")) == named


async def test_every_inbox_that_is_listed_twice_is_reported(client):
    wished = [{"address": address} for address in ("a@b.test", "A@b.test", "c@d.test", "c@d.test")]
    answer = await client.post("/api/v1/events", {"inboxes": wished})
    assert pointers(answer) == ["/inboxes/1/address", "/inboxes/3/address"]
