"""Webhooks when daemons are killed: a target is called for acknowledged messages only, at least once each, in order."""

import random

import pytest
from targets import Target, first_call_fails

from daemons import NO_LIMITS, wait_until
from senders import Sender

INBOXES = 5
LEASE_AND_RETRIES_SECONDS = 120


@pytest.fixture
def chance():
    return random.Random(1)


@pytest.fixture
def target(chance):
    target = Target(first_call_fails(chance))
    yield target
    target.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def daemons(start, request, tmp_path, target):
    """Return one daemon, or two daemons on one PostgreSQL database."""
    settings = {**NO_LIMITS, "TMPMAILD_WEBHOOKS__ALLOW": f"127.0.0.1:{target.port}"}
    if request.param == "sqlite":
        return [start(**settings)]
    cluster = request.getfixturevalue("cluster")
    settings["TMPMAILD_STORAGE__URL"] = cluster.url(cluster.database())
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    return [start(folder, **settings) for folder in folders]


def test_kills_neither_lose_nor_invent_events_of_acknowledged_messages(daemons, target, chance, amount, figure):
    kills = amount(whole=60, quick=3)
    addresses = [target.inbox(daemons[0])["address"] for _ in range(INBOXES)]
    acknowledged = set()
    for number in range(kills):
        acknowledged |= _sent_through_a_kill(daemons, number, addresses, chance)
    wait_until(lambda: acknowledged <= {one.document["data"]["id"] for one in target.taken}, LEASE_AND_RETRIES_SECONDS)
    told = {address: [] for address in addresses}
    for one in target.taken:
        told[one.document["data"]["to"]].append(one.document["data"]["id"])
    for address, ids in told.items():
        first_times = list(dict.fromkeys(ids))
        assert first_times == sorted(first_times)
        assert set(first_times) <= _stored(daemons[0], address)
    twice = sum(len(ids) - len(set(ids)) for ids in told.values())
    found = f"{kills} kills, {len(acknowledged):,} mails acknowledged: 0 not told, 0 invented, {twice} told twice"
    figure(f"webhooks and `kill -9`, daemons: {len(daemons)}", found, "0 not told, 0 invented")


def _sent_through_a_kill(daemons, number, addresses, chance):
    """Send to all daemons until one is killed, and restart it; return the ids of acknowledged messages."""
    senders = [Sender(daemon.smtp_port, addresses, 2 * number + place) for place, daemon in enumerate(daemons)]
    for sender in senders:
        sender.start()
    victim = daemons[number % len(daemons)]
    wanted = chance.randint(1, 12)
    wait_until(lambda: sum(len(sender.acknowledged) for sender in senders) >= wanted)
    victim.process.kill()
    victim.process.wait()
    for sender in senders:
        sender.over.set()
        sender.join()
    victim.process.stdout.close()
    victim.start()
    return {message_id for sender in senders for message_id in sender.acknowledged}


def _stored(daemon, address):
    """Return the ids of all messages of an inbox."""
    ids, after = set(), ""
    while page := daemon.messages(address, f"?limit=100&order=asc{after}"):
        ids |= {message["id"] for message in page}
        after = f"&after={page[-1]['id']}"
    return ids
