"""Extending and deleting addresses, and listing the domains."""

import json

import pytest

from tmpmaild.errors import AddressNotFound
from tmpmaild.http.app import OPERATIONS
from tmpmaild.model import rfc3339

from .conftest import bearer

NOBODY = "never@mail.example.com"


class Held:
    """An inbox and its token, with the requests that its owner can make."""

    def __init__(self, client, created):
        self.client = client
        self.address = created["address"]
        self.token = created["token"]
        self.path = f"/api/v1/addresses/{self.address}"

    async def ask(self, method, tail="", body=None, token=None):
        octets = json.dumps(body).encode() if isinstance(body, dict) else body or b""
        return await self.client.ask(method, self.path + tail, bearer(token or self.token), octets)


@pytest.fixture
async def held(client):
    return Held(client, await client.create(local_part="chosen"))


@pytest.fixture
async def private(client):
    return Held(client, await client.create(local_part="secret", private=True))


@pytest.mark.both_engines
async def test_a_deleted_address_is_reported_like_an_expired_address(world, client, held):
    message_id = await world.deliver(held.address)
    answer = await held.ask("DELETE")
    assert (answer.status, answer.body) == (204, b"")
    for tail in ("", "/messages", f"/messages/{message_id}", f"/messages/{message_id}/raw", "/events"):
        answer = await client.get(held.path + tail)
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")
    assert (await held.ask("DELETE")).status == 410
    with pytest.raises(AddressNotFound):
        await world.deliver(held.address)


CHANGES = [operation for operation in OPERATIONS if operation.security == "required"]
changing = pytest.mark.parametrize("change", CHANGES, ids=lambda operation: operation.id)


@changing
async def test_changing_without_a_token_is_401_for_every_address(client, held, private, change):
    for address in (held.address, private.address, NOBODY, "%00"):
        path = change.path.format(address=address, id="x")
        answer = await client.ask(change.method, path, body=b'{"expires_in_seconds": 5}')
        assert (answer.status, answer.json()["code"]) == (401, "unauthorized")
        assert answer.header("www-authenticate") == "Bearer"


@pytest.mark.both_engines
@changing
async def test_changing_with_a_wrong_token_is_the_404_of_an_address_that_never_existed(
    client, held, private, clock, change
):
    async def answers():
        for address in (held.address, private.address, NOBODY):
            path = change.path.format(address=address, id="x")
            answer = await client.ask(change.method, path, bearer("wrong"), body=b'{"expires_in_seconds": 5}')
            yield answer.status, answer.body, sorted(answer.headers)

    found = [one async for one in answers()]
    clock.advance(seconds=3600)
    found += [one async for one in answers()]
    assert all(one == found[0] for one in found)
    assert found[0][0] == 404


@pytest.mark.both_engines
async def test_an_address_can_be_shortened(client, held, clock):
    answer = await held.ask("PATCH", body={"expires_in_seconds": 60})
    assert answer.status == 200
    assert answer.json()["expires_at"] == "2026-09-21T14:14:20.000Z"
    assert answer.json()["extendable_until"] == "2026-09-21T15:13:20.000Z"
    assert "token" not in answer.json()
    clock.advance(seconds=59)
    assert (await client.get(held.path)).json()["expires_at"] == "2026-09-21T14:14:20.000Z"
    clock.advance(seconds=1)
    assert (await client.get(held.path)).status == 410
    assert (await held.ask("PATCH", body={"expires_in_seconds": 60})).status == 410


@pytest.mark.parametrize("written", [b"100", b"100.0", b"1e2", b"1E+2", b"1000e-1", b"100.000"])
async def test_a_number_without_a_fraction_is_an_integer_however_it_is_written(held, clock, written):
    """JSON Schema, which describes our request bodies, treats such a number as an integer."""
    answer = await held.ask("PATCH", body=b'{"expires_in_seconds": %b}' % written)
    assert (answer.status, answer.json()["expires_at"]) == (200, rfc3339(clock() + 100_000))


async def test_an_impossible_extension_is_refused(held, subtests):
    for body, status, pointer in [
        (b"", 422, "/expires_in_seconds"),
        (b"{}", 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": 0}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": -1}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": 1.5}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": "5"}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": true}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": null}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": []}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": 100.5}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": 1e400}', 422, "/expires_in_seconds"),
        (b'{"expires_in_seconds": 1e300}', 422, "/expires_in_seconds"),
        (b"[]", 422, ""),
        (b"{", 400, None),
        (b'{"expires_in_seconds": 1', 400, None),
        (b"\xff", 400, None),
        (b"x" * 65_537, 413, None),
        (b'{"expires_in_seconds": %b}' % (b"9" * 400), 422, "/expires_in_seconds"),
    ]:
        with subtests.test(body=body):
            answer = await held.ask("PATCH", body=body)
            assert answer.status == status
            if status == 422:
                assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.both_engines
async def test_deleting_works_while_the_storage_accepts_no_new_data(open_world):
    async with open_world(max_bytes=2_000_000, reserve_bytes=400_000) as world:
        client = world.client()
        held = Held(client, await client.create())
        message_id = await world.deliver(held.address, b"\r\n" + b"x" * 500_000)
        while world.service.deliverer.has_room():
            await world.deliver(held.address, b"\r\n" + b"x" * 50_000)
        assert (await client.post()).status == 503
        assert (await held.ask("DELETE", f"/messages/{message_id}")).status == 204
        assert (await held.ask("DELETE")).status == 204
