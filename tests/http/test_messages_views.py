"""``POST …/view``, and the page at the path it returns."""

import asyncio
from pathlib import Path

import anyio
import pytest
from services import all_turns

from patience import PATIENCE_SECONDS
from tmpmaild.http.responses import IN_LOOP_BYTES
from tmpmaild.inboxes import viewing
from tmpmaild.inboxes.viewing import LIFETIME_MS
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.scheduling.turns import LIGHT_BYTES

from .streams import until

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RAW = Path(__file__).with_name("messages-views.eml").read_bytes()


async def view(client, address, message_id, body=b"", headers=()):
    return await client.post(f"/api/v1/addresses/{address}/messages/{message_id}/view", body, headers)


@pytest.mark.both_engines
async def test_a_view_is_a_path_that_works_for_a_minute(world, client, held, clock):
    message_id = await world.deliver(held["address"], RAW)
    answer = await view(client, held["address"], message_id)
    assert answer.status == 201
    found = answer.json()
    assert answer.header("location") == found["url"]
    assert len(found["url"]) >= len("/view/") + 22  # 128 bits
    assert found["expires_at"] == "2026-09-21T14:14:20.000Z"
    assert found["remote_images"] == 2
    for _ in range(2):
        assert (await client.get(found["url"])).status == 200
    clock.advance(ms=LIFETIME_MS)
    answer = await client.get(found["url"])
    assert (answer.status, answer.json()["code"]) == (404, "not-found")


async def test_the_page_is_sanitised_and_behind_a_policy(world, client, held):
    message_id = await world.deliver(held["address"], RAW)
    answer = await client.get((await view(client, held["address"], message_id)).json()["url"])
    assert answer.header("content-type") == "text/html; charset=utf-8"
    assert answer.header("content-security-policy") == (
        "sandbox allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox; default-src 'none'; "
        "img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
    )
    assert answer.header("cache-control") == "no-store"
    page = answer.body.decode()
    assert "<h1>Hello</h1>" in page
    assert "steal" not in page
    assert f"data:image/png;base64,{PIXEL}" in page
    assert "shop.example/logo.png" not in page
    assert 'href="https://shop.example/confirm"' in page


async def test_listed_origins_may_frame_a_view(world, held):
    message_id = await world.deliver(held["address"], RAW)
    client = world.client(cors_origins=["https://app.example", "http://localhost:3000"])
    answer = await client.get((await view(client, held["address"], message_id)).json()["url"])
    policy = answer.header("content-security-policy")
    assert policy.endswith("; frame-ancestors 'self' https://app.example http://localhost:3000")


@pytest.mark.parametrize("raw", [RAW, b"\r\nplain text\r\n"])
@pytest.mark.parametrize(
    ("public_url", "host"), [("https://tmp.example:8443/mail", "tmp.example:8443"), ("", "mail.example.com")]
)
async def test_a_view_in_its_own_tab_names_the_service(world, held, raw, public_url, host):
    message_id = await world.deliver(held["address"], raw)
    client = world.client(public_url=public_url)
    path = (await view(client, held["address"], message_id)).json()["url"].removeprefix("/mail")
    said = f"{host} shows you a message that somebody sent to a disposable address. {host} did not write it."
    in_tab = (await client.get(path, {"Sec-Fetch-Dest": "document"})).body.decode()
    assert f'content:"{said}"' in in_tab
    for headers in ({}, {"Sec-Fetch-Dest": "iframe"}):
        assert said not in (await client.get(path, headers)).body.decode()


async def test_remote_images_are_included_on_request(world, client, held):
    message_id = await world.deliver(held["address"], RAW)
    found = (await view(client, held["address"], message_id, {"remote_images": True})).json()
    answer = await client.get(found["url"])
    assert "img-src data: https:;" in answer.header("content-security-policy")
    assert 'src="https://shop.example/logo.png"' in answer.body.decode()
    assert "http://track.example" not in answer.body.decode()


async def test_a_message_without_html_is_shown_as_text(world, client, held):
    message_id = await world.deliver(held["address"], b"\r\n<script>one</script>\r\n  two & three\r\n")
    page = (await client.get((await view(client, held["address"], message_id)).json()["url"])).body.decode()
    assert "&lt;script&gt;one&lt;/script&gt;\n  two &amp; three" in page


async def test_the_title_names_sender_and_subject_without_markup(world, client, held):
    raw = b'From: Eve & Co <eve@evil.example>\r\nSubject: </title>"</style>\\\r\n\r\n<base target=_blank>\r\n'
    message_id = await world.deliver(held["address"], raw)
    page = (await client.get((await view(client, held["address"], message_id)).json()["url"])).body.decode()
    assert "<title>&lt;/title&gt;&quot;&lt;/style&gt;\\ · Eve &amp; Co</title>" in page
    assert r'content:"\3c \2f title\3e \22 \3c \2f style\3e \5c  \b7  Eve \26  Co \b7  20' in page
    assert page.count("<title>") == 1


async def test_a_page_is_rendered_once_for_its_path_and_its_first_view(world, client, held):
    message_id = await world.deliver(held["address"], RAW)
    url = (await view(client, held["address"], message_id)).json()["url"]
    async with all_turns(world.service.scheduler):  # rendering the page again would block
        with anyio.fail_after(PATIENCE_SECONDS):
            first = await client.get(url)
    assert (await client.get(url)).body == first.body


async def test_pages_are_kept_up_to_a_bound(world, client, held, monkeypatch):
    message_id = await world.deliver(held["address"], RAW)
    for _ in range(6):
        await view(client, held["address"], message_id)
    (one, *others) = world.service.viewer._pages.values()
    assert len(others) == 3
    world.service.viewer._pages.clear()
    monkeypatch.setattr(viewing, "_MAX_PAGE_CHARACTERS", 2 * len(one.html) + 1)
    for _ in range(6):
        await view(client, held["address"], message_id)
    assert len(world.service.viewer._pages) == 2


async def test_a_page_that_is_not_requested_is_dropped(world, client, held, monkeypatch):
    monkeypatch.setattr(viewing, "_PAGE_SECONDS", 0)
    message_id = await world.deliver(held["address"], RAW)
    await view(client, held["address"], message_id)
    await until(lambda: not world.service.viewer._pages)


async def test_a_client_that_requests_many_views_does_not_delay_others(world, client, held):
    message_id = await world.deliver(held["address"], RAW)
    path, scheduler = f"/api/v1/addresses/{held['address']}/messages/{message_id}/view", world.service.scheduler
    scheduler.usage.charge("192.0.2.1", 1)
    answered = []

    async def ask(peer):
        answer = await client.ask("POST", path, peer=peer)
        answered.append((peer, answer.status))

    one_thread = scheduler.turn(0, "holder")
    await one_thread.__aenter__()
    async with scheduler.turn(0, "holder"), asyncio.TaskGroup() as tasks:
        for peer in ["192.0.2.1"] * 5 + ["192.0.2.2"]:
            tasks.create_task(ask(peer))
        await until(lambda: len(scheduler._queue) == 6)
        await one_thread.__aexit__(None, None, None)
    assert answered[0] == ("192.0.2.2", 201)
    assert answered[1:] == [("192.0.2.1", 201)] * 5


async def test_a_small_message_is_viewed_while_a_large_one_is_rendered(world, client, held):
    small = await world.deliver(held["address"], RAW)
    large = await world.deliver(held["address"], b"Content-Type: text/html\r\n\r\n" + b"<p>x" * 25_000)
    scheduler = world.service.scheduler
    async with scheduler.turn(LIGHT_BYTES + 1, "holder"):
        waiting = asyncio.ensure_future(view(client, held["address"], large))
        await until(lambda: len(scheduler._queue) == 1)
        assert (await view(client, held["address"], small)).status == 201
        assert not waiting.done()
    assert (await waiting).status == 201


@pytest.mark.parametrize("end", ["inbox", "message", "clock"])
async def test_a_large_view_that_ends_while_waiting_or_rendering_is_not_found(world, client, held, end):
    message_id = await world.deliver(held["address"], RAW + b" " * IN_LOOP_BYTES)
    url = (await view(client, held["address"], message_id)).json()["url"]
    # Uses the page that was rendered in advance; later requests render it again.
    assert (await client.get(url)).status == 200
    scheduler, found = world.service.scheduler, []
    async with all_turns(scheduler):
        looking = [asyncio.ensure_future(client.get(url)) for _ in range(2)]
        await until(lambda: len(scheduler._queue) == 2)
        await world.storage._reader.run(lambda connection: connection.set_trace_callback(found.append))
        looking.append(asyncio.ensure_future(client.get(url)))  # the client already has its two slots
        await until(lambda: any("FROM message" in sql for sql in found))
        await anyio.sleep(0.01)
        await world.end(end, held, message_id)
    for answer in await asyncio.gather(*looking):
        assert (answer.status, answer.json()["code"]) == (404, "not-found")


async def test_views_have_a_separate_limit(world, held):
    world.page_buckets = TokenBuckets(120, 3, name="page")
    client = world.client(TokenBuckets(10, 1))
    message_id = await world.deliver(held["address"], RAW)
    path = f"/api/v1/addresses/{held['address']}/messages/{message_id}"
    made = await view(client, held["address"], message_id)
    shown = await client.get(made.json()["url"])
    for left, answer in ((2, made), (1, shown)):
        assert answer.header("ratelimit-policy") == '"page";q=120;w=60'
        assert answer.header("ratelimit") == f'"page";r={left};t=1'
    assert (await client.get(path)).status == 200
    assert (await client.get(path)).status == 429
    assert (await view(client, held["address"], message_id)).status == 201
    refused = await view(client, held["address"], message_id)
    assert (refused.status, refused.header("ratelimit-policy")) == (429, '"page";q=120;w=60')
    assert (refused.header("retry-after"), refused.header("cache-control")) == ("1", "no-store")


@pytest.mark.parametrize(
    ("method", "end"),
    [
        ("GET", "/view"),
        ("HEAD", "/view"),
        ("post", "/view"),
        ("POST", "/view/"),
        ("POST", "/view%0A"),
        ("POST", "/x/view"),
    ],
)
async def test_requests_similar_to_making_a_view_count_for_the_api_limit(world, held, method, end):
    world.page_buckets = TokenBuckets(120, 120, name="page")
    path = f"/api/v1/addresses/{held['address']}/messages/{await world.deliver(held['address'], RAW)}"
    answer = await world.client(TokenBuckets(10, 10)).ask(method, path + end)
    assert answer.header("ratelimit") == '"default";r=9;t=6'


async def test_addresses_cannot_be_guessed_at_the_rate_of_views(world, held):
    """A refused view also uses a token of the API limit.

    If no tokens are left, the response does not reveal the reason.
    """
    world.page_buckets = TokenBuckets(120, 120, name="page")
    client = world.client(TokenBuckets(10, 3))
    message_id = await world.deliver(held["address"], RAW)
    nobody = "nobody@mail.example.com"
    answers = [await view(client, address, message_id) for address in (nobody, "a%2Fb", nobody)]
    assert [answer.status for answer in answers] == [404, 404, 404]
    assert answers[0].header("ratelimit") == '"default";r=2;t=6'
    refused = [await view(client, address, one) for address, one in ((nobody, message_id), (held["address"], "msg_0"))]
    assert [(answer.status, answer.json()["code"]) for answer in refused] == [(429, "rate-limited")] * 2
    assert [answer.header("ratelimit") for answer in refused] == ['"default";r=0;t=6'] * 2
    assert [answer.header("x-content-type-options") for answer in refused] == ["nosniff"] * 2
    assert (await view(client, held["address"], message_id)).status == 201
