"""No endpoint gives an attacker, who has an inbox, access to a different inbox."""

from pathlib import Path

import anyio
import pytest

from tmpmaild.http.allmail import AllMailEndpoints
from tmpmaild.http.app import OPERATIONS
from tmpmaild.http.openapi import declared
from tmpmaild.model import Envelope

pytestmark = pytest.mark.both_engines

RAW = Path(__file__).with_name("app-crossing.eml").read_bytes()


# These operations are not called here, because they have no inbox in their path.
ELSEWHERE = {"createAddress", "listDomains", "listRefusals", "followAddresses", "lookAtView", "describe"}
OF_ADDRESS = [operation for operation in OPERATIONS if "{address}" in operation.path]
OF_MESSAGE = [operation for operation in OF_ADDRESS if "{id}" in operation.path]
BODY = b'{"expires_in_seconds": 1}'

OF_ALL = {operation.id for operation in declared(AllMailEndpoints).values()}  # tests/http/test_allmail.py


class Party:
    """A user with an inbox and one message in it."""

    def __init__(self, created, message_id):
        self.private = created["private"]
        self.address = created["address"]
        self.token = created["token"]
        self.message_id = message_id
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def messages(self, tail=""):
        return f"/api/v1/addresses/{self.address}/messages{tail}"

    def path(self, operation, message_id=None):
        return operation.path.format(address=self.address, id=message_id or self.message_id, index=0, secret="x")


@pytest.fixture(params=[False, True], ids=["open", "private"])
async def victim(request, world, client):
    created = await client.create(local_part="victim", private=request.param)
    return Party(created, await world.deliver(created["address"], RAW))


@pytest.fixture
async def attacker(world, client):
    created = await client.create(local_part="attacker")
    return Party(created, await world.deliver(created["address"]))


def test_every_operation_on_an_inbox_is_called():
    assert {operation.id for operation in OPERATIONS} - {operation.id for operation in OF_ADDRESS} - OF_ALL == ELSEWHERE


async def test_an_id_from_a_different_inbox_is_treated_as_nonexistent(client, attacker, victim):
    for operation in OF_MESSAGE:
        answers = [
            await client.ask(operation.method, attacker.path(operation, message_id), attacker.headers)
            for message_id in (victim.message_id, "msg_" + "0" * 26, attacker.message_id.replace("msg_0", "msg_7"))
        ]
        for answer in answers:
            assert (answer.status, answer.json()["code"]) == (404, "message-not-found"), operation.id
            assert (answer.body, answer.headers) == (answers[0].body, answers[0].headers)
    shown = await client.get(victim.messages(f"/{victim.message_id}"), victim.headers)
    assert shown.json()["subject"] == "swordfish"


TRICKS = [
    "attacker@mail.example.com/../victim@mail.example.com",
    "attacker@mail.example.com%2f..%2fvictim@mail.example.com",
    "attacker@mail.example.com,victim@mail.example.com",
    "attacker@mail.example.com%00victim@mail.example.com",
    "attacker@mail.example.com%20victim@mail.example.com",
    "%22attacker@mail.example.com%22@mail.example.com",
    "attacker%@victim@mail.example.com",
    "@mail.example.com:victim@mail.example.com",
    "*@mail.example.com",
    "%25@mail.example.com",
    "victi_@mail.example.com",
    "v%C4%B1ctim@mail.example.com",
    "vict%D1%96m@mail.example.com",
    "victim@mail.example.com.",
    "victim@TMPMAILD%E3%80%82example",
    "1",
    "postmaster@mail.example.com",
    "abuse@mail.example.com",
]


READ = [operation.path for operation in OF_ADDRESS if operation.method == "GET"]
LISTED = "/api/v1/addresses/{address}/messages"


async def test_no_form_of_an_address_opens_an_inbox_it_does_not_name(client, attacker, victim, subtests):
    for trick in TRICKS:
        with subtests.test(trick=trick):
            for path in (*READ, f"{LISTED}?q=swordfish", f"{LISTED}?wait=1"):
                target = path.format(address=trick, id=victim.message_id, index=0, secret="x")
                answer = await client.get(target, attacker.headers, stays="wait" in path)
                assert b"swordfish" not in answer.body, path
                if victim.address not in answer.body.decode():
                    assert answer.status in (404, 422), path


async def test_filters_positions_and_streams_stay_in_their_inbox(client, attacker, victim):
    async def ask(query):
        target = f"/api/v1/addresses/{attacker.address}/messages?{query}"
        answers[query] = await client.get(target, attacker.headers, stays=True)

    queries = ["q=swordfish", "from=bank", "after=msg_" + "0" * 26, f"before={victim.message_id}", "q=%25", "q=_"]
    answers = {}
    async with anyio.create_task_group() as tasks:  # send the requests in parallel, because each wait takes a second
        for query in [*queries, *(f"wait=1&{query}" for query in queries)]:
            tasks.start_soon(ask, query)
    assert len(answers) == 12
    for query, answer in answers.items():
        assert b"swordfish" not in answer.body, query
        assert victim.message_id.encode() not in answer.body, query


async def test_the_token_of_one_inbox_is_invalid_for_a_different_inbox(client, attacker, victim):
    for operation in OF_ADDRESS:
        if victim.private or operation.security == "required":
            answer = await client.ask(operation.method, victim.path(operation), attacker.headers, BODY)
            assert answer.status == 404, operation.id
    assert (await client.get(victim.messages(), victim.headers)).json()["messages"]


async def test_a_message_to_two_inboxes_shows_each_inbox_only_its_own_recipient(world, client):
    one, other = await client.create(local_part="one"), await client.create(local_part="other")
    inbox_ids = [(await world.service.access.find(held["address"])).id for held in (one, other)]
    recipients = ("one+x@mail.example.com", "other+y@mail.example.com")
    envelope = Envelope("a@example.org", recipients, "client.example", "192.0.2.7", tls=False)
    await world.service.deliverer.deliver(envelope, inbox_ids, RAW)
    for held, mine, theirs in ((one, "one+x", "other"), (other, "other+y", "one")):
        path = f"/api/v1/addresses/{held['address']}/messages"
        (message,) = (await client.get(path)).json()["messages"]
        assert message["to"] == f"{mine}@mail.example.com"
        for tail in ("", f"/{message['id']}", f"/{message['id']}/raw"):
            answer = await client.get(path + tail)
            assert f"{theirs}@mail.example.com".encode() not in answer.body
            assert f"{theirs}+".encode() not in answer.body
