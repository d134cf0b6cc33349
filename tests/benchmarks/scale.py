"""Scaling: delivery rates as inboxes and messages increase, and delays for senders while expired inboxes are swept.

Each rate is compared with the rate of a daemon with a thousand inboxes, measured within the same minute, to cancel out
variations in the machine's speed.
"""

import os
import smtplib
import socket
import sqlite3
import statistics
import subprocess
import time
from contextlib import closing

from servers import Tmpmaild, compared, seconds_from_dot, smtp_source

LIVE_INBOXES = tuple(int(number) for number in os.environ.get("SCALE_INBOXES", "1000,50000,200000").split(","))
STORED_MAILS = int(os.environ.get("SCALE_MAILS", "300000"))
SENDERS = 16
MAILS_PER_ROUND = 3000
ROUNDS = 3
SMALL_INBOXES = 1000
QUIET_MAILS = 300
SETTINGS = {
    "TMPMAILD_SMTP__ACCEPT_UNKNOWN": "create",
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
    "TMPMAILD_STORAGE__MAX_BYTES": str(20 * 1024**3),
}
TARGETS = {"decline": 0.85, "sweep_p99_ms": 25}


def speak_of_scale(folder):
    with Scaled(folder / "large") as large:
        for count in LIVE_INBOXES:
            large.fill(count)
            _compare(f"{count:,} live inboxes", large, folder / f"beside-{count}")
        large.fill(STORED_MAILS, new=False)
        _compare(f"{large.inboxes:,} inboxes, {large.mails:,} messages", large, folder / "beside-mails")
        quiet = [large.seconds_to_store() for _ in range(QUIET_MAILS)]
        arriving = large.deliver(MAILS_PER_ROUND)
        print(f"memory {large.server.resident_mib():.0f} MiB, file {large.file_mib():.0f} MiB", flush=True)
    _speak_of_sweep(large, quiet, arriving)


class Scaled:
    """A daemon to fill with messages, and its inbox and message counts."""

    def __init__(self, folder):
        self.folder = folder
        self.inboxes = 0
        self.mails = 0
        self._runs = 0

    def __enter__(self):
        self.server = Tmpmaild(self.folder, **SETTINGS)
        return self

    def __exit__(self, *details):
        self.server.__exit__(*details)

    def fill(self, mails, *, new=True):
        """Deliver messages until this many are stored, each in its own inbox or all in the same inbox."""
        if mails > self.mails:
            self.deliver(mails - self.mails, new=new)

    def deliver(self, count, *, new=True):
        """Deliver messages and return the rate per second; smtp-source numbers the recipients for ``new`` inboxes."""
        self._runs += 1
        recipient = f"x{self._runs}@mail.example.com" if new else self.server.recipient
        began = time.perf_counter()
        subprocess.run(smtp_source(self.server, count, SENDERS, "-d", *["-N"] * new, recipient=recipient), check=True)
        seconds = time.perf_counter() - began
        self.mails += count
        self.inboxes += count if new else 0
        return count / seconds

    def seconds_to_store(self):
        with _client(self.server) as client:
            return seconds_from_dot(client, self.server.recipient)

    def file_mib(self):
        return (self.folder / "tmpmaild.db").stat().st_size / 1024**2


def _compare(title, large, folder):
    with Scaled(folder) as small:
        small.fill(SMALL_INBOXES)
        pairs = [(large.deliver(MAILS_PER_ROUND), small.deliver(MAILS_PER_ROUND)) for _ in range(ROUNDS)]
    ratios, ours, theirs = compared(pairs)
    print(
        f"{title:<44} {ratios}; {ours:,.0f}/s against {theirs:,.0f}/s with {small.inboxes:,} inboxes at most; "
        f"target {TARGETS['decline']} ×)",
        flush=True,
    )


def _speak_of_sweep(large, quiet, arriving):
    """Let all inboxes expire while the daemon is down, start it, and send single messages during its sweep."""
    folder, mails, inboxes = large.folder, large.mails, large.inboxes
    database = folder / "tmpmaild.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE inbox SET expires_at_ms = 1 WHERE id > 1")
    began = time.perf_counter()
    with Tmpmaild(folder, **SETTINGS) as server:
        ready_seconds = time.perf_counter() - began
        seconds, largest_wal_bytes = _probe_until_swept(server, database)
        swept_seconds = time.perf_counter() - began - ready_seconds
    print(
        f"start with {mails:,} expired messages in {inboxes:,} inboxes: ports open after {ready_seconds:.1f} s, all deleted "
        f"after {swept_seconds:.1f} s, so {mails / swept_seconds:,.0f} messages/s (arriving at most {arriving:,.0f}/s)\n"
        f"one sender's dot to 250 during the sweep: {_distribution(seconds)} (target: p99 {TARGETS['sweep_p99_ms']} ms); "
        f"before: {_distribution(quiet)}; largest WAL {largest_wal_bytes / 1024**2:.0f} MiB, "
        f"file after {database.stat().st_size / 1024**2:.0f} MiB",
        flush=True,
    )


def _probe_until_swept(server, database):
    seconds, largest_wal_bytes = [], 0
    wal = database.with_name("tmpmaild.db-wal")
    with _client(server) as client, closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        while connection.execute("SELECT 1 FROM inbox WHERE swept = 0 AND expires_at_ms = 1 LIMIT 1").fetchone():
            seconds += [seconds_from_dot(client, server.recipient) for _ in range(10)]
            largest_wal_bytes = max(largest_wal_bytes, wal.stat().st_size)
    return seconds, largest_wal_bytes


def _distribution(seconds):
    ordered = sorted(seconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"median {statistics.median(ordered) * 1000:.1f}, p99 {p99 * 1000:.1f}, worst {ordered[-1] * 1000:.1f} ms"


def _client(server):
    client = smtplib.SMTP("127.0.0.1", server.smtp_port, local_hostname="localhost")
    client.ehlo()
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client
