"""The effect of each configuration key, in a daemon that reads it from its environment.

``tests/effects.json`` lists these tests; ``tests/system/test_effects.py`` checks that each test fails when its key has
no effect.
"""

import json
import re
import smtplib
import socket
import urllib.error
import urllib.request
from datetime import datetime

import pytest

import certificates
from daemons import wait_until

SETTINGS = {
    "TMPMAILD_DOMAINS": "first.example,second.example",
    "TMPMAILD_HTTP__PUBLIC_URL": "https://mail.example/tmp",
    "TMPMAILD_HTTP__CORS_ORIGINS": "https://app.example",
    "TMPMAILD_HTTP__ALLOWED_HOSTS": "127.0.0.1",
    "TMPMAILD_HTTP__TRUSTED_PROXIES": "127.0.0.0/8",
    "TMPMAILD_HTTP__MAX_STREAMS_PER_CLIENT": "1",
    "TMPMAILD_ADDRESSES__LIFETIME_SECONDS": "1200",
    "TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS": "2400",
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "2",
    "TMPMAILD_ADDRESSES__MAX_BYTES": "60000",
    "TMPMAILD_SMTP__MAX_MESSAGE_BYTES": "200000",
    "TMPMAILD_SMTP__MAX_CONNECTIONS_PER_CLIENT": "2",
    "TMPMAILD_SMTP__HOSTNAME": "mx.first.example",
    "TMPMAILD_SMTP__AUTH": "any",
    "TMPMAILD_SMTP__FAULTS": "true",
    "TMPMAILD_SMTP__KEEP_REFUSALS": "true",
    "TMPMAILD_SMTP__ACCEPT_UNKNOWN": "create",
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "60000",
    "TMPMAILD_RATE_LIMIT__BURST": "777",
    "TMPMAILD_LIMITS__EXEMPT": "",
    "TMPMAILD_LOG__LEVEL": "debug",
    "TMPMAILD_LOG__ACCESS": "true",
    "TMPMAILD_METRICS__LISTEN": "127.0.0.1:0",
    "TMPMAILD_STORAGE__PATH": "here.db",
    "TMPMAILD_STORAGE__MAX_BYTES": str(50 << 20),
    "TMPMAILD_WEBHOOKS__ALLOW": "hooks.example",
}


@pytest.fixture(scope="module")
def daemon(start_in, tmp_path_factory):
    return start_in(tmp_path_factory.mktemp("keys"), **SETTINGS)


def created(daemon, **members):
    return daemon.request("/api/v1/addresses", "POST", members)


def logged(daemon, text):
    """Return the log once it contains a text; the text may be late, because a separate thread writes the log."""
    wait_until(lambda: text in daemon.log())
    return daemon.log()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_domains(daemon):
    assert daemon.request("/api/v1/domains").json["domains"] == ["first.example", "second.example"]


def test_http_public_url(daemon):
    answer = daemon.request("/api/v1/addresses", "POST", {})
    assert answer.headers["location"].startswith("/tmp/api/")


def test_http_cors_origins(daemon):
    answer = daemon.request("/api/v1/domains", headers={"Origin": "https://app.example"})
    assert answer.headers.get("access-control-allow-origin") == "https://app.example"


def test_http_allowed_hosts(daemon):
    assert daemon.request("/api/v1/domains", headers={"Host": "elsewhere.example"}).json["code"] == "bad-host"


def test_http_trusted_proxies(daemon):
    daemon.request("/api/v1/forwarded", headers={"X-Forwarded-For": "203.0.113.9"})
    assert "203.0.113.9" in logged(daemon, "/api/v1/forwarded")


def test_http_max_streams_per_client(daemon):
    address = daemon.create()
    events = f"/api/v1/addresses/{address}/events"
    with urllib.request.urlopen(daemon.url + events, timeout=60):
        with pytest.raises(urllib.error.HTTPError, match="429") as refused:
            urllib.request.urlopen(daemon.url + events, timeout=60).close()
        refused.value.close()


def test_http_require_token(start):
    daemon = start(TMPMAILD_HTTP__REQUIRE_TOKEN="true")
    assert daemon.request(f"/api/v1/addresses/{daemon.create()}/messages").status == 401


def test_http_listen(start):
    port = free_port()
    assert start(TMPMAILD_HTTP__LISTEN=f"127.0.0.1:{port}").http_port == port


def test_smtp_listen(start):
    port = free_port()
    assert start(TMPMAILD_SMTP__LISTEN=f"127.0.0.1:{port}").smtp_port == port


def times(daemon, *names):
    made = created(daemon).json
    created_at, *found = (datetime.fromisoformat(made[name]) for name in ("created_at", *names))
    return [(one - created_at).total_seconds() for one in found]


def test_addresses_lifetime_seconds(daemon):
    assert times(daemon, "expires_at") == [1200]


def test_addresses_max_lifetime_seconds(daemon):
    assert times(daemon, "extendable_until") == [2400]


def test_addresses_max_messages(daemon):
    address = daemon.create()
    daemon.deliver_raw(address, b"\r\n", b"\r\n")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        daemon.deliver_raw(address, b"\r\n")


def test_addresses_max_bytes(daemon):
    with pytest.raises(smtplib.SMTPDataError, match="452"):
        daemon.deliver_raw(daemon.create(), b"Subject: long\r\n\r\n" + b"line\r\n" * 20_000)


def extensions(daemon):
    with daemon.smtp() as client:
        client.ehlo()
        return client.esmtp_features


def test_smtp_max_message_bytes(daemon):
    assert extensions(daemon)["size"] == "200000"


def test_smtp_auth(daemon):
    assert "PLAIN" in extensions(daemon).get("auth", "")


def test_smtp_hostname(daemon):
    with daemon.smtp() as client:
        assert b"mx.first.example" in client.ehlo()[1]


def test_smtp_max_connections_per_client(daemon):
    with daemon.smtp(), daemon.smtp(), pytest.raises(smtplib.SMTPConnectError, match="421"):
        daemon.smtp().close()


def test_smtp_faults(daemon):
    assert created(daemon, faults=[{"at": "rcpt", "reply": "450 4.2.1 Try again later"}]).status == 201


def test_smtp_keep_refusals(daemon):
    assert daemon.request("/api/v1/refusals").status == 200


def test_smtp_accept_unknown(daemon):
    daemon.deliver_raw("unknown.until.now@first.example", b"Subject: hello\r\n\r\n")
    assert [mail["subject"] for mail in daemon.messages("unknown.until.now@first.example")] == ["hello"]


def test_smtp_max_connections(start):
    daemon = start(TMPMAILD_SMTP__MAX_CONNECTIONS="1", TMPMAILD_LIMITS__EXEMPT="127.0.0.0/8")
    with daemon.smtp(), pytest.raises(smtplib.SMTPConnectError, match="421"):
        daemon.smtp().close()


def test_smtp_tls_certificate_and_key(start, tmp_path):
    certificates.make(tmp_path, "mx.test", certificate="cert.pem", key="key.pem")
    paths = {"TMPMAILD_SMTP__TLS_CERTIFICATE": "cert.pem", "TMPMAILD_SMTP__TLS_KEY": "key.pem"}
    assert "starttls" in extensions(start(**paths))


def test_smtp_trusted_proxies(start):
    daemon = start(TMPMAILD_SMTP__TRUSTED_PROXIES="127.0.0.0/8")
    with socket.create_connection(("127.0.0.1", daemon.smtp_port)) as proxy:
        proxy.sendall(b"PROXY TCP4 203.0.113.9 192.0.2.1 5000 25\r\n")
        proxy.sendall(b"QUIT\r\n")
        replies = b"".join(iter(lambda: proxy.recv(1000), b""))
    assert [line[:4] for line in replies.splitlines()] == [b"220 ", b"221 "]


def test_rate_limit_requests_per_minute(daemon):
    assert daemon.request("/api/v1/domains").headers["ratelimit-policy"] == '"default";q=60000;w=60'


def test_rate_limit_burst(daemon):
    left = daemon.request("/api/v1/domains").headers["ratelimit"]
    assert int(re.search(r";r=(\d+)", left)[1]) > 100


def test_limits_exempt(start):
    limited = {"TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "1", "TMPMAILD_RATE_LIMIT__BURST": "1"}
    daemon = start(TMPMAILD_LIMITS__EXEMPT="127.0.0.0/8", **limited)
    assert [daemon.request("/api/v1/domains").status for _ in "12"] == [200, 200]


def test_log_level(daemon):
    daemon.deliver_raw(daemon.create(), b"Subject: hello\r\n\r\n")
    assert " DEBUG tmpmaild." in logged(daemon, "POST /api/v1/addresses")


def test_log_access(start):
    daemon = start(TMPMAILD_LOG__ACCESS="true")
    daemon.request("/api/v1/domains")
    daemon.stop()
    assert "GET /api/v1/domains" in daemon.log()


def test_log_format(start):
    daemon = start(TMPMAILD_LOG__FORMAT="json")
    assert all(json.loads(line)["level"] for line in daemon.log().splitlines())


def metrics(daemon):
    _, found, place = daemon.log().partition("metrics on ")
    assert found
    with urllib.request.urlopen(f"http://{place.split()[0]}/metrics", timeout=60) as answer:
        return answer.read().decode()


def test_metrics_listen(daemon):
    assert "tmpmaild_build_info" in metrics(daemon)


def test_storage_max_bytes(daemon):
    (value,) = re.findall(r"^tmpmaild_storage_max_bytes (\S+)$", metrics(daemon), re.MULTILINE)
    assert float(value) == 50 << 20


def test_storage_path(daemon):
    assert (daemon.folder / "here.db").exists()


def test_webhooks_allow(daemon):
    assert created(daemon, webhook={"url": "https://hooks.example/mail"}).status == 201
