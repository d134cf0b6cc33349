"""``GET …/feed``: an inbox for feed readers, requested by its address or by a secret path."""

import asyncio

import atomrules
import pytest
from msgspec.structs import replace

from tmpmaild.errors import AddressNotFound
from tmpmaild.inboxes.access import FeedSecret

CODE = (
    b"From: Shop <shop@shop.example>\r\nSubject: Confirm <now>\r\n\r\nYour code is 481516, "
    b"or follow https://shop.example/confirm?a=1&b=2\r\n"
)
HTML = b"Subject: HTML\r\nContent-Type: text/html\r\n\r\n<p onclick=steal()>Hello &amp; <b>welcome</b></p><script>steal()</script>"
LARGE = b"Subject: large\r\n\r\n" + b"<&" * 40_000


def path(held, rest=""):
    return f"/api/v1/addresses/{held['address']}/feed{rest}"


def bearer(held):
    return {"Authorization": f"Bearer {held['token']}"}


@pytest.fixture
async def private(client):
    return await client.create(local_part="hidden", private=True)


async def secret_url(client, held):
    answer = await client.post(path(held), headers=bearer(held))
    assert answer.status == 201, answer.body
    return answer.json()["url"]


async def code_of(client, target, headers=()):
    answer = await client.get(target, headers)
    return answer.status, answer.json()["code"] if answer.status >= 400 else None


@pytest.mark.both_engines
async def test_the_newest_message_is_first_with_its_code_and_its_link(world, client, held):
    await world.deliver(held["address"], HTML)
    message_id = await world.deliver(held["address"], CODE)
    answer = await client.get(path(held))
    assert (answer.status, answer.header("content-type")) == (200, "application/atom+xml")
    assert (answer.header("cache-control"), answer.header("x-content-type-options")) == ("no-store", "nosniff")
    assert "default-src 'none'" in answer.header("content-security-policy")
    (entry, title, text), (_, _, html) = atomrules.entries(answer.body)
    assert title == "Confirm <now>"
    assert text.startswith("Code: 481516\nLink: https://shop.example/confirm?a=1&b=2\n\nYour code is 481516")
    assert html == "Hello & welcome"
    assert (await client.get(atomrules.link(entry, "alternate"))).json()["id"] == message_id
    assert b"steal" not in answer.body


async def test_a_feed_has_the_newest_fifty_messages_with_permanent_ids(world, client, held):
    for number in range(51):
        await world.deliver(held["address"], b"Subject: %d\r\n\r\n" % number)
    first = atomrules.entries((await client.get(path(held))).body)
    assert [title for _, title, _ in first] == [str(number) for number in range(50, 0, -1)]
    await world.deliver(held["address"])
    second = atomrules.entries((await client.get(path(held))).body)
    ids = [[atomrules.texts(entry, "id") for entry, _, _ in each] for each in (first, second)]
    assert ids[1][1:] == ids[0][:-1]


@pytest.mark.both_engines
async def test_a_feed_is_sent_again_only_when_it_has_changed(world, client, held):
    async def status(tag):
        answer = await client.get(path(held), {"If-None-Match": tag})
        assert (answer.status == 304) == (answer.header("etag") == tag)
        assert (answer.status == 304) == (not answer.body)
        return answer.status, answer.header("etag")

    first_id = await world.deliver(held["address"])
    answer = await client.get(path(held))
    tag = answer.header("etag")
    assert tag.startswith('"')
    assert (await client.get(path(held))).body == answer.body
    assert (await client.get(path(held), {"If-None-Match": f'"other", W/{tag}'})).status == 304
    seen = {tag}
    for change in (
        world.deliver(held["address"]),
        world.service.inboxes.delete_message(held["address"], first_id, held["token"]),
    ):
        assert await status(tag) == (304, tag)
        await change
        code, tag = await status(tag)
        assert code == 200
        assert tag not in seen
        seen.add(tag)


async def test_an_unchanged_feed_is_not_rendered_again(world, client, held, monkeypatch):
    await world.deliver(held["address"], LARGE)
    answer = await client.get(path(held))
    monkeypatch.delattr("tmpmaild.http.feed._entry")  # rendering a feed entry again would fail
    again = await client.get(path(held), {"If-None-Match": answer.header("etag")})
    assert (again.status, again.body) == (304, b"")
    assert again.header("cache-control") == "no-store"


async def test_links_are_absolute_if_the_public_url_is_set(world, held):
    await world.deliver(held["address"])
    client = world.client(public_url="https://host.example/mail")
    body = (await client.get(path(held))).body
    ((entry, _, _),) = atomrules.entries(body)
    assert atomrules.link(entry, "alternate").startswith(
        f"https://host.example/mail/api/v1/addresses/{held['address']}"
    )
    assert f'rel="self" type="application/atom+xml" href="https://host.example/mail{path(held)}"'.encode() in body
    assert f'href="https://host.example/mail/#{held["address"]}"'.encode() in body


@pytest.mark.both_engines
async def test_a_private_feed_is_read_with_the_token_or_by_its_secret_path(world, client, private):
    await world.deliver(private["address"], CODE)
    assert await code_of(client, path(private)) == (404, "address-not-found")
    url = await secret_url(client, private)
    assert url.startswith(path(private, "/"))
    assert len(url.rpartition("/")[2]) == 43  # 256 bits
    by_token, by_secret = await client.get(path(private), bearer(private)), await client.get(url)
    assert len(atomrules.entries(by_token.body)) == len(atomrules.entries(by_secret.body)) == 1
    assert url.encode() in by_secret.body
    assert url.encode() not in by_token.body
    assert private["token"].encode() not in by_secret.body
    assert await secret_url(client, private) == url  # the next request returns the same secret URL


@pytest.mark.both_engines
async def test_a_private_inbox_gives_its_secret_only_to_its_owner(client, held, private):
    never = await client.post("/api/v1/addresses/never@mail.example.com/feed")
    for headers in ((), {"Authorization": "Bearer wrong"}, bearer(held)):
        answer = await client.post(path(private), headers=headers)
        assert (answer.status, answer.body, answer.headers) == (404, never.body, never.headers)


@pytest.mark.both_engines
async def test_a_secret_opens_the_feed_of_its_inbox_and_nothing_else(world, client, held, private):
    await world.deliver(private["address"], CODE)
    secret = (await secret_url(client, private)).rpartition("/")[2]
    for wrong in (secret[:-1], secret + "A", secret.swapcase(), private["token"], "%00", "%ed%a0%80", "é", "a" * 4000):
        assert await code_of(client, path(private, f"/{wrong}")) == (404, "address-not-found"), wrong
    assert await code_of(client, path(held, f"/{secret}")) == (404, "address-not-found")
    assert (await client.get(path(private, "/"))).status == 404
    for rest in ("", "/messages", "/events", "/feed"):
        answer = await client.get(
            f"/api/v1/addresses/{private['address']}{rest}", {"Authorization": f"Bearer {secret}"}
        )
        assert answer.status == 404, rest


async def test_a_feed_needs_a_token_if_every_inbox_does(open_world):
    async with open_world(require_token=True) as world:
        client = world.client()
        held = await client.create()
        assert await code_of(client, path(held)) == (401, "unauthorized")
        assert (await client.post(path(held))).status == 401
        url = await secret_url(client, held)
        assert (await client.get(url)).status == 200
        assert await code_of(client, url[:-1]) == (404, "address-not-found")


@pytest.mark.parametrize("secret", ["", "None"])
async def test_an_inbox_without_a_token_has_no_secret(world, held, secret):
    inbox = replace(await world.service.access.find(held["address"]), token_hash=None)
    with pytest.raises(AddressNotFound):
        world.service.access.admit(inbox, FeedSecret(secret), world.clock())


@pytest.mark.both_engines
async def test_a_feed_ends_with_its_inbox(world, client, held, private, clock):
    url = await secret_url(client, private)
    await world.service.inboxes.delete(held["address"], held["token"])
    assert await code_of(client, path(held)) == (410, "address-expired")
    clock.advance(seconds=3600)
    assert await code_of(client, url) == (410, "address-expired")
    assert await code_of(client, url[:-1]) == (404, "address-not-found")
    assert await code_of(client, path(private)) == (404, "address-not-found")
    clock.advance(seconds=24 * 3600)
    assert await code_of(client, url) == (404, "address-not-found")


async def test_a_large_feed_waits_for_a_slot(world, client, held):
    await world.deliver(held["address"], LARGE)
    ((_, _, text),) = atomrules.entries((await client.get(path(held))).body)
    assert text.rstrip("\n") == "<&" * 40_000
    answers = await asyncio.gather(*[client.get(path(held)) for _ in range(4)])
    assert {answer.status for answer in answers} == {200}


async def test_a_feed_has_a_bound(world, client, held):
    for _ in range(50):
        await world.deliver(held["address"], LARGE)
    answer = await client.get(path(held))
    texts = [text for _, _, text in atomrules.entries(answer.body)]
    assert sum(map(len, texts)) < 300 * 1024 + 50 * 1024
    assert texts[-1].endswith("[…]")
    assert not texts[0].endswith("[…]")
