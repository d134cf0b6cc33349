"""``POST /api/v1/addresses``."""

import re
from ipaddress import ip_network

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.model import rfc3339

from .conftest import LIFETIME_MS

PATH = "/api/v1/addresses"
JSON = {"Content-Type": "application/json"}


@pytest.mark.both_engines
async def test_an_empty_body_creates_an_address_and_its_location_shows_it_without_its_token(client):
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
    found = await client.get(answer.header("location"))
    assert (found.status, found.json()) == (200, {name: created[name] for name in created if name != "token"})


async def test_a_random_name_has_59_bits(client):
    names = [(await client.create())["address"].partition("@")[0] for _ in range(20)]
    assert len(set(names)) == 20
    assert all(re.fullmatch("[abcdefghjkmnpqrstuvwxyz][abcdefghjkmnpqrstuvwxyz2-9]{11}", name) for name in names)


async def test_json_needs_its_media_type_or_no_media_type(client, subtests):
    for content_type, body, status in [
        ("application/json", b'{"domain":"second.test"}', 201),
        ("application/json; charset=utf-8", b"{}", 201),
        ("Application/JSON", b"{}", 201),
        (None, b"{}", 201),
        ("application/json", b"", 201),
        ("text/plain", b"", 201),
        ("application/x-www-form-urlencoded", b"", 201),
        ("nonsense", b"", 201),
        ("", b"", 201),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("text/plain", b"{}", 415),
        ("application/jsonp", b"{}", 415),
        ("", b"{}", 415),
    ]:
        with subtests.test(content_type=content_type):
            headers = {} if content_type is None else {"Content-Type": content_type}
            assert (await client.post(body=body, headers=headers)).status == status


BROKEN = [
    b" ",
    b"{",
    b"{}x",
    b"{'a': 1}",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"local_part": "\xff"}',
    b'{"\xff": 1}',
    b'{"local_part": "\\ud800"}',
    b'{"local_part": "\xed\xa0\x80"}',
    b"\x00",
    b"[" * 60_000,
    b'{"a":' * 10_000,
]


async def test_broken_json_is_malformed(client, subtests):
    for body in BROKEN:
        with subtests.test(body=body):
            answer = await client.post(body=body, headers=JSON)
            assert (answer.status, answer.json()["code"]) == (400, "malformed-request")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"1", b"true"])
async def test_json_that_is_not_an_object_is_invalid(client, body):
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


async def test_a_reserved_or_malformed_name_is_invalid(client, subtests):
    for local_part in [
        "postmaster",
        "Abuse",
        "ssladmin",
        "ab",
        ".abc",
        "abc.",
        "a..b",
        "a b",
        "a@b",
        "a/b",
        "äbc",
        "a+b",
        "",
        "a" * 65,
        "\0" * 5,
    ]:
        with subtests.test(local_part=local_part):
            answer = await client.post(body={"local_part": local_part})
            assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
            assert [error["pointer"] for error in answer.json()["errors"]] == ["/local_part"]


@pytest.mark.both_engines
async def test_a_lifetime_can_be_chosen_up_to_the_operators_limit(open_world, clock):
    for max_lifetime_seconds, longest in ((0, 3600), (86_400, 86_400)):
        async with open_world(max_lifetime_seconds=max_lifetime_seconds) as world:
            client = world.client()
            told = (await client.get("/api/v1/domains")).json()
            assert told == {
                "domains": ["mail.example.com", "second.test"],
                "lifetime_seconds": 3600,
                "max_lifetime_seconds": longest,
            }
            for asked, lives in ((1, 1), (600.0, 600), (longest, longest)):
                created = await client.create(expires_in_seconds=asked)
                assert created["expires_at"] == rfc3339(clock() + lives * 1000)
                assert created["extendable_until"] == rfc3339(clock() + longest * 1000)
            for asked in (longest + 1, 10**400):
                refused = await client.post(body={"local_part": f"up-to-{longest}", "expires_in_seconds": asked})
                (error,) = refused.json()["errors"]
                assert (refused.status, error["pointer"]) == (422, "/expires_in_seconds")
            assert (await client.create(local_part=f"up-to-{longest}"))["expires_at"] == rfc3339(clock() + LIFETIME_MS)


async def test_a_body_over_64_kib_is_too_large(client):
    fits = b'{"a":"' + b"x" * (64 * 1024 - 8) + b'"}'
    assert (await client.post(body=fits)).status == 201
    answer = await client.post(body=fits + b" ")
    assert (answer.status, answer.json()["code"]) == (413, "body-too-large")
    answer = await client.post(parts=[b'{"local_part":"chosen"}', None])
    assert answer.status == 400
    assert (await client.get(f"{PATH}/chosen@mail.example.com")).status == 404


@pytest.mark.both_engines
async def test_mail_counts_for_the_creator_of_its_address_unless_exempt(open_world):
    async with open_world(max_share_per_creator=1e-9) as world:
        counted = await world.client().create()
        with pytest.raises(MailboxFull):
            await world.deliver(counted["address"], b"\r\n")
        exempt = await world.client(exempt=[ip_network("192.0.2.1")]).create()
        assert await world.deliver(exempt["address"], b"\r\n")
