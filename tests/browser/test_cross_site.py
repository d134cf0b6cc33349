"""Requests that other sites can make a real browser send to the API have no effect and use no rate limit tokens."""

from itertools import product
from types import SimpleNamespace

import anyio
import pytest

from scripts import scripts_of
from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import Envelope
from tmpmaild.ratelimit import RateLimits, TokenBuckets

SCRIPTS = scripts_of(__file__)

WITHOUT_FETCH_METADATA = {"fetch", "beacon", "opaque", "form", "socket", "prefetch"}
EVERY_WAY = WITHOUT_FETCH_METADATA | set("speculation image script frame object reading stream preflight".split())


class House:
    """A server with one inbox and ten tokens for each client; ``answers`` maps each query to the response status."""

    def __init__(self, service, inbox, port):
        self.inbox = inbox
        self.port = port
        self._service = service
        self._app = None
        self._host = None

    def open(self, *, seen_as=None, **settings):
        """Start a new application without recorded responses.

        ``seen_as`` is the Host that a proxy in front of it sends.
        """
        self.answers = {}
        self.buckets = TokenBuckets(1, 10)
        self._app = HttpApp(self._service, HttpSettings(**settings), RateLimits(self.buckets, None))
        self._host = seen_as and seen_as.encode()

    async def __call__(self, scope, receive, send):
        async def note(message):
            if message["type"] == "http.response.start" and scope["path"].startswith("/api/"):
                self.answers.setdefault(scope["query_string"].decode().removeprefix("by="), []).append(
                    message["status"]
                )
            await send(message)

        if self._host:
            scope["headers"] = [(k, self._host if k == b"host" else v) for k, v in scope["headers"]]
        await self._app(scope, receive, note)

    def url(self, name="127.0.0.1", path="/api/v1/addresses"):
        return f"http://{name}:{self.port}{path}"

    async def view(self, name="127.0.0.1"):
        """Return the URL of a view of a message that says "Hello"."""
        envelope = Envelope("a@shop.example", (self.inbox.address,), "client.example", "192.0.2.7", tls=False)
        message_id = await self._service.deliverer.deliver(envelope, [self.inbox.id], b"Subject: x\r\n\r\nHello\r\n")
        secret, _, _ = await self._service.viewer.permit(self.inbox.address, message_id, remote_images=False)
        return self.url(name, f"/view/{secret}")

    async def answered(self, names):
        """Wait until each of these requests has received a response."""
        with anyio.move_on_after(30):
            while not names <= self.answers.keys():
                await anyio.sleep(0.01)
        return self.answers


async def elsewhere(scope, _receive, send):
    """Respond to every request with an empty page, to act as a different website."""
    # Prevents the browser from requesting a favicon.
    headers = [(b"content-type", b"text/html"), (b"content-security-policy", b"img-src http:")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"<!doctype html><title>elsewhere</title><body>"})


@pytest.fixture
async def house(service, serve_app):
    inbox, _ = await service.inboxes.create(NewAddress(), None)
    one = House(service, inbox, 0)
    one.port = await serve_app(one)
    return one


@pytest.fixture(scope="module")
async def site(browser, serve_app):
    """Return a function that opens a page of another website with the given host name, one page at a time."""
    port = await serve_app(elsewhere)
    context = await browser.new_context()
    context.set_default_timeout(30_000)

    async def visit(name):
        for left in context.pages:
            await left.close()
        page = await context.new_page()
        await page.goto(f"http://{name}:{port}/")
        return SimpleNamespace(page=page, origin=f"http://{name}:{port}")

    yield visit
    await context.close()


NAMES = ["localhost", "elsewhere.example", "127.0.0.1"]
TARGETS = ["127.0.0.1", "inbox.example"]


async def test_no_page_of_another_origin_can_use_the_api_or_spend_a_token_of_its_visitor(house, site):
    """Requests between different ports of 127.0.0.1 are same-site."""
    for name in NAMES:
        house.open()
        page = (await site(name)).page
        await page.evaluate(SCRIPTS["SEND"], [house.url(), sorted(EVERY_WAY)])
        assert (name, await house.answered(EVERY_WAY)) == (name, {way: [403] for way in EVERY_WAY})
        assert len(house.buckets) == 0


async def test_over_plain_http_on_a_name_no_page_of_another_origin_changes_anything(house, site):
    house.open()
    page = (await site("elsewhere.example")).page
    await page.evaluate(SCRIPTS["SEND"], [house.url("inbox.example"), sorted(WITHOUT_FETCH_METADATA)])
    assert await house.answered(WITHOUT_FETCH_METADATA) == {way: [403] for way in WITHOUT_FETCH_METADATA}
    assert len(house.buckets) == 0


async def test_a_form_of_another_site_is_refused_in_a_tab_too(house, site):
    for target in TARGETS:
        house.open()
        page = (await site("elsewhere.example")).page
        await page.evaluate(
            SCRIPTS["SUBMIT"],
            house.url(target),
        )
        await page.get_by_text("cross-site").first.wait_for()
        assert (target, house.answers) == (target, {"": [403]})
        assert len(house.buckets) == 0


async def test_a_link_of_another_site_leads_to_the_api(house, site):
    """For plain HTTP to a host name, browsers do not report the initiating site, so one website is enough."""
    for name, target in [*product(NAMES, TARGETS[:1]), ("elsewhere.example", "inbox.example")]:
        house.open()
        page = (await site(name)).page
        url = house.url(target, f"/api/v1/addresses/{house.inbox.address}?by=link")
        await page.evaluate(
            "(url) => document.body.append(Object.assign(document.createElement('a'), { href: url, text: 'link' }))",
            url,
        )
        await page.get_by_role("link", name="link").click()
        await page.get_by_text(house.inbox.address).wait_for()
        assert (name, target, house.answers) == (name, target, {"link": [200]})
        assert len(house.buckets) == 1


async def test_a_link_that_the_browser_tried_to_prefetch_still_leads_to_the_api(house, site):
    house.open()
    page = (await site("elsewhere.example")).page
    url = house.url(path=f"/api/v1/addresses/{house.inbox.address}")
    await page.evaluate(SCRIPTS["SEND"], [url, ["speculation"]])
    await house.answered({"speculation"})
    await page.evaluate("(url) => location.assign(url)", f"{url}?by=speculation")
    await page.get_by_text(house.inbox.address).wait_for()
    assert house.answers == {"speculation": [403, 200]}


async def test_a_page_of_a_listed_origin_may_create_and_follow(house, site):
    for target in TARGETS:
        visited = await site("elsewhere.example")
        house.open(cors_origins=[visited.origin])
        created = await visited.page.evaluate(
            SCRIPTS["CREATE_AND_FOLLOW"],
            house.url(target),
        )
        assert created[0] == 201
        assert house.answers == {"": [204, 201, 200]}


async def test_behind_a_proxy_that_changes_the_host_our_own_page_creates_with_the_public_url(house, site):
    page = (await site("127.0.0.1")).page
    for target in TARGETS:
        house.open(seen_as="backend:8025", public_url=house.url(target, ""))
        await page.goto(house.url(target, "/"))
        assert await page.evaluate("async () => (await fetch('api/v1/addresses', { method: 'POST' })).status") == 201


FRAME = "(url) => document.body.append(Object.assign(document.createElement('iframe'), { src: url }))"
LINK = "(url) => document.body.append(Object.assign(document.createElement('a'), { href: url, text: 'link' }))"


@pytest.mark.parametrize("is_listed", [False, True])
async def test_only_a_listed_site_frames_a_view(house, site, is_listed):
    """For plain HTTP to a host name, browsers do not report the initiating site, so the view's policy decides."""
    for name, target in [*product(NAMES, TARGETS[:1]), ("elsewhere.example", "inbox.example")]:
        visited = await site(name)
        house.open(cors_origins=[visited.origin] if is_listed else [])
        url = await house.view(target)
        async with visited.page.expect_response(url) as answered:
            await visited.page.evaluate(FRAME, url)
        is_refused = target == "127.0.0.1" and not is_listed
        assert (name, target, (await answered.value).status) == (name, target, 403 if is_refused else 200)
        await visited.page.wait_for_load_state()
        shown = visited.page.frame_locator("iframe").get_by_text("Hello")
        if is_listed:
            await shown.wait_for()
        else:
            await visited.page.frames[1].wait_for_load_state()
            assert await shown.count() == 0


@pytest.mark.parametrize(("is_listed", "status"), [(False, 403), (True, 200)])
async def test_a_link_on_another_site_opens_no_view(house, site, is_listed, status):
    for name in NAMES:
        visited = await site(name)
        house.open(cors_origins=[visited.origin] if is_listed else [])
        url = await house.view()
        await visited.page.evaluate(LINK, url)
        async with visited.page.expect_response(url) as answered:
            await visited.page.get_by_role("link", name="link").click()
        assert (name, (await answered.value).status) == (name, status)
        await visited.page.get_by_text("Cross-site request" if status == 403 else "Hello").first.wait_for()


async def test_a_view_opened_in_a_tab_names_the_service_that_shows_it(house, site):
    house.open(public_url="https://tmp.example")
    page = (await site("elsewhere.example")).page
    await page.goto(await house.view())
    await page.get_by_text("Hello").wait_for()
    said = await page.evaluate("getComputedStyle(document.documentElement, '::before').content")
    assert "tmp.example shows you a message" in said
