"""The token bucket from a client's point of view."""

from ipaddress import ip_network

import pytest

from tmpmaild.errors import StorageUnavailable
from tmpmaild.http.crosssite import CrossSite
from tmpmaild.http.middleware import Middleware
from tmpmaild.http.problems import Problems
from tmpmaild.metrics import Count
from tmpmaild.ratelimit import RateLimits, TokenBuckets
from tmpmaild.storage.postgresql.storage import SharedBuckets

ADDRESSES = "/api/v1/addresses"
NOBODY = ADDRESSES + "/unknown@mail.example.com"
PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


class StoppedBuckets(TokenBuckets):
    """Buckets whose clock is stopped, so the speed of the machine does not matter."""

    def take(self, client, _now_seconds):
        return super().take(client, 1000.0)


@pytest.fixture
def limited(world, client):
    """Return a function that creates a client for an application with the default limit."""

    def make(buckets=None, trusted_proxies=(), exempt=()):
        limits = RateLimits(StoppedBuckets(10, 10) if buckets is None else buckets, StoppedBuckets(2, 2, name="page"))
        app = Middleware(
            world.app(),
            limits=limits,
            problems=Problems(""),
            requests=Count("requests", "", ("operation", "status")),
            unreadable=Count("unreadable", ""),
            untrusted=Count("untrusted", ""),
            cross_site=CrossSite(),
            trusted_proxies=trusted_proxies,
            exempt=exempt,
        )
        return type(client)(app)

    return make


async def remaining(client, **more):
    answer = await client.get(NOBODY, **more)
    assert answer.header("ratelimit-policy") == '"default";q=10;w=60'
    return int(answer.header("ratelimit").partition("r=")[2].partition(";")[0]) if answer.status != 429 else None


async def test_ten_requests_pass_and_the_eleventh_waits(limited):
    client = limited()
    for left in range(9, -1, -1):
        answer = await client.get(NOBODY)
        assert answer.status == 404
        assert answer.header("ratelimit-policy") == '"default";q=10;w=60'
        assert answer.header("ratelimit") == f'"default";r={left};t=6'
        assert answer.header("retry-after") is None
    answer = await client.get(NOBODY)
    assert (answer.status, answer.json()["code"]) == (429, "rate-limited")
    assert answer.header("ratelimit-policy") == '"default";q=10;w=60'
    assert answer.header("ratelimit") == '"default";r=0;t=6'
    assert answer.header("retry-after") == "6"


async def away(policy, client, *, refill_seconds, burst):
    raise StorageUnavailable("away")


async def test_without_the_database_that_has_the_buckets_no_request_passes(limited):
    answer = await limited(SharedBuckets(away, 10, 10, name="default")).get(NOBODY)
    assert (answer.status, answer.json()["code"]) == (503, "storage-unavailable")
    assert answer.header("retry-after") == "5"
    answer = await limited(SharedBuckets(away, 10, 10, name="default")).post(f"{NOBODY}/messages/x/view")
    assert (answer.status, answer.json()["code"]) == (503, "storage-unavailable")
    assert answer.header("ratelimit") is None


@pytest.mark.parametrize("engine_kind", ["postgresql"])
async def test_ten_requests_pass_over_all_daemons_that_share_a_database(world, open_world, limited):
    async with open_world() as other:
        clients = [
            limited(one.storage.buckets(tokens_per_minute=1, burst=10, name="default")) for one in (world, other)
        ]
        answers = [await clients[number % 2].get(NOBODY) for number in range(12)]
    assert [answer.status for answer in answers] == [404] * 10 + [429] * 2
    left = [int(answer.header("ratelimit").partition("r=")[2].partition(";")[0]) for answer in answers]
    assert left == [*range(9, -1, -1), 0, 0]
    assert {answer.header("retry-after") for answer in answers[:10]} == {None}
    assert {int(answer.header("retry-after")) for answer in answers[10:]} <= set(range(1, 61))


@pytest.mark.parametrize(
    ("method", "target", "more"),
    [
        ("POST", "/api/v1/addresses", {}),
        ("POST", "/api/v1/addresses", {"body": b"{"}),
        ("PUT", "/api/v1/addresses", {}),
        ("HEAD", "/api/v1/addresses/unknown@mail.example.com", {}),
        ("GET", "/api/v1/nothing", {}),
        ("GET", "/api/", {}),
        ("GET", "/%61pi/v1", {}),
        ("GET", "/api/v1/addresses/unknown@mail.example.com", {"host": None}),
        ("GET", "/api/v1/addresses/unknown@mail.example.com/messages?limit=0", {}),
        ("GET", NOBODY, {"headers": {"X": "x" * 20_000}}),
    ],
)
async def test_every_request_below_api_takes_a_token(limited, method, target, more):
    client = limited()
    answer = await client.ask(method, target, **more)
    assert answer.header("ratelimit") == '"default";r=9;t=6'
    assert await remaining(client) == 8


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("OPTIONS", "/api/v1/addresses"),
        ("OPTIONS", "/api/v1/addresses/unknown@mail.example.com"),
        ("GET", "/"),
        ("GET", "/problems/not-found"),
        ("GET", "/api"),
        ("GET", "/apis/"),
    ],
)
async def test_no_other_request_takes_a_token(limited, method, target):
    client = limited()
    answer = await client.ask(method, target)
    assert answer.header("ratelimit") is None
    assert await remaining(client) == 9


async def forwarded_as(client, peer, forwarded_for, name):
    """Return whether a request from ``peer`` counts toward the limit of the client ``name``."""
    await remaining(client, peer=peer, headers={"X-Forwarded-For": forwarded_for})
    return await remaining(client, peer=name) == 8


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "counted_as"),
    [
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::7"),
        ("unix", "198.51.100.1", "198.51.100.1"),
    ],
)
async def test_only_the_client_stated_by_a_trusted_proxy_is_trusted(limited, peer, forwarded_for, counted_as):
    assert await forwarded_as(limited(trusted_proxies=PROXIES), peer, forwarded_for, counted_as)


async def test_exempt_clients_have_no_limit_and_behind_a_proxy_the_client_is_exempt_not_the_proxy(limited):
    client = limited(exempt=[ip_network("192.0.2.0/24"), ip_network("2001:db8::/32")])
    for peer in ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8:1::1"):
        for _ in range(12):
            answer = await client.get(NOBODY, peer=peer)
            assert (answer.status, answer.header("ratelimit")) == (404, None)
    assert await remaining(client, peer="198.51.100.1") == 9
    client = limited(trusted_proxies=PROXIES, exempt=[ip_network("10.0.0.0/8")])
    assert (await client.get(NOBODY, peer="10.0.0.1")).header("ratelimit") is None
    assert await remaining(client, peer="10.0.0.1", headers={"X-Forwarded-For": "198.51.100.1"}) == 9
