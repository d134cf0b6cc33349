"""The faults that a test orders, met by a real server that queues: Postfix tries again until the mail has come, once."""

import json
import os
import time

import pytest

import postfix
from daemons import NO_LIMITS

MAIL = b"From: shop@shop.example\nSubject: Welcome\n\nHello!\n"
# What is ordered, how each try ends, and how many mails come.
ORDERED = {
    "greylisted": ([{"at": "rcpt", "reply": "451 4.7.1 Greylisted", "times": 2}], ["deferred", "deferred", "sent"]),
    "no room": ([{"at": "data", "reply": "452 4.3.1 Full"}], ["deferred", "sent"]),
    "later": ([{"at": "end", "reply": "451 4.3.0 Try again", "times": 2}], ["deferred", "deferred", "sent"]),
    "going down": ([{"at": "end", "reply": "421 4.3.0 Going down", "delay_seconds": 0.1}], ["deferred", "sent"]),
    "slow": ([{"at": "end", "delay_seconds": 2}], ["sent"]),
    "no such user": ([{"at": "rcpt", "reply": "550 5.1.1 No such user", "times": 5}], ["bounced"]),
}

pytestmark = [
    pytest.mark.needs("postfix"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start Postfix"),
]


@pytest.fixture
def queueing(start):
    daemon = start(TMPMAILD_SMTP__FAULTS="true", **NO_LIMITS)
    with postfix.started(daemon.smtp_port) as one:
        yield daemon, one


def test_a_server_that_queues_gets_over_every_fault_that_passes(queueing, figure):
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
