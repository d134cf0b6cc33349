"""``POST /api/v1/addresses``."""

import re
from ipaddress import ip_network

import pytest

from tables import rows_of, table
from tmpmaild.errors import MailboxFull
from tmpmaild.model import rfc3339

from .conftest import LIFETIME_MS

ROWS = rows_of(__file__)

PATH = "/api/v1/addresses"
JSON = {"Content-Type": "application/json"}


@pytest.mark.both_engines
async def test_an_empty_body_creates_an_address(client, clock):
    answer = await client.post()
    created = answer.json()
    assert answer.status == 201
    assert answer.header("content-type") == "application/json"
    assert answer.header("location") == f"{PATH}/{created['address']}"
    assert created == {
        "address": created["address"],
        "created_at": "2026-09-21T14:13:20.000Z",
        "expires_at": "2026-09-21T15:13:20.000Z",
        "extendable_until": "2026-09-21T15:13:20.000Z",
        "private": False,
        "message_count": 0,
        "token": created["token"],
    }


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense", ""]
)
async def test_an_empty_body_is_the_plain_create_whatever_its_type(client, content_type):
    assert (await client.post(headers={"Content-Type": content_type})).status == 201


async def test_a_random_name_has_59_bits(client):
    names = [(await client.create())["address"].partition("@")[0] for _ in range(20)]
    assert len(set(names)) == 20
    assert all(re.fullmatch("[abcdefghjkmnpqrstuvwxyz][abcdefghjkmnpqrstuvwxyz2-9]{11}", name) for name in names)


@pytest.mark.both_engines
async def test_the_location_leads_to_the_address_without_its_token(client):
    created = await client.post()
    found = await client.get(created.header("location"))
    assert found.status == 200
    assert found.json() == {name: value for name, value in created.json().items() if name != "token"}


async def test_the_location_lies_below_the_path_of_the_public_url(world):
    client = world.client(public_url="https://host.example/mail")
    answer = await client.post(body={"local_part": "chosen"})
    assert answer.header("location") == "/mail/api/v1/addresses/chosen@mail.example.com"


@pytest.mark.both_engines
async def test_a_wish_is_granted(client):
    created = await client.create(local_part="My.Name_1-x", domain="SECOND.test", private=True)
    assert created["address"] == "my.name_1-x@second.test"
    assert created["private"] is True


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", None])
async def test_json_is_known_by_its_media_type_or_by_none(client, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    assert (await client.post(body=b'{"local_part":"chosen"}', headers=headers)).status == 201


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", "application/jsonp", ""])
async def test_octets_of_another_type_are_refused(client, content_type):
    answer = await client.post(body=b"{}", headers={"Content-Type": content_type})
    assert (answer.status, answer.json()["code"]) == (415, "unsupported-media-type")


BROKEN = [*ROWS["BROKEN"], b"[" * 60_000, b'{"a":' * 10_000]


@table("body", BROKEN)
async def test_broken_json_is_malformed(client, body):
    answer = await client.post(body=body, headers=JSON)
    assert (answer.status, answer.json()["code"]) == (400, "malformed-request")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"1", b"true"])
async def test_json_that_is_no_object_is_invalid(client, body):
    answer = await client.post(body=body, headers=JSON)
    assert answer.status == 422
    assert answer.json()["errors"] == [{"pointer": "", "detail": "expected an object"}]


async def test_every_wrong_type_is_reported_at_once(client):
    wrong = {"local_part": 1, "domain": None, "private": "yes", "expires_in_seconds": True, "other": 1}
    answer = await client.post(body=wrong)
    assert answer.status == 422
    assert answer.json()["code"] == "invalid-request"
    assert answer.json()["errors"] == [
        {"pointer": "/local_part", "detail": "expected a string"},
        {"pointer": "/domain", "detail": "expected a string"},
        {"pointer": "/private", "detail": "expected true or false"},
        {"pointer": "/expires_in_seconds", "detail": "expected a number of 1 or more"},
    ]


@table(
    "local_part",
    [*ROWS["a name nobody may have is invalid"], "a" * 65, "\0" * 5],
)
async def test_a_name_nobody_may_have_is_invalid(client, local_part):
    answer = await client.post(body={"local_part": local_part})
    assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/local_part"]


@pytest.mark.both_engines
async def test_a_lifetime_is_chosen_up_to_what_the_operator_allows(open_world, clock):
    for max_lifetime_seconds, longest in ((0, 3600), (86_400, 86_400)):
        async with open_world(max_lifetime_seconds=max_lifetime_seconds) as world:
            client = world.client()
            told = (await client.get("/api/v1/domains")).json()
            assert (told["lifetime_seconds"], told["max_lifetime_seconds"]) == (3600, longest)
            for asked, lives in ((1, 1), (600.0, 600), (longest, longest)):
                created = await client.create(expires_in_seconds=asked)
                assert created["expires_at"] == rfc3339(clock() + lives * 1000)
                assert created["extendable_until"] == rfc3339(clock() + longest * 1000)
            for asked in (longest + 1, 10**400):
                refused = await client.post(body={"local_part": f"up-to-{longest}", "expires_in_seconds": asked})
                (error,) = refused.json()["errors"]
                assert (refused.status, error["pointer"]) == (422, "/expires_in_seconds")
            assert (await client.create(local_part=f"up-to-{longest}"))["expires_at"] == rfc3339(clock() + LIFETIME_MS)


@pytest.mark.parametrize("domain", ["other.test", "", "mail.example.com.", "\u212aelvin", "a" * 60_000])
async def test_a_domain_that_is_not_ours_is_invalid(client, domain):
    answer = await client.post(body={"domain": domain})
    assert answer.status == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/domain"]
    assert len(answer.body) < 1000


async def test_a_body_over_64_kib_is_too_large(client):
    fits = b'{"a":"' + b"x" * (64 * 1024 - 8) + b'"}'
    assert (await client.post(body=fits)).status == 201
    answer = await client.post(body=fits + b" ")
    assert (answer.status, answer.json()["code"]) == (413, "body-too-large")


async def test_a_body_that_breaks_off_creates_nothing(client):
    answer = await client.post(parts=[b'{"local_part":"chosen"}', None])
    assert answer.status == 400
    assert (await client.get(f"{PATH}/chosen@mail.example.com")).status == 404


@pytest.mark.both_engines
async def test_a_name_is_given_once(client):
    await client.create(local_part="chosen")
    answer = await client.post(body={"local_part": "CHOSEN"})
    assert (answer.status, answer.json()["code"]) == (409, "address-taken")
    assert (await client.post(body={"local_part": "chosen", "domain": "second.test"})).status == 201


@pytest.mark.both_engines
async def test_a_full_storage_says_when_to_come_again(open_world):
    async with open_world(reserve_bytes=1 << 60) as world:
        answer = await world.client().post()
    assert (answer.status, answer.json()["code"]) == (503, "storage-full")
    assert int(answer.header("retry-after")) > 0


async def until_full(world, address):
    """Deliver the smallest mails until the share of who created the address is used up; return how many it took."""
    for taken in range(100):
        try:
            await world.deliver(address, b"\r\n")
        except MailboxFull:
            return taken
    raise AssertionError("never full")


@pytest.mark.both_engines
async def test_mail_counts_against_who_created_its_address_unless_exempt(open_world):
    async with open_world(max_share_per_creator=1e-5) as world:
        most = await until_full(world, (await world.client().create())["address"])
        exempt = world.client(exempt=[ip_network("192.0.2.1")])
        for _ in range(2):
            address = (await exempt.create())["address"]
            for _ in range(most):
                await world.deliver(address, b"\r\n")
