"""``GET /api/v1/addresses/{address}/messages``, and the address itself."""

import asyncio
import re
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

from tmpmaild.http.messages import MessageEndpoints
from tmpmaild.http.responses import ResponseSlots, StreamSlots
from tmpmaild.http.schemas import Serializer
from tmpmaild.model import Page

from .conftest import bearer, expected

RAW = Path(__file__).with_name("messages-listed.eml").read_bytes()

UNKNOWN = "/api/v1/addresses/unknown@mail.example.com"


def path(address, query=""):
    return f"/api/v1/addresses/{address}/messages{query}"


@pytest.fixture
async def inbox(client):
    return (await client.create(local_part="chosen"))["address"]


@pytest.mark.both_engines
async def test_a_message_shows_exactly_these_fields(world, client, inbox):
    message_id = await world.deliver(inbox, RAW, recipient="Chosen+tag@mail.example.com")
    assert re.fullmatch("msg_[0-9a-z]{26}", message_id)
    assert (await client.get(path(inbox))).json() == {"messages": [expected("listed", message_id)]}


async def follow(client, target):
    """Read all pages by following their ``Link`` fields."""
    pages = []
    while target:
        answer = await client.get(target)
        pages.append([message["id"] for message in answer.json()["messages"]])
        link = answer.header("link")
        match = re.fullmatch('<(/[^>]*)>; rel="next"', link) if link else None
        assert bool(match) is bool(link)
        target = match[1] if match else None
    return pages


@pytest.mark.both_engines
async def test_following_the_links_returns_each_message_once(world, client, inbox):
    ids = sorted(await asyncio.gather(*[world.deliver(inbox) for _ in range(120)]))
    assert await follow(client, path(inbox)) == [ids[:19:-1], ids[19::-1]]
    assert await follow(client, path(inbox, "?order=asc&limit=50&unknown=x")) == [ids[:50], ids[50:100], ids[100:]]
    assert await follow(client, path(inbox, f"?limit=50&after={ids[69]}")) == [ids[:69:-1]]  # there is no next page


async def test_the_next_page_lies_below_the_path_of_the_public_url(world, inbox):
    client = world.client(public_url="https://host.example/mail")
    first, second = await world.deliver(inbox), await world.deliver(inbox)
    answer = await client.get(path("CHOSEN+x@mail.example.com", "?limit=1"), host="evil.example")
    link = f'</mail/api/v1/addresses/{inbox}/messages?limit=1&before={second}>; rel="next"'
    assert answer.header("link") == link
    assert first not in link


async def test_an_impossible_value_is_invalid(client, inbox, subtests):
    for query, parameter in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=+5", "limit"),
        ("limit=1.0", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=%C2%B2", "limit"),
        ("limit=1_0", "limit"),
        ("before=", "before"),
        ("before=x", "before"),
        ("before=msg_", "before"),
        ("before=msg_!!!!!!!!!!!!!!!!!!!!!!!!!!", "before"),
        ("after=", "after"),
        ("after=x", "after"),
        ("after=msg_", "after"),
        ("after=msg_!!!!!!!!!!!!!!!!!!!!!!!!!!", "after"),
        ("order=", "order"),
        ("order=ASC", "order"),
        ("order=newest", "order"),
        ("has=", "has"),
        ("has=codes", "has"),
        ("has=code,link", "has"),
        ("has=code&has=x", "has"),
        ("&has=link&has=link&has=link&has=link&has=link", "has"),
        ("wait=51", "wait"),
        ("wait=-1", "wait"),
        ("wait=x", "wait"),
        ("wait=", "wait"),
        ("wait=1.5", "wait"),
        ("wait=1e1", "wait"),
        ("wait=%2B1", "wait"),
        ("limit=" + "9" * 5000, "limit"),
        ("wait=" + "9" * 400, "wait"),
    ]:
        with subtests.test(query=query, parameter=parameter):
            answer = await client.get(path(inbox, "?" + query))
            assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
            assert [error["pointer"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    "form",
    [
        "CHOSEN@MAIL.EXAMPLE.COM",
        "chosen+tag@mail.example.com",
        "Chosen+a+b@mail.example.com",
        "chosen%40mail.example.com",
        "%63hosen@mail%2Eexample%2Ecom",
        "%22chosen%22@mail.example.com",
    ],
)
async def test_an_address_is_found_in_every_form_that_reaches_it_by_mail(client, inbox, form):
    assert (await client.get(path(form))).json() == {"messages": []}
    assert (await client.get(f"/api/v1/addresses/{form}")).json()["address"] == inbox


MALFORMED = [
    "%00",
    "chosen@mail.example.com%00",
    "chosen@mail.example.com%0A",
    "..",
    "%2E%2E",
    "chosen",
    "@mail.example.com",
    "@",
    "chosen@",
    "postmaster@",
    "@hop.test:chosen@mail.example.com",
    "%FF@mail.example.com",
    "chosen@%ED%A0%80",
    "%2F",
    "chosen%2F@mail.example.com",
    "ch%C3%B6sen@mail.example.com",
    "%E2%84%AAelvin@mail.example.com",
    "chosen@[127.0.0.1]",
    "chosen @mail.example.com",
    "<chosen@mail.example.com>",
    "%25",
    "%",
    "postmaster",
    "postmaster@mail.example.com",
    "abuse@mail.example.com",
    "a" * 10_000,
    "a" * 10_000 + "@mail.example.com",
]


async def test_an_address_that_does_not_exist_here_is_not_found(client, inbox, subtests):
    for form in MALFORMED:
        with subtests.test(form=form):
            for target in (path(form), f"/api/v1/addresses/{form}"):
                answer = await client.get(target)
                assert answer.status == 404
                assert answer.json()["code"] in {"address-not-found", "not-found"}


@pytest.mark.parametrize(
    "target", ["%0A", "/", "//", "/chosen@mail.example.com/messages%0A", "/chosen@mail.example.com/messages/"]
)
async def test_a_path_must_match_to_its_end(client, inbox, target):
    for method in ("GET", "POST"):
        answer = await client.ask(method, "/api/v1/addresses" + target)
        assert (answer.status, answer.header("location")) == (404, None)


@pytest.mark.both_engines
async def test_an_address_lives_to_the_millisecond(world, client, inbox, clock):
    await world.deliver(inbox)
    clock.advance(seconds=3600, ms=-1)
    assert (await client.get(path(inbox))).status == 200
    clock.advance(ms=1)
    for target in (path(inbox), f"/api/v1/addresses/{inbox}"):
        answer = await client.get(target)
        assert (answer.status, answer.json()["code"]) == (410, "address-expired")
        assert answer.json()["detail"] == "chos…@mail.example.com expired or was deleted at 2026-09-21T15:13:20.000Z."


@pytest.mark.parametrize("suffix", ["", "/messages"])
async def test_a_private_address_looks_nonexistent_without_its_token(client, clock, suffix):
    created = await client.create(local_part="hidden", private=True)
    target = f"/api/v1/addresses/{created['address']}{suffix}"
    for _ in range(2):  # the address is live at first, and then expired
        never = await client.get(UNKNOWN + suffix)
        refused = [{}, bearer("wrong"), bearer(""), {"Authorization": created["token"]}, {"Authorization": "Basic x"}]
        for headers in refused:
            answer = await client.get(target, headers)
            assert (answer.status, answer.headers, answer.body) == (404, never.headers, never.body)
        clock.advance(seconds=3600)


@pytest.mark.both_engines
async def test_bodies_are_complete_up_to_a_total_of_4_mib(world, client, inbox):
    for letter in (b"a", b"b", b"c"):
        await world.deliver(inbox, b"Subject: large\r\n\r\n" + (letter * 99 + b"\r\n") * 19_000)
    answer = await client.get(path(inbox))
    newest, middle, oldest = answer.json()["messages"]
    assert int(answer.header("content-length")) == len(answer.body)
    assert answer.header("content-type") == "application/json"
    assert [len(message["body"]) >= 1_900_000 - 1 for message in (newest, middle, oldest)] == [True, True, False]
    assert "truncated" not in newest
    assert "truncated" not in middle
    assert oldest["truncated"] is True
    assert len(oldest["body"].encode()) == 1024
    assert (await client.get(path(inbox, "?order=asc"))).json()["messages"] == [oldest, middle, newest]


def many_attachments(count, name="x" * 200):
    part = f"--b\r\nContent-Type: application/x; name={name}\r\n\r\n"
    return f"Content-Type: multipart/mixed; boundary=b\r\n\r\n{part * count}--b--\r\n".encode()


async def test_a_page_ends_before_its_attachment_names_exceed_a_limit(world, client, inbox):
    sent = [await world.deliver(inbox, many_attachments(900)) for _ in range(12)]
    pages = await follow(client, path(inbox))
    assert list(chain(*pages)) == sent[::-1]
    assert max(map(len, pages)) < 12
    assert len((await client.get(path(inbox))).body) < 6_000_000
    assert list(chain(*await follow(client, path(inbox, "?q=sender")))) == sent[::-1]


async def test_a_page_is_rendered_once_and_forgotten_with_its_listing(world, inbox):
    endpoints = MessageEndpoints(world.service, Serializer(""), ResponseSlots(world.service.scheduler), StreamSlots(0))
    listing = await world.service.mail.list(inbox, Page())
    answer = endpoints._small_page(listing, Page())
    assert answer.body == b'{"messages":[]}'
    assert endpoints._small_page(listing, Page()) is answer
    assert endpoints._small_page(replace(listing, messages=()), Page()) is not answer
    assert len(endpoints._pages) == 1  # a cached page is dropped along with its listing
