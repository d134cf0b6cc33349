"""Occasional disk errors do not lose acknowledged messages, and the service continues, or logs an error and exits."""

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemons import NO_LIMITS, wait_until
from senders import SENDERS, Sender, damage, stored

FAULTS = [
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("fdatasync", "EIO"),
    ("fdatasync", "ENOSPC"),
    ("pread64", "EIO"),
    ("ftruncate", "EIO"),
]
SECONDS = 1.5
ENDED_BY_ITSELF = 1


@contextmanager
def failing(daemon, log, call, error, every):
    """Make every n-th system call of one kind fail on the database and its WAL; strace must be allowed to attach."""
    paths = [word for end in ("", "-wal") for word in ("-P", f"{daemon.database}{end}")]
    inject = f"inject={call}:error={error}:when={every}+{every}"
    command = ["strace", "-f", "-qq", "-o", str(log), *paths, "-e", inject, "-p", str(daemon.process.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: log.exists() and "TracerPid:\t0" not in status(daemon))
        yield
    finally:
        tracer.terminate()  # this detaches the tracer
        tracer.wait()
        tracer.stderr.close()


def status(daemon):
    return Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="utf-8")


def mail_comes_in(daemon, addresses, seed):
    """Send, delete and read messages for a while; return the senders."""
    senders = [Sender(daemon.smtp_port, addresses, f"{seed}/{number}") for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    over_at = time.monotonic() + SECONDS
    while time.monotonic() < over_at and daemon.process.poll() is None:
        for address in addresses:
            senders[0].join(0.02)
            try:
                assert daemon.request(f"/api/v1/addresses/{address}/messages").status in (200, 503)
            except OSError:
                break  # the daemon has exited
    for sender in senders:
        sender.over.set()
    for sender in senders:
        sender.join()
    return senders


def recovers(daemon, addresses):
    """Return whether the daemon accepts a message within seconds; restart it first if it has exited."""
    if daemon.process.poll() is None:
        sender = Sender(daemon.smtp_port, addresses, "afterwards")
        sender.start()
        try:
            wait_until(lambda: sender.acknowledged or not sender.is_alive())
        finally:
            sender.over.set()
            sender.join()
        return bool(sender.acknowledged)
    assert daemon.process.returncode == ENDED_BY_ITSELF
    daemon.start()
    return True


@pytest.mark.needs("strace")
def test_disk_errors_lose_no_acknowledged_message(start, tmp_path, amount, figure):
    rounds = amount(whole=[1, 2, 3, 4, 5, 7, 11, 17, 29, 50], quick=[3])
    promised, injected, refused = 0, 0, 0
    for number, (call, error, every) in enumerate((*fault, every) for every in rounds for fault in FAULTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        daemon = start(folder, TMPMAILD_EXPIRY__INTERVAL_SECONDS="1", **NO_LIMITS)
        addresses = [daemon.create() for _ in range(3)]
        log = folder / "strace.txt"
        with failing(daemon, log, call, error, every):
            senders = mail_comes_in(daemon, addresses, number)
        assert recovers(daemon, addresses), (call, error, every, daemon.errors())
        acknowledged = {name: digest for sender in senders for name, digest in sender.acknowledged.items()}
        assert daemon.stop() == 0, (call, error, every)
        kept = stored(daemon.database)
        assert {name: kept.get(name) for name in acknowledged} == acknowledged, (call, error, every)
        assert damage(daemon.database) == "ok", (call, error, every)
        promised += len(acknowledged)
        refused += sum(sender.refused for sender in senders)
        injected += log.read_text().count("(INJECTED)")
        shutil.rmtree(folder)
    assert injected
    figure(
        "EIO, ENOSPC on writes, fsyncs, reads",
        f"{injected:,} faults, {promised:,} mails acknowledged, {refused:,} refused: 0 lost",
        "0 lost",
    )
