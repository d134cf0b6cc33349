"""A 250 is a promise: what was acknowledged survives kill -9, and was on disk before the reply left."""

import hashlib
import random
import re
import shutil
import signal
import smtplib
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress

import pytest

from tmpmaild import ids

KILLS = 4
SENDERS = 6


class Sender(threading.Thread):
    """Sends mail after mail, large and small, until the server is gone; notes what was acknowledged."""

    def __init__(self, port, addresses, seed):
        super().__init__()
        self._port = port
        self._addresses = addresses
        self._random = random.Random(seed)
        self.acknowledged = {}

    def run(self):
        with suppress(OSError, smtplib.SMTPException):
            client = smtplib.SMTP("127.0.0.1", self._port, local_hostname="localhost", timeout=30)
            client.helo()
            with suppress(OSError, smtplib.SMTPException):
                while True:
                    self._send(client)
            client.close()

    def _send(self, client):
        address = self._random.choice(self._addresses)
        filling = self._random.randbytes(self._random.choice([10, 500, 40_000])).hex()
        lines = "\r\n".join(filling[start : start + 76] for start in range(0, len(filling), 76))
        octets = f"Subject: {self._random.random()}\r\n\r\n{lines}\r\n".encode()
        client.mail("a@example.com")
        client.rcpt(address)
        code, reply = client.data(octets)
        assert code == 250
        self.acknowledged[re.search(rb"msg_\w+", reply)[0].decode()] = hashlib.sha256(octets).digest()


def stored(database):
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {
            ids.message_id(key): hashlib.sha256(octets).digest()
            for key, octets in connection.execute(
                "SELECT m.id, s.octets FROM message AS m JOIN source AS s ON s.id = m.content_id"
            )
        }


def test_no_acknowledged_mail_is_lost_or_damaged_by_kill_9(start, no_limits, tmp_path):
    promised = {}
    addresses = []
    for kill in range(KILLS):
        daemon = start(tmp_path, **no_limits)
        addresses = addresses or [daemon.create() for _ in range(5)]
        senders = [Sender(daemon.smtp_port, addresses, f"{kill}/{number}") for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        enough = random.Random(kill).randint(20, 300)
        while sum(len(sender.acknowledged) for sender in senders) < enough:
            assert all(sender.is_alive() for sender in senders), daemon.errors()
            senders[0].join(0.001)
        daemon.process.send_signal(signal.SIGKILL)
        for sender in senders:
            sender.join()
            promised |= sender.acknowledged
    daemon = start(tmp_path, **no_limits)
    kept = stored(daemon.database)
    assert {name: kept.get(name) for name in promised} == promised
    listed = {message["id"] for address in addresses for message in everything(daemon, address)}
    assert promised.keys() <= listed
    assert listed == kept.keys()


def everything(daemon, address):
    messages, query = [], "?order=asc"
    while page := daemon.messages(address, query):
        messages += page
        query = f"?order=asc&after={page[-1]['id']}"
    return messages


def test_the_mail_is_synced_before_the_250_leaves(start, no_limits, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("needs strace (Debian package strace)")
    daemon = start(**no_limits)
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
    for number in range(5):
        done = subprocess.run(
            [sys.executable, "-m", "tmpmaild", "send", address, "--server", f"127.0.0.1:{daemon.smtp_port}"],
            check=True,
            capture_output=True,
        )
        assert done.returncode == 0, number
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
            assert not unsynced, "a 250 left before its mail was on disk"
    assert promises == 5
