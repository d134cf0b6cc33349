"""The monitoring endpoints of a running service: health, readiness, and metrics, which are all documented."""

import json
import re
import smtplib
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import monitoring
from patience import PATIENCE_SECONDS
from tmpmaild import __version__

ALL_SHARE = {"TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0"}


def ask(url, method="GET"):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def daemon(start):
    return start(
        TMPMAILD_METRICS__LISTEN="127.0.0.1:0",
        TMPMAILD_SENDERS__RESOLVER="127.0.0.1:9",
        TMPMAILD_SENDERS__TIMEOUT_SECONDS="1",
    )


def url_of_metrics(daemon):
    while not (found := re.search(r"metrics on (127\.0\.0\.1:\d+)", daemon.log())):
        assert daemon.process.poll() is None  # a separate thread writes this line after the service has started
    return "http://" + found[1]


@pytest.fixture
def operator_url(daemon):
    return url_of_metrics(daemon)


def samples(url):
    """Return the values of all metric samples by name and labels."""
    status, text = ask(f"{url}/metrics")
    assert status == 200
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_reflect_what_happened(daemon, operator_url):
    address = daemon.create()
    daemon.deliver_raw(address, b"Subject: one\r\n\r\n")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        daemon.deliver_raw("nobody@mail.example.com", b"")
    ask(f"{daemon.url}/api/v1/addresses/{address}/messages")
    ask(f"{daemon.url}/api/v1/addresses/unknown@mail.example.com/messages")
    seen = samples(operator_url)
    expected = {
        ("tmpmaild_smtp_mails_total", "accepted", "2.0.0"): 1,
        ("tmpmaild_smtp_store_seconds_count",): 1,
        ("tmpmaild_smtp_refusals_total", "550", "5.1.1"): 1,
        ("tmpmaild_http_requests_total", "createAddress", "201"): 1,
        ("tmpmaild_http_requests_total", "listMessages", "200"): 1,
        ("tmpmaild_http_requests_total", "listMessages", "404"): 1,
        ("tmpmaild_storage_inboxes",): 1,
        ("tmpmaild_storage_messages",): 1,
        ("tmpmaild_storage_has_room",): 1,
        ("tmpmaild_storage_failed_batches_total",): 0,
        ("tmpmaild_clock_jumps_total",): 0,
        ("tmpmaild_clock_doubted_seconds",): 0,
        ("tmpmaild_build_info", __version__): 1,
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert seen["tmpmaild_turn_wait_seconds_count",] > 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not samples(operator_url)["tmpmaild_senders_resolver_silent_total",] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "senders.resolver 127.0.0.1:9 does not respond" in daemon.log()
    assert 0 <= time.time() - seen["process_start_time_seconds",] < 3600
    assert seen["tmpmaild_storage_used_bytes",] < seen["tmpmaild_storage_max_bytes",]
    assert address.partition("@")[0] not in str(seen)


def test_exactly_the_exposed_metrics_are_described(daemon, operator_url):
    daemon.create()
    status, text = ask(f"{operator_url}/metrics")
    assert status == 200
    served = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert served == monitoring.described("sqlite")


def test_health_and_readiness_are_served_on_both_ports_and_the_reason_on_one(start):
    daemon = start(TMPMAILD_METRICS__LISTEN="127.0.0.1:0", TMPMAILD_STORAGE__MAX_BYTES=str(1 << 20), **ALL_SHARE)
    operator_url = url_of_metrics(daemon)
    for url in (daemon.url, operator_url):
        assert ask(f"{url}/healthz") == ask(f"{url}/readyz") == (200, "ok\n")
        assert ask(f"{url}/healthz", "HEAD") == (200, "")
    assert ask(f"{daemon.url}/metrics")[0] == 404
    assert ask(f"{operator_url}/api/v1/domains")[0] == 404
    address = daemon.create()
    with pytest.raises(smtplib.SMTPException):
        daemon.deliver_raw(address, *[b"x" * 100_000] * 20)
    assert ask(f"{daemon.url}/readyz") == (503, "not ready\n")
    assert ask(f"{operator_url}/readyz") == (503, "storage full\n")
    assert ask(f"{daemon.url}/healthz") == (200, "ok\n")
    assert daemon.stop() == 0  # stop the daemon first, because a separate thread writes the log
    assert (
        "WARNING tmpmaild.storage.sqlite.space: storage full: storage.max_bytes (1 MiB) is reached" in daemon.errors()
    )


def test_unreadable_forwarded_for_fields_are_counted_logged_once_and_reported_by_doctor(start, command):
    daemon = start(TMPMAILD_METRICS__LISTEN="127.0.0.1:0", TMPMAILD_HTTP__TRUSTED_PROXIES="::ffff:127.0.0.0/104")
    statuses = [
        daemon.request("/api/v1/domains", headers=[("X-Forwarded-For", hop)]).status
        for hop in ("203.0.113.5:51234", "unknown", "[2001:db8::7]:80", "203.0.113.5, _x")
    ]
    assert statuses == [200] * 4
    assert samples(url_of_metrics(daemon))["tmpmaild_http_unreadable_forwarded_for_total",] == 2
    assert daemon.log().count("X-Forwarded-For from the proxy 127.0.0.1 does not end with an IP address") == 1
    said = json.loads(command("doctor", "--json", TMPMAILD_STORAGE__PATH=str(daemon.database)).stdout)["results"]
    assert [one["level"] for one in said if one["check"] == "X-Forwarded-For"] == ["warning"]


def test_a_proxy_that_is_not_trusted_is_counted_logged_once_and_reported_by_doctor(start, command):
    daemon = start(TMPMAILD_METRICS__LISTEN="127.0.0.1:0", TMPMAILD_LIMITS__EXEMPT="")
    for hop in ("203.0.113.5", "203.0.113.6"):
        assert daemon.request("/api/v1/domains", headers=[("X-Forwarded-For", hop)]).status == 200
    assert samples(url_of_metrics(daemon))["tmpmaild_http_untrusted_forwarded_for_total",] == 2
    assert daemon.log().count("127.0.0.1 sent X-Forwarded-For, but is not in http.trusted_proxies") == 1
    said = json.loads(command("doctor", "--json", TMPMAILD_STORAGE__PATH=str(daemon.database)).stdout)["results"]
    (found,) = [one for one in said if one["check"] == "X-Forwarded-For"]
    assert (found["level"], found["text"].partition(",")[0]) == (
        "warning",
        "2 requests since startup came from a proxy that was not trusted",
    )
