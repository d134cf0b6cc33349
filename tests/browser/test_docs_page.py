"""The page ``/docs`` in a browser: what it shows of a description, and what it sends."""

import json
import re
import socket
from pathlib import Path

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from tmpmaild.http.files import docs_files
from tmpmaild.http.middleware import Guard
from tmpmaild.http.problems import Problems
from tmpmaild.http.resource import Resource
from tmpmaild.http.server import HttpServer

DESCRIPTION = Path(__file__).with_name("sample-openapi.json").read_bytes()
ADDRESS = "k7m3wq9xt2ab@tmpmaild.example"
LIMIT = {"RateLimit": '"default";r=7;t=6', "RateLimit-Policy": '"default";q=10;w=60'}


class Api:
    """Stands where the API will: remembers what it was asked, and echoes some of it."""

    def __init__(self):
        self.requests = []
        self.failures = 0
        self.patience = anyio.Event()

    async def description(self, _request):
        if self.failures:
            self.failures -= 1
            return Problems("").response("rate-limited", headers={"Retry-After": "6"})
        return Response(DESCRIPTION, media_type="application/json")

    async def note(self, request):
        self.requests.append(request)
        await request.body()

    async def create(self, request):
        await self.note(request)
        return JSONResponse({"address": ADDRESS}, 201, {**LIMIT, "Location": "/api/v1/addresses/x"})

    async def extend(self, request):
        await self.note(request)
        return Problems("").response("invalid-request", field_errors=(("/expires_in_seconds", "expected less"),))

    async def messages(self, request):
        await self.note(request)
        return JSONResponse({"messages": [{"subject": "<b onclick=alert(1)>code</b>"}]}, headers=LIMIT)

    async def source(self, _request):
        return Response(b"Subject: x\r\n\r\n<script>document.title = 'taken'</script>\r\n", media_type="message/rfc822")

    async def attachment(self, _request):
        return Response(bytes(2048), media_type="image/png")

    async def slow(self, _request):
        await self.patience.wait()
        return JSONResponse({})

    def routes(self):
        addresses = "/api/v1/addresses"
        return [
            *[Route(path, Resource(get=file)) for path, file in docs_files().items()],
            Route("/api/v1/openapi.json", Resource(get=self.description)),
            Route(addresses, Resource(post=self.create)),
            Route(addresses + "/{address}", Resource(patch=self.extend)),
            Route(addresses + "/{address}/messages", Resource(get=self.messages)),
            Route(addresses + "/{address}/messages/{id}/raw", Resource(get=self.source)),
            Route(addresses + "/{address}/messages/{id}/attachments/{index}", Resource(get=self.attachment)),
            Route("/api/v1/domains", Resource(get=self.slow)),
        ]


@pytest.fixture(scope="module")
async def served():
    """Serve the page and the API, at the root and below a prefix."""
    api = Api()
    app = Starlette(routes=[*api.routes(), Mount("/some/prefix", routes=api.routes())])
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(Guard(app, problems=Problems(""), allowed_hosts=()), max_connections=100)
    await server.start([listener])
    yield api, f"http://127.0.0.1:{listener.getsockname()[1]}"
    api.patience.set()
    await server.stop(0.2)


@pytest.fixture
def api(served):
    served[0].requests.clear()
    return served[0]


@pytest.fixture(scope="module")
def origin(served):
    return served[1]


async def opened(pages, url, **options):
    page = await pages.borrow(**options)
    await page.goto(url)
    await page.locator("article").first.wait_for()
    return page


@pytest.fixture(scope="module")
async def tab(shared_pages):
    return await shared_pages.borrow()


@pytest.fixture
async def page(tab, origin):
    """Open the page in a tab that is there already: a new one takes twice the time."""
    await tab.goto(f"{origin}/docs")
    await tab.locator("article").first.wait_for()
    return tab


@pytest.fixture(scope="module")
async def read_page(shared_pages, origin):
    """Open the page once for all that only read."""
    return await opened(shared_pages, f"{origin}/docs")


async def try_it(page, operation, **values):
    """Fill in the form of an operation, send it, and return the operation when the answer is there."""
    article = page.locator(f"#{operation}")
    await article.get_by_text("Try it").click()
    for name, value in values.items():
        await article.locator(f"form [data-name={name}]").fill(value)
    await article.get_by_role("button", name="Send").click()
    await article.locator(".result pre").wait_for()
    return article


async def curl_of(page, operation):
    return await page.locator(f"#{operation} .shown pre").first.inner_text()


async def test_the_page_shows_what_the_api_is(read_page, origin):
    intro = await read_page.locator(".intro").inner_text()
    assert "tmpmaild" in intro
    assert "Version 1.0.0" in intro
    assert f"Base {origin}/" in intro
    assert await read_page.title() == "tmpmaild"
    assert await read_page.locator(".intro li").all_inner_texts() == [
        "ignore fields you do not know",
        "compare message ids as text: they sort by arrival",
    ]


async def test_operations_stand_below_their_tags_in_the_order_of_the_document(read_page):
    described = json.loads(DESCRIPTION)
    tags = [tag["name"].capitalize() for tag in described["tags"]]
    assert await read_page.locator("#index h2").all_inner_texts() == [*tags, "Other"]
    assert await read_page.locator(".group h2").all_inner_texts() == [*tags, "Other"]
    operations = [one for item in described["paths"].values() for one in item.values() if isinstance(one, dict)]
    shown = await read_page.locator("article").evaluate_all("all => all.map(one => one.id)")
    assert sorted(shown) == sorted(one["operationId"] for one in operations)
    assert shown[:4] == ["createAddress", "getAddress", "extendAddress", "deleteAddress"]


async def test_a_parameter_says_where_it_goes_and_what_it_may_be(read_page):
    fields = await read_page.locator("#listMessages .told > .fields > li").all_inner_texts()
    told = {text.split()[0]: " ".join(text.split()) for text in fields}
    assert told["address"].startswith("address path · string required Folded as SMTP folds it")
    assert told["limit"] == "limit query · integer How many at most. default 100 · 1 to 100"
    assert told["order"] == "order query · string one of asc, desc · default desc"
    assert told["q"].startswith("q query · string deprecated")
    assert "matches ^msg_[0-9a-hjkmnp-tv-z]{26}$" in told["after"]


async def types_of(article):
    names = await article.locator(".response[open] .name").all_text_contents()
    kinds = await article.locator(".response[open] .name + .type").all_text_contents()
    return dict(reversed(list(zip(names, kinds, strict=True))))


async def test_a_schema_is_told_in_words(read_page):
    kinds = await types_of(read_page.locator("#getMessage"))
    assert kinds["attachments"] == "array of Attachment"
    assert kinds["html"] == "string | null"
    assert kinds["reply_to"] == "string, email | null"
    assert kinds["headers"] == "array of [string, string]"
    assert kinds["truncated"] == "true"
    assert kinds["remote_ip"] == "string, ipv4 | string, ipv6"
    assert kinds["counts"] == "object"
    assert kinds["sha256"] == "string"  # a member of a member


async def test_a_schema_that_holds_itself_is_shown_once(read_page):
    article = read_page.locator("#getMessage")
    assert (await types_of(article))["parts"] == "Part"
    assert await article.get_by_text("Members of Part").count() == 1
    assert (await article.locator(".name", has_text=re.compile("^parts$")).count()) == 2


async def test_an_answer_has_an_example_made_of_its_schema(read_page):
    shown = read_page.locator("#listMessages .shown pre").nth(1)
    (message,) = json.loads(await shown.inner_text())["messages"]
    assert message["subject"] == "Your code is 482193"
    assert message["attachments"][0]["filename"] == "invoice.pdf"
    assert message["truncated"] is True


async def test_every_answer_tells_its_headers_and_its_body(read_page):
    article = read_page.locator("#createAddress")
    assert await article.locator(".response b").all_inner_texts() == "201 400 409 413 422 429 503".split()
    refused = article.locator(".response", has_text="429")
    await refused.locator("summary").first.click()
    names = await refused.locator(".name").all_inner_texts()
    assert {"code", "detail", "pointer", "Retry-After", "RateLimit"} <= set(names)


CURLS = {
    "createAddress": 'curl -X POST "{base}"',
    "getAddress": 'curl "{base}/$ADDRESS"',
    "deleteAddress": 'curl -X DELETE "{base}/$ADDRESS" \\\n  -H "Authorization: Bearer $TOKEN"',
    "getSource": 'curl -OJ "{base}/$ADDRESS/messages/$ID/raw"',
    "streamEvents": 'curl -N "{base}/$ADDRESS/events"',
    "extendAddress": (
        'curl -X PATCH "{base}/$ADDRESS" \\\n  -H "Authorization: Bearer $TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n  -d '{{\n  \"expires_in_seconds\": 1800\n}}'"
    ),
}


async def test_every_operation_has_its_command_line(read_page, origin):
    base = f"{origin}/api/v1/addresses"
    shown = {name: await curl_of(read_page, name) for name in CURLS}
    assert shown == {name: text.format(base=base) for name, text in CURLS.items()}


async def test_the_command_line_follows_the_form_and_never_holds_the_token(page):
    await try_it(page, "listMessages", address="a'$(x)!b@tmpmaild.example", subject='"; rm', token="the-secret")
    command = await curl_of(page, "listMessages")
    assert "/addresses/a'%24(x)%21b@tmpmaild.example/messages?subject=%22%3B%20rm\"" in command
    assert "Bearer $TOKEN" in command
    assert "the-secret" not in command


async def test_a_quote_in_a_body_stays_inside_the_command_line(page):
    article = page.locator("#createAddress")
    await article.get_by_text("Try it").click()
    await article.locator("textarea").fill('{"local_part": "it\'s"}')
    assert r"""-d '{"local_part": "it'\''s"}'""" in await curl_of(page, "createAddress")


async def test_trying_sends_what_was_filled_in_and_the_token_in_its_header_only(page, api):
    await try_it(page, "listMessages", address="a ?#%@tmpmaild.example", limit="5", token="the-secret")
    (request,) = api.requests
    assert request.path_params["address"] == "a ?#%@tmpmaild.example"
    assert request.url.query == "limit=5"
    assert request.headers["authorization"] == "Bearer the-secret"
    assert "the-secret" not in str(request.url)
    assert {"cookie", "referer", "content-type"} & set(request.headers) == set()
    assert "the-secret" not in page.url
    assert await page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]


async def test_an_answer_is_shown_as_text_with_what_its_headers_say(page):
    article = await try_it(page, "listMessages", address=ADDRESS)
    result = await article.locator(".result").inner_text()
    assert result.startswith("200")
    assert '"default";r=7;t=6' in result
    assert '  "messages": [\n' in result
    assert "<b onclick=alert(1)>code</b>" in result
    assert await article.locator(".result b").count() == 0


async def test_a_body_is_sent_as_json(page, api):
    article = await try_it(page, "createAddress", body='{"private": true}')
    assert "Location" in await article.locator(".result dl").inner_text()
    (request,) = api.requests
    assert request.headers["content-type"] == "application/json"
    assert await request.body() == b'{"private": true}'


async def test_a_body_that_is_left_empty_is_not_sent(page, api):
    await try_it(page, "createAddress")
    (request,) = api.requests
    assert await request.body() == b""
    assert "content-type" not in request.headers


async def test_a_refusal_is_shown_like_any_answer(page):
    article = await try_it(page, "extendAddress", address=ADDRESS, token="x")
    result = await article.locator(".result").inner_text()
    assert result.startswith("422")
    assert "expected less" in result


async def test_a_mail_is_text_and_what_is_no_text_is_only_counted(page):
    source = await try_it(page, "getSource", address=ADDRESS, id="msg_1")
    assert "<script>document.title = 'taken'</script>" in await source.locator(".result pre").inner_text()
    assert await page.title() == "tmpmaild"
    attachment = await try_it(page, "getAttachment", address=ADDRESS, id="msg_1", index="0")
    assert await attachment.locator(".result pre").inner_text() == "2048 bytes of image/png"


async def test_what_a_path_needs_is_asked_for_before_anything_is_sent(page, api):
    article = page.locator("#listMessages")
    await article.get_by_text("Try it").click()
    await article.get_by_role("button", name="Send").click()
    assert await article.locator("input:invalid").count() == 1
    assert await article.locator(".result").is_hidden()
    assert api.requests == []


async def test_an_address_need_be_typed_once(page):
    await try_it(page, "listMessages", address=ADDRESS, token="x")
    assert await page.locator("#getMessage [data-name=address]").input_value() == ADDRESS
    assert await page.locator("#getMessage [data-name=token]").input_value() == "x"
    assert f"/{ADDRESS}/messages/$ID" in await curl_of(page, "getMessage")


async def test_a_request_on_its_way_can_be_given_up(page):
    article = page.locator("#listDomains")
    await article.get_by_text("Try it").click()
    await article.get_by_role("button", name="Send").click()
    await article.get_by_text("Waiting").wait_for()
    await article.get_by_role("button", name="Cancel").click()
    await article.get_by_text("Cancelled.").wait_for()
    await article.get_by_role("button", name="Send").wait_for()


async def test_a_stream_is_not_tried_here(read_page):
    article = read_page.locator("#streamEvents")
    await article.get_by_text("Try it").click()
    assert "curl -N" in await article.locator(".shown details p").inner_text()
    assert await article.locator("form").count() == 0


async def is_on_top(page, operation):
    return await page.locator(f"#{operation}").evaluate("one => Math.abs(one.getBoundingClientRect().top) < 100")


async def test_a_link_leads_to_an_operation_also_when_the_filter_hides_it(pages, origin):
    page = await opened(pages, f"{origin}/docs#deleteMessage")
    assert await is_on_top(page, "deleteMessage")
    await page.get_by_label("Filter operations").fill("domains")
    await page.evaluate("location.hash = 'createAddress'")
    await page.locator("#createAddress").wait_for()
    assert await is_on_top(page, "createAddress")
    assert await page.locator("#index [aria-current=true]").inner_text() == "POST\nCreate an address"


async def test_a_link_to_nothing_does_no_harm(pages, origin):
    page = await opened(pages, f"{origin}/docs#%E0%A4%A")
    assert await page.locator("article").count() == 13


async def test_the_filter_leaves_the_operations_that_hold_every_word(read_page):
    box = read_page.get_by_label("Filter operations")
    await box.fill("DELETE messages")
    assert await read_page.locator("article:visible").evaluate_all("all => all.map(one => one.id)") == ["deleteMessage"]
    assert await read_page.locator("#index a:visible").count() == 1
    assert await read_page.locator(".group:visible, #index section:visible").count() == 2
    assert await read_page.get_by_text("1 of 13").is_visible()
    await box.fill("there is no such thing")
    assert await read_page.locator("article:visible, .group:visible").count() == 0
    await box.fill("")
    assert await read_page.locator("article:visible").count() == 13


async def test_a_keyboard_is_enough(page, api):
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the description"
    await page.keyboard.press("Tab")
    await page.keyboard.type("list or await")
    summary = page.locator("#listMessages details.block summary")
    await summary.focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.type(ADDRESS)
    await page.keyboard.press("Enter")
    await page.locator("#listMessages .result pre").wait_for()
    assert len(api.requests) == 1


async def test_a_description_that_does_not_come_is_told_and_can_be_asked_for_again(pages, api, origin):
    api.failures = 1
    page = await pages.borrow()
    await page.goto(f"{origin}/docs")
    notice = page.locator(".notice")
    await notice.get_by_text("The description could not be loaded: 429 Too many requests.").wait_for()
    assert await notice.get_by_role("link").get_attribute("href") == f"{origin}/api/v1/openapi.json"
    await notice.get_by_role("button", name="Try again").click()
    await page.locator("article").first.wait_for()
    assert await notice.count() == 0


async def test_without_scripts_the_page_names_the_document(pages, origin):
    page = await pages.open(java_script_enabled=False)
    await page.goto(f"{origin}/some/prefix/docs")
    link = page.locator("noscript a")
    assert await link.inner_text() == "api/v1/openapi.json"
    await link.click()
    assert page.url == f"{origin}/some/prefix/api/v1/openapi.json"


async def test_the_page_works_below_a_path_prefix(pages, api, origin):
    page = await opened(pages, f"{origin}/some/prefix/docs")
    assert f"Base {origin}/some/prefix/" in await page.locator(".intro").inner_text()
    await try_it(page, "listMessages", address=ADDRESS)
    assert api.requests[0].url.path.startswith("/some/prefix/api/v1/addresses/")


async def test_nothing_is_wider_than_the_window(pages, origin):
    page = await opened(pages, f"{origin}/docs")
    await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
    for width in (320, 390, 1100, 2560):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.locator("article pre, article p, article li").evaluate_all(cut) == [], width


async def test_on_a_phone_the_list_is_folded_away(pages, origin):
    page = await opened(pages, f"{origin}/docs", viewport={"width": 390, "height": 844})
    assert await page.locator("#index a:visible").count() == 0
    await page.get_by_text("Operations", exact=True).click()
    await page.locator("#index a", has_text="Stream events").click()
    assert await page.locator("#index a:visible").count() == 0
    assert await is_on_top(page, "streamEvents")


async def test_the_colours_follow_the_reader(read_page):
    for scheme, is_dark in (("light", False), ("dark", True)):
        await read_page.emulate_media(color_scheme=scheme)
        colour = await read_page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour))) < 3 * 128) == is_dark


async def test_a_picture_from_elsewhere_is_refused(browser, origin):
    """The policy holds, should anything ever slip into the page."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{origin}/docs")
    directive = await page.evaluate(
        """() => new Promise((resolve) => {
            addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
            document.body.append(Object.assign(new Image(), {src: "http://127.0.0.1:1/elsewhere.png"}));
        })"""
    )
    await context.close()
    assert directive == "img-src"
