"""Requests that are refused because of the initiating site that the browser reports; they use no rate limit token."""

import pytest

from tmpmaild.ratelimit import TokenBuckets

ADDRESSES = "/api/v1/addresses"
NOBODY = ADDRESSES + "/unknown@mail.example.com"
HOST = "inbox.example:8025"
EVIL = "https://evil.example"
LISTED = "https://app.example"
VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def ask(world):
    """Return a function that sends a request and returns the code of the problem, or the status."""

    async def asked(method, headers, target=None, *, host=HOST, **settings):
        client = world.client(TokenBuckets(1, 10), cors_origins=[LISTED], **settings)
        refused = await client.ask(method, target or (ADDRESSES if method == "POST" else NOBODY), headers, host=host)
        left = (await client.get(NOBODY)).header("ratelimit")
        if refused.status == 403:
            assert left == '"default";r=9;t=60', "a refusal must not use a token"
            return refused.json()["code"]
        return refused.status

    return asked


async def test_requests_initiated_by_another_site_are_refused(ask, subtests):
    for site in ["cross-site", "same-site"]:
        for method, more in [
            ("GET", {}),
            ("HEAD", {}),
            ("POST", {}),
            ("PATCH", {}),
            ("DELETE", {}),
            ("GET", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}),
            ("GET", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
            ("GET", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "document"}),
            ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
            ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "object"}),
            ("GET", {"Sec-Fetch-Mode": "navigate"}),
            ("GET", {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Origin": "https://evil.example"}),
            ("GET", {"Sec-Fetch-Mode": "websocket", "Sec-Fetch-Dest": "empty", "Origin": "https://evil.example"}),
            ("POST", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": "https://evil.example"}),
            ("POST", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": "null"}),
            ("POST", {"Origin": "http://inbox.example:8025"}),
            ("OPTIONS", {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}),
        ]:
            with subtests.test(site=site):
                assert await ask(method, {"Sec-Fetch-Site": site, **more}) == "cross-site"


async def test_links_listed_origins_our_own_pages_plain_reads_and_non_browsers_pass(ask, subtests):
    for method, headers, status in [
        ("POST", {"Sec-Fetch-Site": "same-origin", "Origin": "https://name.of.the.proxy.example"}, 201),
        ("GET", {"Sec-Fetch-Site": "same-origin", "Sec-Purpose": "prefetch"}, 404),
        ("POST", {}, 201),
        ("GET", {}, 404),
        ("PATCH", {}, 401),
        ("DELETE", {}, 401),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 404),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 404),
        ("HEAD", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 404),
        ("POST", {"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, 201),
        ("GET", {"Sec-Fetch-Site": "same-site", "Origin": "https://app.example"}, 404),
        ("OPTIONS", {"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, 204),
        ("POST", {"Sec-Fetch-Site": "same-origin", "Origin": "http://inbox.example:8025"}, 201),
        ("GET", {"Origin": "https://evil.example"}, 404),
        ("HEAD", {"Origin": "https://evil.example"}, 404),
        ("OPTIONS", {"Origin": "https://evil.example"}, 204),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 404),
    ]:
        with subtests.test(method=method):
            assert await ask(method, headers) == status


async def test_without_fetch_metadata_a_change_from_another_origin_is_refused(ask, subtests):
    for method in ["POST", "PATCH", "DELETE"]:
        for origin in [EVIL, "null", "", f"http://{HOST}0", "http://inbox.example", f"ftp://{HOST}", HOST, "http://"]:
            with subtests.test(method=method, origin=origin):
                assert await ask(method, {"Origin": origin}) == "cross-site"


async def test_without_fetch_metadata_our_own_host_and_listed_origins_may_change(ask, subtests):
    for origin, host in [
        ("http://inbox.example", "INBOX.example"),
        ("http://inbox.example", "inbox.example:80"),
        ("https://inbox.example", "inbox.example"),
        ("https://inbox.example", "inbox.example:443"),
        ("http://[2001:db8::1]:8025", "[2001:db8::1]:8025"),
        ("http://[2001:db8::1]", "[2001:db8::1]:80"),
        ("http://inbox.example:8025", "inbox.example:8025"),
        ("https://inbox.example:8025", "inbox.example:8025"),
        ("https://app.example", "inbox.example:8025"),
    ]:
        with subtests.test(origin=origin, host=host):
            assert await ask("POST", {"Origin": origin}, host=host) == 201


async def test_an_image_may_not_call_the_api_and_a_non_default_port_counts(ask):
    assert await ask("GET", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "image"}) == "cross-site"
    assert await ask("GET", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}) == 404
    assert await ask("POST", {"Origin": "http://inbox.example:443"}, host="inbox.example:443") == 201
    assert await ask("POST", {"Origin": "http://inbox.example:443"}, host="inbox.example") == "cross-site"


async def test_behind_a_proxy_that_changes_the_host_the_public_url_is_our_own(ask):
    public = {"public_url": "https://tmp.example.org/mail", "host": "127.0.0.1:8025"}
    assert await ask("POST", {"Origin": "https://tmp.example.org"}, **public) == 201
    assert await ask("POST", {"Origin": "http://127.0.0.1:8025"}, **public) == 201
    for origin in ("http://tmp.example.org", "https://tmp.example.org.evil.example", "https://tmp.example.org/mail"):
        assert await ask("POST", {"Origin": origin}, **public) == "cross-site"


async def test_a_websocket_of_another_origin_is_refused_though_it_is_a_get(ask):
    handshake = {
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    assert await ask("GET", {**handshake, "Origin": EVIL}) == "cross-site"
    assert await ask("GET", {**handshake, "Origin": "null"}) == "cross-site"
    assert await ask("GET", {**handshake, "Origin": f"http://{HOST}"}) == 404
    assert await ask("GET", handshake) == 404


@pytest.mark.parametrize("purpose", ["prefetch", "prefetch;prerender", "prefetch;anonymous-client-ip"])
async def test_prefetches_are_refused_whatever_their_site(ask, purpose):
    assert await ask("GET", {"Sec-Fetch-Site": "none", "Sec-Purpose": purpose, **VISIT}) == "cross-site"
    assert await ask("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Purpose": purpose, **VISIT}) == "cross-site"
    assert await ask("GET", {"Sec-Purpose": purpose}) == "cross-site"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api/", "cross-site"),
        ("/api/v1/nothing", "cross-site"),
        ("/%61pi/v1/addresses", "cross-site"),
        ("/", 200),
        ("/problems/cross-site", 200),
        ("/docs", 200),
        ("/api", 404),
        ("/apis/x", 404),
    ],
)
async def test_only_requests_to_the_api_and_views_are_checked(ask, target, status):
    assert await ask("GET", {"Sec-Fetch-Site": "cross-site", "Origin": "null"}, target) == status


async def test_the_refusal_is_a_problem_with_our_headers_but_without_cors_and_rate_limit_headers(world):
    client = world.client(TokenBuckets(10, 10), public_url="https://host.example/mail", cors_origins=[LISTED])
    answer = await client.post(headers={"Sec-Fetch-Site": "cross-site", "Origin": EVIL})
    assert (answer.status, answer.header("content-type")) == (403, "application/problem+json")
    assert (answer.json()["code"], answer.json()["type"]) == ("cross-site", "/mail/problems/cross-site")
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cache-control") == "no-store"
    assert answer.header("vary") == "Origin"
    assert [name for name, _ in answer.headers if name.startswith(("ratelimit", "access-control-"))] == []
    assert "evil" not in answer.body.decode()


FRAMED = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
OF_LISTED = {"Referer": f"{LISTED}/"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("headers", "listed", "unlisted"),
    [
        (FRAMED, 404, 403),  # frame-ancestors decides which sites may frame the page
        ({**FRAMED, "Sec-Fetch-Dest": "object"}, 404, 403),
        (VISIT, 403, 403),
        ({}, 403, 403),
        ({**VISIT, "Referer": "https://evil.example/"}, 403, 403),
        ({**VISIT, "Referer": f"{LISTED}.evil.example/"}, 403, 403),
        ({**VISIT, "Referer": "https://evil.example/https://app.example/"}, 403, 403),
        ({**VISIT, **OF_LISTED}, 404, 403),
        ({"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Origin": LISTED}, 404, 403),
        ({"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Origin": EVIL}, 403, 403),
    ],
)
async def test_a_view_is_refused_to_pages_of_another_site_unless_the_site_is_listed(
    world, site, headers, listed, unlisted
):
    found = [
        (await world.client(cors_origins=origins).get("/view/unknown", {"Sec-Fetch-Site": site, **headers})).status
        for origins in ([LISTED], [])
    ]
    assert found == [listed, unlisted]


@pytest.mark.parametrize("headers", [{}, VISIT, FRAMED])
@pytest.mark.parametrize("site", ["none", "same-origin", None])
async def test_a_view_is_served_to_tabs_to_our_page_and_to_clients_other_than_browsers(world, site, headers):
    given = {**headers, **({"Sec-Fetch-Site": site} if site else {})}
    assert (await world.client().get("/view/unknown", given)).status == 404
    purpose = await world.client().get("/view/unknown", {**given, "Sec-Purpose": "prefetch;prerender"})
    assert purpose.status == (404 if site == "same-origin" else 403)


async def test_a_visitor_sent_to_a_view_by_another_site_gets_an_explanation_page(world):
    answer = await world.client().get("/view/x", {"Sec-Fetch-Site": "cross-site", **VISIT, "Accept": "text/html"})
    assert (answer.status, answer.header("content-type")) == (403, "text/html; charset=utf-8")
    assert b"Cross-site request" in answer.body
