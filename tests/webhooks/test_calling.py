"""One call over real connections: the request that a target receives, and the limits that protect the daemon."""

import asyncio
import socket
import ssl
import threading

import pytest
from receivers import receiving

import certificates
from patience import PATIENCE_SECONDS
from tmpmaild.webhooks.calling import Caller, Lookups, Outcome, resolve
from tmpmaild.webhooktargets import parse_rule, parse_url

pytestmark = pytest.mark.both_loops
BODY = b'{"type":"message.received"}'


def rules(*texts):
    return tuple(map(parse_rule, texts))


async def call(url, *allowed, caller=None, body=BODY):
    caller = caller or Caller()
    return await caller.call(rules(*allowed), parse_url(url), [("webhook-id", "evt_1")], body)


def resolving(*answers):
    """Return a function that resolves each name to the next result, and the list of names passed to it."""
    asked, left = [], list(answers)

    def resolve(host, port):
        asked.append(host)
        return left.pop(0)

    return resolve, asked


async def call_loopback(receiver, **more):
    return await call(f"http://127.0.0.1:{receiver.port}/in?a=b", f"127.0.0.0/8:{receiver.port}", **more)


async def test_a_target_gets_one_post():
    async with receiving() as receiver:
        assert await call_loopback(receiver) == Outcome(204)
    (told,) = receiver.told
    assert told.line == "POST /in?a=b HTTP/1.1"
    assert told.fields == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-length": str(len(BODY)),
        "connection": "close",
        "webhook-id": "evt_1",
    }
    assert told.body == BODY


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status):
    async with receiving() as inside, receiving() as receiver:
        to = f"http://127.0.0.1:{inside.port}/latest/meta-data/"
        receiver.answer = f"HTTP/1.1 {status} Over There\r\nLocation: {to}\r\n\r\n".encode()
        allowed = [f"127.0.0.0/8:{one.port}" for one in (inside, receiver)]
        assert await call(f"http://127.0.0.1:{receiver.port}/", *allowed) == Outcome(status)
        assert inside.connections == 0


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    async with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await call_loopback(receiver)).status == 204
        assert proxy.connections == 0


async def test_a_name_that_resolves_differently_at_the_next_call_is_not_connected_to():
    """DNS rebinding: each call resolves the name once, and connects to the address that it has checked."""
    # Two addresses that nothing else uses, because the port must be free on both.
    resolve, asked = resolving(["127.0.0.2"], ["127.0.0.3"])
    async with receiving(host="127.0.0.2") as allowed, receiving(host="127.0.0.3", port=allowed.port) as inside:
        places = (f"hooks.example.org:{allowed.port}", f"127.0.0.2/32:{allowed.port}")
        caller, url = Caller(resolve=resolve), f"http://hooks.example.org:{allowed.port}/"
        assert [await call(url, *places, caller=caller) for _ in range(2)] == [
            Outcome(204),
            Outcome(reason="not-allowed"),
        ]
        assert (allowed.connections, inside.connections) == (1, 0)
    assert asked == ["hooks.example.org"] * 2
    assert allowed.told[0].fields["host"] == f"hooks.example.org:{allowed.port}"


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "::1", "0.0.0.0", "::"])
async def test_a_name_that_resolves_to_this_machine_is_not_connected_to(address):
    async with receiving() as inside:
        caller = Caller(resolve=resolving([address])[0])
        allowed = f"*.example.org:{inside.port}"
        outcome = await call(f"http://a.example.org:{inside.port}/", allowed, caller=caller)
        assert outcome == Outcome(reason="not-allowed")
        assert inside.connections == 0


async def test_only_the_allowed_addresses_of_a_name_are_tried():
    async with receiving() as inside, receiving(host="127.0.0.2", port=inside.port) as allowed:
        caller = Caller(resolve=resolving(["127.0.0.1", "127.0.0.2"])[0])
        places = (f"hooks.example.org:{inside.port}", f"127.0.0.2/32:{inside.port}")
        assert (await call(f"http://hooks.example.org:{inside.port}/", *places, caller=caller)).status == 204
        assert (inside.connections, allowed.connections) == (0, 1)
    async with receiving(host="127.0.0.2") as receiver:
        caller = Caller(resolve=resolving(["127.0.0.3", "127.0.0.2"])[0])
        places = (f"hooks.example.org:{receiver.port}", f"127.0.0.0/8:{receiver.port}")
        assert (await call(f"http://hooks.example.org:{receiver.port}/", *places, caller=caller)).status == 204


async def test_a_url_that_the_operator_no_longer_allows_is_not_looked_up():
    resolve, asked = resolving(["127.0.0.1"])
    outcome = await call("https://hooks.example.org/", "other.example", caller=Caller(resolve=resolve))
    assert (outcome, asked) == (Outcome(reason="not-allowed"), [])


async def test_the_daemon_does_not_call_itself():
    async with receiving(host="0.0.0.0") as ours:
        caller = Caller({ours.port}, resolve=resolving(["127.0.0.1"])[0])
        allowed = (f"127.0.0.0/8:{ours.port}", f"mail.example.com:{ours.port}")
        for host in ("127.0.0.1", "127.0.0.9", "mail.example.com"):
            outcome = await call(f"http://{host}:{ours.port}/", *allowed, caller=caller)
            assert outcome == Outcome(reason="not-allowed")
        assert ours.told == []


@pytest.mark.parametrize(
    ("start", "piece", "times", "end", "outcome"),
    [
        (
            b"HTTP/1.1 429 Slow Down\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n",
            b"",
            0,
            b"",
            {"status": 429, "retry_after": "120"},
        ),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"a", 1000000, b"\r\n\r\n", {"reason": "protocol"}),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 10000, b"", {"reason": "protocol"}),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b" ", 500, b"\nx\r\n", {"status": 200}),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a:\n", 300, b"\n", {"status": 200}),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"", 0, b"", {"reason": "protocol"}),
        (b"220 mail.example.com ESMTP\r\n\r\n", b"", 0, b"", {"reason": "protocol"}),
        (b"", b"\x00", 100, b"", {"reason": "protocol"}),
    ],
)
async def test_every_response_is_read_within_limits(start, piece, times, end, outcome):
    async with receiving(start + piece * times + end) as receiver:
        assert await call_loopback(receiver) == Outcome(**outcome)


@pytest.mark.parametrize("field", [b"a:\n" * 101, b"a:" + b" " * 9000 + b"\0\r\n"], ids=["many", "quadratic"])
async def test_a_header_that_is_expensive_to_parse_is_not_parsed(field, monkeypatch):
    monkeypatch.setattr("h11._readers.header_field_re", None)  # makes any use of the pattern fail
    async with receiving(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n") as receiver:
        assert await call_loopback(receiver) == Outcome(reason="protocol")


async def test_an_endless_body_is_left_unread():
    sent = 0

    async def flood(_, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"a" * 65_536)
            await writer.drain()
            sent += 65_536

    async with receiving(flood) as receiver:
        assert await call_loopback(receiver) == Outcome(200)
    assert sent < 32 << 20  # this includes the data that the kernel buffers


async def test_a_connection_closed_without_a_response_is_an_error():
    async with receiving(b"HTTP/1.1 200 OK\r\n") as receiver:
        assert await call_loopback(receiver) == Outcome(reason="connection")
    assert await call_loopback(receiver) == Outcome(reason="connection")  # nothing is listening any more


async def test_a_call_to_a_target_that_never_responds_times_out():
    async def stay_silent(*_):
        await asyncio.Event().wait()

    async with receiving(stay_silent) as receiver:
        assert await call_loopback(receiver, caller=Caller(call_seconds=0.2)) == Outcome(reason="timeout")


async def test_a_call_to_a_target_that_does_not_read_times_out():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        caller = Caller(call_seconds=0.2)
        outcome = await call(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}", caller=caller, body=b"a" * (16 << 20))
    assert outcome == Outcome(reason="timeout")


async def test_an_unresponsive_name_server_blocks_one_thread_for_each_name():
    answered = threading.Event()
    threads = []

    def resolve(*_):
        threads.append(threading.current_thread())
        answered.wait(PATIENCE_SECONDS)
        return []

    caller = Caller(resolve=resolve, call_seconds=0.2)
    try:
        calls = [call("https://hooks.example.org/", "hooks.example.org", caller=caller) for _ in range(3)]
        assert set(await asyncio.gather(*calls)) == {Outcome(reason="timeout")}
        assert len(threads) == 1
        assert threads[0].daemon  # lets the process exit even though the thread is blocked
    finally:
        answered.set()


async def test_the_number_of_simultaneous_lookups_is_limited():
    answered = threading.Event()
    lookups = Lookups(lambda *_: answered.wait(PATIENCE_SECONDS) and ["192.0.2.1"])
    waiting = [asyncio.ensure_future(lookups.addresses(f"host{number}.example", 80)) for number in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many lookups"):
        await lookups.addresses("one.more.example", 80)
    answered.set()
    assert await asyncio.gather(*waiting) == [["192.0.2.1"]] * 64


async def test_a_lookup_without_a_thread_is_an_error_and_the_next_one_is_made(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    caller = Caller(resolve=lambda *_: ["127.0.0.1"])
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        assert await call("https://hooks.example.org/", "hooks.example.org", caller=caller) == Outcome(reason="dns")
    outcome = await call("https://hooks.example.org/", "hooks.example.org", caller=caller)
    assert outcome == Outcome(reason="not-allowed")


async def test_a_name_that_does_not_exist_is_a_dns_error_and_an_address_resolves_to_itself():
    def fail(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    outcome = await call("https://hooks.example.org/", "hooks.example.org", caller=Caller(resolve=fail))
    assert outcome == Outcome(reason="dns")
    assert (resolve("127.0.0.1", 443), resolve("::1", 443)) == (["127.0.0.1"], ["::1"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    certificates.make(made, "hooks.example.org", "127.0.0.1")
    return made


@pytest.fixture
def tls(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.fixture
def trusted(folder, monkeypatch):
    """Make OpenSSL trust only the test's certificate authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))


def loopback(*_):
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "outcome"),
    [
        ("hooks.example.org", Outcome(204)),
        ("127.0.0.1", Outcome(204)),
        ("other.example.org", Outcome(reason="tls")),
    ],
)
@pytest.mark.usefixtures("trusted")
async def test_the_certificate_must_be_for_the_host_of_the_url(tls, host, outcome):
    async with receiving(tls=tls) as receiver:
        allowed = (f"*.example.org:{receiver.port}", f"127.0.0.1:{receiver.port}")
        caller = Caller(resolve=loopback)
        assert await call(f"https://{host}:{receiver.port}/", *allowed, caller=caller) == outcome
        assert len(receiver.told) == outcome.is_good


async def test_a_certificate_of_an_unknown_authority_is_refused(tls):
    async with receiving(tls=tls) as receiver:
        url, allowed = f"https://hooks.example.org:{receiver.port}/", f"*.example.org:{receiver.port}"
        outcome = await call(url, allowed, f"127.0.0.1:{receiver.port}", caller=Caller(resolve=loopback))
        assert outcome == Outcome(reason="tls")
        assert receiver.told == []


@pytest.mark.usefixtures("trusted")
async def test_a_target_that_resets_the_connection_after_tls_is_an_error(tls):
    async def reset(_, writer):
        writer.transport.abort()

    async with receiving(reset, tls=tls) as receiver:
        outcome = await call(f"https://127.0.0.1:{receiver.port}/", f"127.0.0.1:{receiver.port}")
        assert outcome == Outcome(reason="connection")
