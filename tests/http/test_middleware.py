"""Headers of every response, hosts, header limits, CORS, and the data that may be logged."""

import logging
from ipaddress import ip_network

import pytest

from tmpmaild.http.crosssite import CrossSite
from tmpmaild.http.middleware import Middleware
from tmpmaild.http.problems import Problems
from tmpmaild.metrics import Count
from tmpmaild.ratelimit import RateLimits, TokenBuckets

ADDRESSES = "/api/v1/addresses"
EVERY_KIND = [
    ("POST", "/api/v1/addresses", {}),
    ("POST", "/api/v1/addresses", {"body": b"{"}),
    ("GET", "/api/v1/addresses", {}),
    ("OPTIONS", "/api/v1/addresses", {}),
    ("GET", "/api/v1/addresses/unknown@mail.example.com", {}),
    ("GET", "/api/nothing", {}),
    ("GET", "/problems/not-found", {}),
    ("OPTIONS", "/problems/not-found", {}),
    ("GET", "/nothing", {}),
    ("GET", "/", {"host": "a b"}),
    ("GET", "/api/", {"headers": {"X": "x" * 20_000}}),
]


async def test_every_response_has_our_headers(world, subtests):
    for method, target, more in EVERY_KIND:
        with subtests.test(method=method):
            for client in (world.client(), world.client(cors_origins=["https://page.example"])):
                answer = await client.ask(method, target, **more)
                assert answer.header("x-content-type-options") == "nosniff"
                assert answer.header("referrer-policy") == "no-referrer"
                assert answer.header("cache-control") == ("no-store" if target.startswith("/api/") else None)
                assert answer.header("server") is None
                assert answer.header("set-cookie") is None


@pytest.mark.parametrize(
    "host", ["host.example", "HOST:80", "127.0.0.1:8025", "[::1]", "[2001:db8::1]:8025", "a_b", "x."]
)
async def test_any_well_formed_host_is_accepted_and_never_repeated(client, host):
    for method, target in (("POST", ADDRESSES), ("GET", ADDRESSES), ("GET", "/no"), ("GET", ADDRESSES + "/")):
        answer = await client.ask(method, target, host=host)
        assert answer.status in {201, 404, 405}
        text = repr((answer.headers, answer.body)).replace("x.", "")
        assert len(host) < 4 or host not in text


async def test_a_missing_or_invalid_host_is_refused(client, subtests):
    for host in [
        None,
        "",
        " ",
        "a b",
        "a/b",
        "a@b",
        "a:b",
        "a:",
        "a:123456",
        "[::1",
        "[x]",
        "a,b",
        "é",
        "<script>",
        "a" * 300,
    ]:
        with subtests.test(host=host):
            answer = await client.post(host=host)
            assert (answer.status, answer.json()["code"]) == (400, "bad-host")
            assert not host or len(host) < 3 or host not in answer.body.decode()


async def test_only_listed_hosts_are_served(world, subtests):
    for host, status in [
        ("mail.example", 201),
        ("MAIL.example:8025", 201),
        ("[::1]:8025", 201),
        ("[::1]", 201),
        ("127.0.0.1", 201),
        ("other.example", 400),
        ("mail.example.evil", 400),
        ("[::2]", 400),
        ("8025", 400),
    ]:
        with subtests.test(host=host, status=status):
            client = world.client(allowed_hosts=["mail.example", "::1", "127.0.0.1"])
            assert (await client.post(host=host)).status == status


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ("localhost", "localhost.", 201),
        ("localhost", "LOCALHOST.:8025", 201),
        ("localhost", "localhost..", 400),
        ("mail.example", "mail.example.", 201),
        ("mail.example", "other.example.", 400),
    ],
)
async def test_the_final_dot_of_a_host_is_ignored(world, allowed, host, status):
    assert (await world.client(allowed_hosts=[allowed]).post(host=host)).status == status


@pytest.mark.parametrize("allowed", [(), ("mail.example",)])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("host", [None, ""])
async def test_only_http_1_1_needs_a_host(world, allowed, version, host):
    """For example, HAProxy's plain ``option httpchk`` sends no Host (RFC 9112 §3.2)."""
    client = world.client(allowed_hosts=allowed)
    app = client.app

    async def of_version(scope, receive, send):
        await app({**scope, "http_version": version}, receive, send)

    client.app = of_version
    answer = await client.get("/healthz", host=host)
    assert answer.status == (200 if version == "1.0" else 400)


async def test_headers_may_have_16_kib(client):
    assert (await client.get("/problems/not-found", {"X": "x" * 16_000})).status == 200
    answer = await client.get("/problems/not-found", {"X": "x" * 16_384})
    assert (answer.status, answer.json()["code"]) == (431, "headers-too-large")


async def test_an_origin_that_is_not_listed_may_not_read(world, subtests):
    for origin in ["https://evil.example", "null", "", "https://page.example.evil", "*"]:
        with subtests.test(origin=origin):
            for listed in ([], ["https://page.example"]):
                client = world.client(cors_origins=listed)
                for method in ("GET", "OPTIONS"):
                    answer = await client.ask(method, ADDRESSES, {"Origin": origin})
                    assert [name for name, _ in answer.headers if name.startswith("access-control-")] == []
                    assert answer.header("vary") == ("Origin" if listed else None)


async def test_a_listed_origin_may_read_every_response_and_its_rate_limit(world):
    client = world.client(TokenBuckets(10, 2), cors_origins=["https://page.example", "http://localhost:3000"])
    statuses = []
    for _ in range(3):
        answer = await client.get(f"{ADDRESSES}/x@mail.example.com", {"Origin": "http://localhost:3000"})
        statuses.append(answer.status)
        assert answer.header("access-control-allow-origin") == "http://localhost:3000"
        assert answer.header("vary") == "Origin"
        exposed = set(answer.header("access-control-expose-headers").split(", "))
        assert exposed >= {"RateLimit", "RateLimit-Policy", "Retry-After", "Link", "Location"}
        assert answer.header("ratelimit")
    assert statuses == [404, 404, 429]


async def test_a_preflight_gets_the_response_of_any_options_request_and_uses_no_token(world):
    client = world.client(TokenBuckets(10, 1), cors_origins=["https://page.example"])
    for _ in range(3):
        asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
        answer = await client.ask("OPTIONS", ADDRESSES, asked)
        assert (answer.status, answer.header("allow")) == (204, "OPTIONS, POST")
        assert answer.header("access-control-allow-origin") == "https://page.example"
        assert "POST" in answer.header("access-control-allow-methods")
        assert "Authorization" in answer.header("access-control-allow-headers")


async def test_the_log_contains_no_address_and_no_token_above_debug(world, caplog):
    caplog.set_level(logging.INFO)
    client = world.client()
    created = await client.create(local_part="chosen")
    for target in (created["address"], created["address"] + "/messages", "unknown@mail.example.com"):
        await client.get(f"{ADDRESSES}/{target}", {"Authorization": f"Bearer {created['token']}"})
    assert caplog.text == ""


async def test_application_errors_are_logged_once_and_reported_unless_a_response_has_started(client, caplog):

    async def break_off(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    async def break_at_once(scope, receive, send):
        raise RuntimeError

    def guarded(app):
        count = Count("requests", "", ("operation", "status"))
        parts = {"problems": Problems(""), "limits": RateLimits(), "requests": count, "cross_site": CrossSite()}
        parts |= {"unreadable": Count("x", ""), "untrusted": Count("y", "")}
        return type(client)(Middleware(app, **parts))

    assert (await guarded(break_off).get("/")).status == 200
    assert (await guarded(break_at_once).get("/")).status == 500
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


async def no_content(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
def forward(client):
    """Return a function that sends X-Forwarded-For from a peer: 10.0.0.0/8 are proxies, 192.168.0.0/16 is exempt."""
    app = Middleware(
        no_content,
        problems=Problems(""),
        limits=RateLimits(),
        requests=Count("requests", "", ("operation", "status")),
        unreadable=Count("unreadable", ""),
        untrusted=Count("untrusted", ""),
        cross_site=CrossSite(),
        trusted_proxies=[ip_network("10.0.0.0/8")],
        exempt=[ip_network("192.168.0.0/16")],
    )
    return lambda peer: type(client)(app).get("/", peer=peer, headers={"X-Forwarded-For": "198.51.100.1"})


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "172.16.0.2", "::ffff:172.16.0.2", "fd00::5"])
async def test_an_internal_address_that_sends_forwarded_for_but_is_not_trusted_is_logged(forward, caplog, peer):
    await forward(peer)
    (record,) = caplog.records
    assert (record.event, record.client) == ("http_untrusted_forwarded_for", peer)
    assert "is not in http.trusted_proxies" in record.getMessage()


@pytest.mark.parametrize("peer", ["8.8.8.8", "2606:4700::1", "10.0.0.1", "192.168.1.2", "unix"])
async def test_public_trusted_exempt_and_local_senders_of_forwarded_for_are_not_logged(forward, caplog, peer):
    await forward(peer)
    assert caplog.records == []
