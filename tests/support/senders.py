"""Senders that record which messages were acknowledged, and a check that a killed daemon has stored all of them."""

import hashlib
import random
import re
import signal
import smtplib
import sqlite3
import threading
from contextlib import closing, suppress

from patience import PATIENCE_SECONDS
from tmpmaild.storage.keys import message_id_of

SENDERS = 6
ACCEPTED = 250


class Sender(threading.Thread):
    """Sends large and small messages until the server has stopped or the test ends; records acknowledged messages.

    ``sent`` contains the digests of all messages that may be stored, ``refused`` the number of rejected messages, and
    ``refusals`` the codes of the rejections.
    """

    def __init__(self, port, addresses, seed):
        super().__init__()
        self._port = port
        self._addresses = addresses
        self._random = random.Random(seed)
        self.acknowledged = {}
        self.sent = set()
        self.refused = 0
        self.refusals = set()
        self.over = threading.Event()

    def run(self):
        with suppress(OSError, smtplib.SMTPException):
            client = smtplib.SMTP("127.0.0.1", self._port, local_hostname="localhost", timeout=PATIENCE_SECONDS)
            client.helo()
            with suppress(OSError, smtplib.SMTPServerDisconnected):
                while not self.over.is_set():
                    self._send(client)
            client.close()

    def _send(self, client):
        address = self._random.choice(self._addresses)
        filling = self._random.randbytes(self._random.choice([10, 500, 40_000])).hex()
        lines = "\r\n".join(filling[start : start + 76] for start in range(0, len(filling), 76))
        octets = f"Subject: {self._random.random()}\r\n\r\n{lines}\r\n".encode()
        self.sent.add(hashlib.sha256(octets).digest())
        code, reply = self._transaction(client, address, octets)
        if code == ACCEPTED:
            self.acknowledged[re.search(rb"msg_\w+", reply)[0].decode()] = hashlib.sha256(octets).digest()
        else:
            assert 400 <= code < 500, (code, reply)
            self.refused += 1
            self.refusals.add(code)
            client.rset()

    def _transaction(self, client, address, octets):
        """Return the first rejection, or the final reply."""
        for answer in (client.mail("a@example.com"), client.rcpt(address)):
            if answer[0] != ACCEPTED:
                return answer
        try:
            return client.data(octets)
        except smtplib.SMTPDataError as error:
            return error.smtp_code, error.smtp_error


def stored(database):
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {
            message_id_of(key): hashlib.sha256(octets).digest()
            for key, octets in connection.execute(
                "SELECT m.id, s.octets FROM message AS m JOIN source AS s ON s.id = m.content_id"
            )
        }


def damage(database):
    """Return the errors that SQLite's integrity check finds in the file, or "ok"."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return "\n".join(line for (line,) in connection.execute("PRAGMA integrity_check"))


def prove_promise(start, kills, most_mails=300):
    """Repeatedly kill a daemon while messages arrive; ``start`` starts the next daemon on the same database.

    Each daemon is killed after at most ``most_mails`` messages. Returns the number of acknowledged messages.
    """
    promised = {}
    addresses = []
    for kill in range(kills):
        daemon = start()
        addresses = addresses or [daemon.create() for _ in range(5)]
        promised |= acknowledged_before_kill_9(daemon, addresses, kill, most_mails)
    daemon = start()
    kept = stored(daemon.database)
    assert damage(daemon.database) == "ok"
    assert {name: kept.get(name) for name in promised} == promised
    listed = {message["id"] for address in addresses for message in everything(daemon, address)}
    assert promised.keys() <= listed
    assert listed == kept.keys()
    return len(promised)


def acknowledged_before_kill_9(daemon, addresses, seed, most_mails):
    senders = [Sender(daemon.smtp_port, addresses, f"{seed}/{number}") for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    enough = random.Random(seed).randint(20, most_mails)
    while sum(len(sender.acknowledged) for sender in senders) < enough:
        assert all(sender.is_alive() for sender in senders), daemon.errors()
        senders[0].join(0.001)
    daemon.process.send_signal(signal.SIGKILL)
    acknowledged = {}
    for sender in senders:
        sender.join()
        assert not sender.refused
        acknowledged |= sender.acknowledged
    return acknowledged


def everything(daemon, address):
    messages, query = [], "?order=asc"
    while page := daemon.messages(address, query):
        messages += page
        query = f"?order=asc&after={page[-1]['id']}"
    return messages
