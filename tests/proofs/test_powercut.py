"""A 250 is kept through power cuts: whatever a disk may have left of the writes that were not safe yet."""

import random
import tempfile
import time
from pathlib import Path

import pytest

import powercut
from daemons import NO_LIMITS
from senders import SENDERS, Sender, damage, stored
from tmpmaild.storage.settings import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage


def now_ms():
    return time.time_ns() // 1_000_000


@pytest.fixture
def recording(tmp_path, start, amount):
    """Record a daemon from its first start on; return the events, what was promised in them, and all that was sent."""
    trace = tmp_path / "trace"
    folder = tmp_path / "disk"
    folder.mkdir()
    daemon = start(folder, tracer=powercut.tracer(trace), TMPMAILD_EXPIRY__INTERVAL_SECONDS="1", **NO_LIMITS)
    senders, doomed = send(daemon, amount(whole=1000, quick=300))
    assert daemon.stop() == 0, daemon.errors()
    promised = {name: digest for sender in senders for name, digest in sender.acknowledged.items()}
    sent = set().union(*(sender.sent for sender in senders + doomed))
    return powercut.recorded(trace, folder), promised, sent


def send(daemon, count):
    """Send some mails that are to be kept, and others to addresses that are deleted meanwhile."""
    kept = [daemon.create() for _ in range(5)]
    senders = [Sender(daemon.smtp_port, kept, f"kept/{number}") for number in range(SENDERS)]
    doomed = []
    for sender in senders:
        sender.start()
    while sum(len(sender.acknowledged) for sender in senders) < count:
        address = daemon.create()
        doomed.append(Sender(daemon.smtp_port, [address], address))
        doomed[-1].start()
        doomed[-1].join(0.2)
        doomed[-1].over.set()
        doomed[-1].join()
        daemon.request(f"/api/v1/addresses/{address}", "DELETE")
    for sender in senders:
        sender.over.set()
    for sender in senders:
        sender.join()
    return senders, doomed


@pytest.mark.needs("strace")
async def test_no_acknowledged_mail_is_lost_by_power_cuts(recording, amount, figure):
    events, promised, sent = recording
    assert sum(event.kind == "stored" and event.path in promised for event in events) == len(promised)
    cuts = amount(whole=200, quick=20)
    at = random.Random(1)
    acknowledged = [number for number, event in enumerate(events) if event.kind == "stored"]
    places = [at.choice(acknowledged) + 1 for _ in range(cuts // 2)]
    places += [at.randrange(len(events)) for _ in range(cuts - len(places))]
    disk, done, before = powercut.Disk(), 0, {}
    for place in sorted(places):
        for number in range(done, place):
            disk.happen(number, events[number])
            if events[number].path in promised:
                before[events[number].path] = promised[events[number].path]
        done = place
        await prove(disk, before, sent, place)
    figure(
        "power cut, torn at 512 octets",
        f"{cuts} cuts among {len(events):,} events, {len(promised):,} mails: 0 lost, 0 torn",
        "0 lost in 200 cuts",
    )


async def prove(disk, promised, sent, place):
    """Open what is left of the disk, and look for all that was promised."""
    with tempfile.TemporaryDirectory() as folder:
        disk.cut(folder, random.Random(place))
        path = Path(folder, "tmpmaild.db")
        settings = SqliteSettings(max_bytes=2**30, reserve_bytes=1024, max_bytes_per_inbox=2**40, path=path)
        async with open_storage(settings, now_ms):
            kept = stored(path)
            assert {name: kept.get(name) for name in promised} == promised, f"cut at {place}"
            assert set(kept.values()) <= sent, f"cut at {place}"
            assert damage(path) == "ok", f"cut at {place}"
