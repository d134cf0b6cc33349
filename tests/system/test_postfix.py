"""Faults requested by a test, with a real queueing server: Postfix retries until the message arrives, exactly once."""

import json
import os
import re
import smtplib
import socket
import time

import pytest

import postfix
from blocks import ROOT
from daemons import NO_LIMITS

MAIL = b"From: shop@shop.example\nSubject: Welcome\n\nHello!\n"
# The requested faults, and the result of each delivery attempt.
ORDERED = {
    "greylisted": ([{"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2}], ["deferred", "deferred", "sent"]),
    "no room": ([{"at": "data", "reply": "452 4.3.1 Full"}], ["deferred", "sent"]),
    "later": ([{"at": "end", "reply": "451 4.3.0 Try again", "times": 2}], ["deferred", "deferred", "sent"]),
    "going down": ([{"at": "end", "reply": "421 4.3.0 Going down", "delay_seconds": 0.1}], ["deferred", "sent"]),
    "slow": ([{"at": "end", "delay_seconds": 2}], ["sent"]),
    "no such user": ([{"at": "rcpt", "reply": "550 5.1.1 No such user", "times": 5}], ["bounced"]),
}

pytestmark = [pytest.mark.needs("postfix"), pytest.mark.skipif(os.geteuid() != 0, reason="only root can start Postfix")]


@pytest.fixture
def queueing(start):
    daemon = start(TMPMAILD_SMTP__FAULTS="true", **NO_LIMITS)
    with postfix.started(daemon.smtp_port) as one:
        yield daemon, one


def test_a_queueing_server_delivers_after_every_temporary_fault(queueing, figure):
    daemon, sender = queueing
    begun = time.monotonic()
    addresses = {}
    for name, (faults, _) in ORDERED.items():
        body = json.dumps({"faults": faults}).encode()
        created = daemon.request("/api/v1/addresses", "POST", body, {"Content-Type": "application/json"})
        addresses[name] = created.json["address"]
    for address in addresses.values():
        sender.send("shop@shop.example", address, MAIL)
    expected = {addresses[name]: tries for name, (_, tries) in ORDERED.items()}
    while {address: sender.tries(address) for address in expected} != expected:
        assert time.monotonic() - begun < postfix.PATIENCE_SECONDS, sender.log
        time.sleep(0.1)
    for address, tries in expected.items():
        found = [mail["subject"] for mail in daemon.messages(address)]
        assert found == (["Welcome"] if "sent" in tries else []), address
    figure("Postfix delivers through 451, 452 and 421", f"{time.monotonic() - begun:.1f} s", "each mail once")


def test_postfix_on_port_25_forwards_mail_for_the_domain(start, figure):
    """Uses the settings of docs/operations.md: live addresses are accepted, and all other names are refused."""
    daemon = start(TMPMAILD_DOMAINS="tmp.example.org", **NO_LIMITS)
    text = (ROOT / "docs/operations.md").read_text()
    (settings,) = re.findall(r"^```text\n(relay_domains.*?)^```", text, re.MULTILINE | re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    settings = settings.replace("2525", str(daemon.smtp_port)) + "mynetworks = 192.0.2.1\n"

    def answer(recipient):
        with smtplib.SMTP(listen, local_hostname="localhost", timeout=30) as client:
            client.ehlo()
            client.mail("a@example.com")
            return client.rcpt(recipient)[0]

    with postfix.started(daemon.smtp_port, settings, listen) as server:
        name = "later@tmp.example.org"
        assert answer(name) == 550, server.log
        daemon.request("/api/v1/addresses", "POST", b'{"local_part": "later"}', {"Content-Type": "application/json"})
        begun = time.monotonic()
        while answer(name) != 250:  # Postfix caches unknown addresses only for a short time
            assert time.monotonic() - begun < postfix.PATIENCE_SECONDS, server.log
            time.sleep(0.5)
        with smtplib.SMTP(listen, local_hostname="localhost", timeout=30) as client:
            client.sendmail("a@example.com", [name], b"Subject: by Postfix\r\n\r\n")
        begun = time.monotonic()
        while not daemon.messages(name):
            assert time.monotonic() - begun < postfix.PATIENCE_SECONDS
            time.sleep(0.1)
        assert answer("else@elsewhere.example") in (454, 554)  # Postfix is not an open relay
    figure("Postfix in front, with port 25", "accepts live addresses, refuses all others", "both")
