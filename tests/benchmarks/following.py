"""What a wait and an event stream cost: the time from the dot to the JSON, and the memory of many open streams."""

import http.client
import json
import resource
import selectors
import smtplib
import socket
import statistics
import time
from contextlib import ExitStack

from servers import Tmpmaild

WAITS = 200
STREAMS = 2000
TARGETS = {"wait_ms": 10, "streams_mib": 100}


def speak_of_waiting(folder):
    """Hold the time from the dot to the JSON at a waiting client against that from the dot to the 250."""
    with Tmpmaild(folder / "waiting") as ours, smtplib.SMTP("127.0.0.1", ours.smtp_port, "localhost") as smtp:
        smtp.ehlo()
        smtp.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pairs = [_seconds_from_dot(ours, smtp, number) for number in range(WAITS)]
    stored, shown = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    worst = max(shown for _, shown in pairs) * 1000
    print(
        f"one wait, dot to JSON, median: {shown:.2f} ms (worst {worst:.1f}), dot to 250 {stored:.2f} ms, "
        f"so {shown - stored:.2f} ms more (wanted at most {TARGETS['wait_ms']} above the fsync)",
        flush=True,
    )


def _seconds_from_dot(ours, smtp, number):
    address = ours.create()
    waiter = http.client.HTTPConnection("127.0.0.1", ours.http_port)
    waiter.request("GET", f"/api/v1/addresses/{address}/messages?wait=30")
    smtp.mail("a@example.com")
    smtp.rcpt(address)
    smtp.docmd("DATA")
    smtp.send(f"Subject: Sign in {number}\r\n\r\nYour verification code is {481516 + number}.\r\n".encode())
    time.sleep(0.005)  # the waiter sleeps by now
    began = time.perf_counter()
    smtp.docmd(".")
    stored = time.perf_counter()
    body = json.loads(waiter.getresponse().read())
    shown = time.perf_counter()
    waiter.close()
    assert body["messages"][0]["codes"][0]["value"] == str(481516 + number)
    return stored - began, shown - began


def speak_of_streams(folder):
    """Open many streams to one inbox each, and see whom a mail wakes."""
    allow_files(STREAMS + 100)
    with Tmpmaild(folder / "streams", TMPMAILD_HTTP__MAX_CONNECTIONS="0") as ours, ExitStack() as opened:
        addresses = [ours.create() for _ in range(STREAMS)]
        before = ours.resident_mib()
        streams = [opened.enter_context(opened_stream(ours, address)) for address in addresses]
        for stream in streams:
            assert b"retry" in until_retry(stream, 5)
        after = ours.resident_mib()
        woken, seconds = _woken_by_a_mail(ours, addresses[STREAMS // 2], streams)
    print(
        f"{STREAMS} open streams: {after - before:.0f} MiB on top of {before:.0f} "
        f"(wanted under {TARGETS['streams_mib']}); one mail wakes {woken} of them, after {seconds * 1000:.1f} ms",
        flush=True,
    )


def _woken_by_a_mail(ours, address, streams):
    with selectors.DefaultSelector() as selector, smtplib.SMTP("127.0.0.1", ours.smtp_port, "localhost") as smtp:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        began = time.perf_counter()
        smtp.sendmail("a@example.com", [address], b"Subject: x\r\n\r\nx\r\n")
        first = selector.select(5)
        seconds = time.perf_counter() - began
        time.sleep(0.5)
        assert first
        return len(selector.select(0)), seconds


def opened_stream(ours, address):
    stream = socket.create_connection(("127.0.0.1", ours.http_port))
    stream.sendall(f"GET /api/v1/addresses/{address}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return stream


def until_retry(stream, seconds):
    stream.settimeout(seconds)
    octets = b""
    while b"retry" not in octets:
        octets += stream.recv(65536)
    return octets


def allow_files(count):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * count, most), most))
