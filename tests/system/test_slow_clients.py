"""Crowds of clients that do nothing, or as little as possible, do not delay honest clients."""

import resource
import selectors
import smtplib
import socket
import threading
import time
import urllib.request
from collections import Counter
from contextlib import closing, suppress

import pytest

PATIENCE_SECONDS = 30
HONEST_SECONDS = 0.1  # the minimum interval between messages, because an SMTP client may connect ten times a second
SETTLE_SECONDS = 3
SLICES = 20  # the crowd is divided into this many groups, which send one after another
SLICE_SECONDS = 1 / SLICES
IDLE_CLIENTS = 1000  # the maximum number of connections
SLOW_READERS = 500
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Crowd(threading.Thread):
    """Clients from many addresses that reconnect as soon as they are disconnected.

    Each client sends ``hello`` after connecting, then ``more`` every second.
    """

    def __init__(self, port, size, hello=b"", more=b""):
        super().__init__()
        self._port = port
        self._hello, self._more = hello, more
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._sources = [f"127.{1 + number // 250}.{port % 250}.{1 + number % 250}" for number in range(size)]
        self.said = Counter()
        for source in self._sources:
            self._connect(source)

    def _connect(self, source):
        client = socket.socket()
        client.bind((source, 0))
        client.settimeout(PATIENCE_SECONDS)
        client.connect(("127.0.0.1", self._port))
        client.send(self._hello)
        client.settimeout(0)
        self._selector.register(client, selectors.EVENT_READ, source)

    def run(self):
        slice_number, slice_at = 0, time.monotonic()
        while not self._over.is_set():
            for key, _ in self._selector.select(SLICE_SECONDS / 2):
                self._hear(key)
            if self._more and time.monotonic() > slice_at:
                slice_number, slice_at = slice_number + 1, slice_at + SLICE_SECONDS
                for key in list(self._selector.get_map().values())[slice_number % SLICES :: SLICES]:
                    with suppress(OSError):
                        key.fileobj.send(self._more)

    def _hear(self, key):
        octets = b""
        with suppress(OSError):
            octets = key.fileobj.recv(4096)
        self.said[octets[:3]] += 1
        if not octets:
            self._selector.unregister(key.fileobj)
            key.fileobj.close()
            self._connect(key.data)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()


@pytest.fixture
def many_files():
    """Raise this process's limit of open files to the maximum; child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * IDLE_CLIENTS:
        pytest.skip(f"needs {4 * IDLE_CLIENTS} open files, {hard} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def send(daemon, address):
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="localhost", timeout=PATIENCE_SECONDS) as client:
        client.sendmail("a@example.com", [address], b"Subject: Your code\r\n\r\nIt is 481 516.\r\n")


def read(daemon, address):
    with closing(urllib.request.urlopen(f"{daemon.url}/api/v1/addresses/{address}/messages")) as answer:
        answer.read()


def p99_of(act, seconds):
    """Repeat an action for a while; return the 99th percentile of its duration, and how often it ran."""
    taken, over_at = [], time.monotonic() + seconds
    while (began := time.monotonic()) < over_at:
        act()
        taken.append(time.monotonic() - began)
        time.sleep(max(HONEST_SECONDS - taken[-1], 0))
    return sorted(taken)[int(len(taken) * 0.99)], len(taken)


@pytest.mark.usefixtures("many_files")
def test_crowds_of_slow_clients_do_not_delay_honest_clients(start, amount, figure):
    daemon = start(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="0", TMPMAILD_ADDRESSES__MAX_MESSAGES="0")
    address = daemon.create()
    seconds = amount(whole=60, quick=8)
    wanted_seconds = amount(whole=0.2, quick=0.5)  # a CI machine is shared with other guests
    slow_readers = Crowd(daemon.http_port, SLOW_READERS, HEAD, b"X-More: x\r\n")
    with slow_readers, Crowd(daemon.smtp_port, IDLE_CLIENTS) as idle:
        time.sleep(SETTLE_SECONDS)
        mail_seconds, mails = p99_of(lambda: send(daemon, address), seconds)
        read_seconds, reads = p99_of(lambda: read(daemon, address), seconds)
    figure(
        f"{SLOW_READERS} slowloris HTTP, {IDLE_CLIENTS:,} idle SMTP clients",
        f"p99 of {mails} mails {mail_seconds * 1000:.0f} ms, of {reads} GETs {read_seconds * 1000:.0f} ms; "
        f"{idle.said[b'421']} idle ones gave way",
        f"honest p99 <= {wanted_seconds * 1000:.0f} ms",
    )
    assert len(daemon.messages(address, "?limit=1")) == 1
    assert idle.said[b"220"] > IDLE_CLIENTS
    assert mail_seconds <= wanted_seconds
    assert read_seconds <= wanted_seconds
