"""The access log, if it is enabled: it contains one line per request, and no line gives access to an inbox."""

import pytest

from tmpmaild.http.accesslog import AccessLog

HASH = 8


@pytest.fixture
def lines(caplog):
    """Return a function that returns the access log's lines since the function's last call."""
    caplog.set_level("INFO")

    def lines():
        said = [record.getMessage() for record in caplog.records if record.name == "tmpmaild.access"]
        caplog.clear()
        return said

    return lines


async def test_there_is_no_access_log_by_default(world, lines):
    await world.client().get("/api/v1/domains")
    assert lines() == []


async def test_one_inbox_can_be_followed_through_the_log_without_being_identified(world, lines):
    client = world.client(access_log=True)
    created = await client.create(local_part="chosen")
    bearer = {"Authorization": f"Bearer {created['token']}"}
    paths = [
        "/api/v1/addresses/chosen@mail.example.com",
        "/api/v1/addresses/CHOSEN+tag@mail.example.com/messages?q=secret",
        "/api/v1/addresses/other@mail.example.com/messages",
    ]
    for path in paths:
        await client.get(path, bearer)
    creation, first, same, other = lines()
    assert creation.startswith("192.0.2.1 POST /api/v1/addresses 201 ")
    assert creation.endswith(" ms")
    hashes = [line.split("/")[4][:HASH] for line in (first, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert same.startswith(f"192.0.2.1 GET /api/v1/addresses/{hashes[0]}/messages 200 ")
    for secret in ("chosen", "other", "secret", created["token"]):
        assert secret not in creation + first + same + other


@pytest.mark.parametrize(
    ("path", "masked"),
    [
        ("/", "/"),
        ("/view/a-secret", "/view/…"),
        ("/feed/a-secret", "/feed/…"),
        ("/docs\n\x1b", "/docs\\n\\x1b"),
    ],
)
def test_paths_are_in_ascii_and_without_secrets(path, masked):
    assert AccessLog(None, key=b"key").masked(path) == masked


@pytest.mark.parametrize(
    "path",
    [
        "/secret@x.example",
        "/api/v1/addresses/secret/secret@x.example",
        "/api/v2/addresses/secret",
        "/web//secret@x",
        "/View/secret",
        "//view//secret",
        "/./view/secret",
        "/api/v1/Addresses//secret",
        "/secret-------------------------------------",
    ],
)
def test_anything_that_looks_like_an_address_or_a_secret_is_hidden_everywhere(path):
    shown = AccessLog(None, key=b"key").masked(path)
    assert "secret" not in shown
    assert "@" not in shown


async def test_requests_that_are_refused_early_are_logged_too(world, lines):
    client = world.client(access_log=True)
    await client.get("/api/v1/domains", {"Sec-Fetch-Site": "cross-site"})
    await client.ask("GET", "/", host="")
    assert [line.split()[:4] for line in lines()] == [
        ["192.0.2.1", "GET", "/api/v1/domains", "403"],
        ["192.0.2.1", "GET", "/", "400"],
    ]
