"""A PostgreSQL primary with a synchronous standby, and failures of the primary while a daemon stores messages."""

import contextlib
import os
import shutil
import signal
import smtplib
import tempfile
import threading
import time
from pathlib import Path

import clusters
from clusters import Cluster
from daemons import wait_until

SETTINGS = {"wal_sender_timeout": "0", "wal_receiver_timeout": "0", "shared_buffers": "16MB"}
PATIENCE_SECONDS = 60
_FROM_NOW_ON = ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
_IS_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


class Pair:
    """A primary and its standby, which switch roles in each failover; ``url`` contains both."""

    def __init__(self) -> None:
        self.primary = clusters.started_cluster(**SETTINGS)
        folder = Path(tempfile.mkdtemp(prefix="tmpmaild-pg-", dir=self.primary.folder.parent))
        if os.getuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        self.standby = Cluster(folder, SETTINGS)
        self.database = self.primary.database()
        self.url = f"{self.primary.url(self.database)},{folder}"
        self.follow()

    def follow(self):
        """Make the standby follow the primary; from then on, the primary waits for the standby."""
        source = ("-h", str(self.primary.folder), "-U", "postgres", "-R", "-X", "stream", "-c", "fast")
        self.standby.run("pg_basebackup", "-D", str(self.standby.folder / "data"), *source)
        self.standby.start()
        for statement in _FROM_NOW_ON:
            self.primary.execute(statement)
        wait_until(lambda: self.primary.execute(_IS_SYNCHRONOUS) == 1)

    def lose_primary(self, how):
        """Kill the primary, or suspend all of its processes as if its machine hung; promote the standby."""
        lost = self.primary.process
        for pid in [lost.pid, *children(lost.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        self.standby.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self.standby.execute("SELECT pg_promote()")
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self):
        """Create a new standby in the folder of the failed primary."""
        end(self.standby)
        shutil.rmtree(self.standby.folder / "data")
        self.follow()

    def have_standby(self):
        """Create a new standby if the primary has none."""
        if self.primary.execute(_IS_SYNCHRONOUS) != 1:
            self.rebuild()

    def remove(self):
        for cluster in (self.primary, self.standby):
            end(cluster)
            shutil.rmtree(cluster.folder, ignore_errors=True)


def children(pid):
    """Return the child processes of a process."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()))


def end(cluster):
    """Kill all processes of a cluster, which may already be stopped."""
    if cluster.process is None:
        return
    with contextlib.suppress(FileNotFoundError):
        for pid in [*children(cluster.process.pid), cluster.process.pid]:
            with contextlib.suppress(ProcessLookupError):  # a child may have just exited
                os.kill(pid, signal.SIGKILL)
    cluster.process.wait(PATIENCE_SECONDS)
    cluster.process = None


class Sender(threading.Thread):
    """Sends numbered messages until it is stopped, even after rejections, and records the acknowledged messages."""

    def __init__(self, daemon, address, name, pause_seconds=0.005) -> None:
        super().__init__(daemon=True)
        self._pause_seconds = pause_seconds
        self._daemon = daemon
        self._address = address
        self._name = name
        self._ending = threading.Event()
        self.acknowledged = []
        self.refused = 0
        self.acknowledged_at = 0.0
        self.start()

    def run(self):
        while not self._ending.is_set():
            try:
                self._session()
            except (smtplib.SMTPException, OSError):
                self.refused += 1
                time.sleep(0.05)

    def _session(self):
        with smtplib.SMTP("127.0.0.1", self._daemon.smtp_port, "localhost", timeout=PATIENCE_SECONDS) as client:
            while not self._ending.is_set():
                subject = f"{self._name} {len(self.acknowledged)} {self.refused}"
                client.sendmail("ada@example.com", [self._address], f"Subject: {subject}\r\n\r\nHello\r\n")
                self.acknowledged.append(subject)
                self.acknowledged_at = time.monotonic()
                time.sleep(self._pause_seconds)

    def stop(self):
        self._ending.set()
        self.join(PATIENCE_SECONDS)


def lose(pair, daemon, how, senders=4):
    """Make the primary fail under load; return the lost messages, and the seconds from promotion to the next 250."""
    address = daemon.create()
    sending = [Sender(daemon, address, f"s{number}") for number in range(senders)]
    try:
        wait_until(lambda: all(len(sender.acknowledged) > 5 for sender in sending))
        pair.lose_primary(how)
        promoted_at = time.monotonic()
        wait_until(lambda: any(sender.acknowledged_at > promoted_at for sender in sending))
        seconds = time.monotonic() - promoted_at
    finally:
        for sender in sending:
            sender.stop()
    stored = set(pair.primary.execute("SELECT array_agg(subject) FROM content", database=pair.database))
    missing = [subject for sender in sending for subject in sender.acknowledged if subject not in stored]
    return missing, seconds
