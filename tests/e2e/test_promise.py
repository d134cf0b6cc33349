"""A 250 is a promise: acknowledged messages survive kill -9, and are on disk before the reply is sent."""

import subprocess

import pytest

from daemons import NO_LIMITS
from senders import prove_promise


def test_no_acknowledged_mail_is_lost_or_damaged_by_kill_9(start, tmp_path):
    # The system tests kill the daemon more often.
    prove_promise(lambda: start(tmp_path, **NO_LIMITS), kills=2, most_mails=80)


@pytest.mark.needs("strace")
def test_the_message_is_synced_before_the_250_is_sent(start, tmp_path):
    daemon = start(**NO_LIMITS)
    address = daemon.create()
    trace = tmp_path / "trace.txt"
    tracer = subprocess.Popen(
        [
            *("strace", "-f", "-y", "-s", "40", "-o", str(trace), "-p", str(daemon.process.pid)),
            *("-e", "trace=pwrite64,fdatasync,fsync,write,sendto,sendmsg,writev"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    attached = tracer.stderr.readline()
    if "attached" not in attached:
        tracer.wait()
        pytest.skip(f"strace cannot attach here: {attached.strip()}")
    for _ in range(5):
        daemon.deliver_raw(address, b"Subject: a promise\r\n\r\n")
    daemon.stop()
    tracer.communicate()
    unsynced, promises = False, 0
    for line in trace.read_text().splitlines():
        if "pwrite64(" in line and "-wal>" in line:
            unsynced = True
        elif "sync(" in line and "-wal>" in line:
            unsynced = False
        elif "250 2.0.0 Ok: stored" in line:
            promises += 1
            assert not unsynced, "a 250 was sent before its message was on disk"
    assert promises == 5
