"""Senders who note what was acknowledged, and the proof that a daemon killed among them keeps all of it."""

import hashlib
import random
import re
import signal
import smtplib
import sqlite3
import threading
from contextlib import closing, suppress

from tmpmaild import ids

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


def prove_promise(start, kills):
    """Kill a daemon again and again while mail comes in; ``start`` starts the next one on the same database."""
    promised = {}
    addresses = []
    for kill in range(kills):
        daemon = start()
        addresses = addresses or [daemon.create() for _ in range(5)]
        promised |= acknowledged_before_kill_9(daemon, addresses, kill)
    daemon = start()
    kept = stored(daemon.database)
    assert {name: kept.get(name) for name in promised} == promised
    listed = {message["id"] for address in addresses for message in everything(daemon, address)}
    assert promised.keys() <= listed
    assert listed == kept.keys()


def acknowledged_before_kill_9(daemon, addresses, seed):
    senders = [Sender(daemon.smtp_port, addresses, f"{seed}/{number}") for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    enough = random.Random(seed).randint(20, 300)
    while sum(len(sender.acknowledged) for sender in senders) < enough:
        assert all(sender.is_alive() for sender in senders), daemon.errors()
        senders[0].join(0.001)
    daemon.process.send_signal(signal.SIGKILL)
    acknowledged = {}
    for sender in senders:
        sender.join()
        acknowledged |= sender.acknowledged
    return acknowledged


def everything(daemon, address):
    messages, query = [], "?order=asc"
    while page := daemon.messages(address, query):
        messages += page
        query = f"?order=asc&after={page[-1]['id']}"
    return messages
