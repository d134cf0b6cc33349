"""The servers under test: the real daemon and the bare libraries it is compared with, each in its own process."""

import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
MAIL_BYTES = 2048


class Server:
    """A server in a child process; its standard output is a pipe."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stdout.close()

    def resident_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def cpu_seconds(self):
        """Return the user and system time used so far by all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SETTINGS = {
    "TMPMAILD_HTTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "0",
    "TMPMAILD_ADDRESSES__MAX_BYTES": str(1 << 40),
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
}


class Tmpmaild(Server):
    """``tmpmaild serve`` without the limits that a single client would reach, unless ``settings`` sets them."""

    def __init__(self, folder, tracer=(), **settings):
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, **SETTINGS, **settings}
        super().__init__([*tracer, sys.executable, "-m", "tmpmaild", "serve"], cwd=folder, env=environment)
        banner = ""
        while "/messages" not in banner:
            banner += self.process.stdout.readline()
        self.smtp_port = int(re.search(r"SMTP on 127.0.0.1:(\d+)", banner)[1])
        self.http_port = int(re.search(r"HTTP on 127.0.0.1:(\d+)", banner)[1])
        self.url = re.search(r"http://[^/]+/api/v1/addresses", banner)[0]
        self.recipient = self.create()
        self.read_url = f"{self.url}/{self.recipient}/messages"

    def create(self):
        with urllib.request.urlopen(urllib.request.Request(self.url, method="POST")) as answer:
            return json.loads(answer.read())["address"]


class BareAiosmtpd(Server):
    """aiosmtpd under uvloop with a handler that stores nothing."""

    recipient = "a@example.com"

    def __init__(self):
        super().__init__([sys.executable, str(HERE / "bare_aiosmtpd.py")])
        self.smtp_port = self.process.stdout.readline().strip()


class SmtpSink(Server):
    """Postfix's smtp-sink, written in C, which stores nothing.

    Measurements with smtp-sink show the time that smtp-source itself takes.
    """

    recipient = "a@example.com"

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.smtp_port = str(free.getsockname()[1])
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        super().__init__(["smtp-sink", *user, f"127.0.0.1:{self.smtp_port}", "1000"])
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.smtp_port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.01)


class BareHypercorn(Server):
    """Hypercorn under uvloop with an ASGI function that responds with two bytes."""

    def __init__(self):
        super().__init__([sys.executable, str(HERE / "bare_hypercorn.py")])
        self.read_url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}/"


def smtp_source(server, count, senders, *options, size_bytes=MAIL_BYTES, recipient=None):
    """Return the command that sends this many messages to a server, by default over one connection per message."""
    size = ["-s", str(senders), "-l", str(size_bytes), "-m", str(count), "-f", "a@example.com"]
    return ["smtp-source", *size, *options, "-t", recipient or server.recipient, f"127.0.0.1:{server.smtp_port}"]


def compared(pairs):
    """Return the median and range of the pairs' ratios as text, and the median for each of the two servers."""
    ratios = sorted(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    return f"{statistics.median(ratios):6.2f} ×   ({ratios[0]:.2f} to {ratios[-1]:.2f}", mine, theirs


def seconds_from_dot(client, recipient):
    """Send a message and return the time from the final dot to the 250."""
    client.mail("a@example.com")
    client.rcpt(recipient)
    client.docmd("DATA")
    client.send(b"Subject: x\r\n\r\n" + b"x" * MAIL_BYTES + b"\r\n")
    began = time.perf_counter()
    code, _ = client.docmd(".")
    assert code == 250
    return time.perf_counter() - began
