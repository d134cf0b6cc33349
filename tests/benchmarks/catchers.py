"""``tmpmaild catch`` compared with MailDev 3: ``MAILDEV="node /path/to/maildev.js" make bench ARGS=catchers``.

Both run alternately, with their default settings except for the ports. MailDev stores messages in memory, whereas
tmpmaild replies 250 only after an fsync. ``CATCHERS_MESSAGES`` sets the number of messages that each measurement sends.
"""

import http.client
import json
import os
import shlex
import smtplib
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from functools import partial

from servers import MAIL_BYTES, Server, compared, smtp_source

ROUNDS = int(os.environ.get("ROUNDS", "5"))
MESSAGES = int(os.environ.get("CATCHERS_MESSAGES", "2000"))
STORED_MESSAGES = 10_000
LATENCY_MESSAGES = 50
SENDERS = 10
READY_SECONDS = 60


class Catcher(Server):
    """A program that catches all mail and listens on two free ports.

    ``list_path`` is the URL path of its message list.
    """

    recipient = "anna@shop.example"
    list_path = ""

    def __init__(self, folder, command, smtp_option, http_option):
        folder.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as smtp, socket.create_server(("127.0.0.1", 0)) as web:
            self.smtp_port, self.http_port = (str(one.getsockname()[1]) for one in (smtp, web))
        started = time.perf_counter()
        options = [smtp_option, self.smtp_port, http_option, self.http_port]
        super().__init__([*command, *options], cwd=folder, stdin=subprocess.DEVNULL)
        while not self._is_ready():
            assert time.perf_counter() - started < READY_SECONDS
            time.sleep(0.001)
        self.seconds_to_ready = time.perf_counter() - started

    def _is_ready(self):
        with suppress(OSError):
            with closing(socket.create_connection(("127.0.0.1", self.smtp_port), 5)) as client:
                if not client.recv(3):
                    return False
            self.subjects()
            return True
        return False

    def subjects(self):
        """Return the subjects of the messages that the API lists."""
        with closing(http.client.HTTPConnection("127.0.0.1", int(self.http_port))) as client:
            client.request("GET", self.list_path)
            return [message["subject"] for message in self.messages(json.loads(client.getresponse().read()))]

    def messages(self, document):
        """Return the messages in the API's list response."""
        return document


class OurCatcher(Catcher):
    """``tmpmaild catch``."""

    list_path = "/api/v1/messages?limit=1"

    def __init__(self, folder):
        super().__init__(folder, [sys.executable, "-m", "tmpmaild", "catch"], "--smtp", "--http")

    def messages(self, document):
        return document["messages"]


class MailDev(Catcher):
    """MailDev, started by the command in ``$MAILDEV``; like tmpmaild it listens on loopback, and it logs nothing."""

    list_path = "/api/email"

    def __init__(self, folder):
        command = [*shlex.split(os.environ["MAILDEV"]), "--silent", "--ip", "127.0.0.1", "--web-ip", "127.0.0.1"]
        super().__init__(folder, command, "--smtp", "--web")


def deliveries_per_second(server, *, kept, count):
    """Send ``count`` messages with smtp-source, each on its own connection, or on one connection for each sender."""
    started = time.perf_counter()
    subprocess.run(smtp_source(server, count, SENDERS, *["-d"] * kept), check=True)
    return count / (time.perf_counter() - started)


def cpu_per_message(server, *, kept, count):
    """Return the microseconds of processor time that the server needs per message."""
    before = server.cpu_seconds()
    deliveries_per_second(server, kept=kept, count=count)
    return (server.cpu_seconds() - before) / count * 1e6


def milliseconds_to_the_list(server):
    """Return the median time between the final dot and the first API response that lists the message."""
    taken = []
    with smtplib.SMTP("127.0.0.1", int(server.smtp_port), local_hostname="localhost") as client:
        for number in range(LATENCY_MESSAGES):
            subject = f"latency {number}"
            client.ehlo_or_helo_if_needed()
            client.mail("app@shop.example")
            client.rcpt(server.recipient)
            client.docmd("DATA")
            client.send(f"Subject: {subject}\r\n\r\n{'x' * MAIL_BYTES}\r\n.\r\n".encode())
            started = time.perf_counter()
            while subject not in server.subjects():
                pass
            taken.append(time.perf_counter() - started)
            assert client.getreply()[0] == 250
    return statistics.median(taken) * 1000


def memory(server):
    """Return the resident memory in MiB when idle, and when many messages are stored."""
    idle = server.resident_mib()
    deliveries_per_second(server, kept=True, count=STORED_MESSAGES)
    return idle, server.resident_mib()


def pairs_of(rounds, measure, folder):
    """Measure both programs in turn, and restart the program before each measurement."""
    pairs = []
    for number in range(rounds):
        pair = []
        for kind in (OurCatcher, MailDev):
            with ExitStack() as running:
                pair.append(measure(running.enter_context(kind(folder / f"{kind.__name__}-{number}"))))
        pairs.append(pair)
    return pairs


def show(title, pairs, unit):
    ratios, mine, theirs = compared(pairs)
    print(f"{title:<44} {ratios}; {mine:,.4g} against {theirs:,.4g} {unit})", flush=True)


def speak_of_catchers(folder):
    if "MAILDEV" not in os.environ:
        sys.exit('needs MailDev 3 (npm install maildev@3) in MAILDEV="node /path/to/maildev/dist/bin/maildev.js"')
    version = subprocess.run(
        [*shlex.split(os.environ["MAILDEV"]), "--version"], capture_output=True, text=True, check=True
    )
    print(
        f"MailDev {version.stdout.strip()}; {ROUNDS} pairs, {SENDERS} senders, {MAIL_BYTES} bytes per message",
        flush=True,
    )
    measured = partial(pairs_of, ROUNDS, folder=folder)
    show("start to ready / MailDev", measured(lambda server: server.seconds_to_ready), "s")
    show("CPU from start to ready / MailDev", measured(Server.cpu_seconds), "s")
    for kept, name in ((False, "new"), (True, "kept")):
        rate = partial(deliveries_per_second, kept=kept, count=MESSAGES)
        show(f"messages a second, {name} connections / MailDev", measured(rate), "/s")
        cpu = partial(cpu_per_message, kept=kept, count=MESSAGES)
        show(f"CPU a message, {name} connections / MailDev", measured(cpu), "µs")
    show("dot to the message in the API / MailDev", measured(milliseconds_to_the_list), "ms")
    stored = pairs_of(1, memory, folder)
    for place, name in enumerate(("idle", f"after {STORED_MESSAGES:,} messages")):
        show(f"memory {name} / MailDev", [[of[place] for of in pair] for pair in stored], "MiB")
