"""The attackers: ``attackers.py NUMBER SMTP_PORT HTTP_PORT RECIPIENT SECONDS`` prints the received replies as JSON.

They run in their own process, apart from the measurements in ``attacks.py``. Each attacker is a thread that sends from
a prepared buffer, so it takes hardly any CPU time away from the daemon.
"""

import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import cycle
from typing import NamedTuple

MIB = 1024 * 1024
MAIL_BYTES = 9_900_000
LARGE_BYTES = 10_000_000
DOT = b"\r\n.\r\n"
BREATH_SECONDS = 0.1  # pause between connections: a client may open ten connections a second
CONNECTIONS_PER_CLIENT = 50  # the maximum per client; further connections use the next address
STACK_BYTES = 256 * 1024


class Refused(Exception):
    """The daemon sent an unexpected reply."""


class Client:
    """An SMTP connection from any loopback address, with a deadline."""

    def __init__(self, port, source, deadline):
        self._deadline = deadline
        self._octets = b""
        self._socket = socket.create_connection(("127.0.0.1", port), self.left_seconds(), (source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def left_seconds(self):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def send(self, octets):
        self._socket.settimeout(self.left_seconds())
        self._socket.sendall(octets)

    def line(self):
        while b"\n" not in self._octets:
            self._socket.settimeout(self.left_seconds())
            octets = self._socket.recv(4096)
            if not octets:
                raise ConnectionError("closed")
            self._octets += octets
        line, _, self._octets = self._octets.partition(b"\n")
        return line.decode().rstrip()

    def reply(self, wanted):
        line = self.line()
        while line[3:4] == "-":
            line = self.line()
        if not line.startswith(wanted):
            raise Refused(line)
        return line

    def say(self, command, wanted="250"):
        self.send(command.encode() + b"\r\n")
        return self.reply(wanted)

    def greet(self, verb="HELO"):
        self.reply("220")
        self.say(f"{verb} client.example")

    def open_mail(self, recipient, parameters=""):
        self.say(f"MAIL FROM:<a@client.example>{parameters}")
        self.say(f"RCPT TO:<{recipient}>")
        self.say("DATA", "354")

    def wait(self):
        """Do nothing until the deadline, or until the daemon sends a line."""
        raise Refused(self.line())

    def last_words(self):
        """Return the last line that the daemon sent before it closed the connection, or None."""
        said = None
        with suppress(OSError):
            while True:
                said = self.line()
        return said


# Actions of an attacker on a connection, until the deadline or until the daemon closes it.


def mails(payload):
    """Send one message after another."""
    payload += DOT

    def attack(client, recipient, answers):
        client.greet()
        while True:
            client.open_mail(recipient)
            client.send(payload)
            try:
                client.reply("250")
                answers["250"] += 1
            except Refused as refusal:
                answers[str(refusal)] += 1

    return attack


def unfinished(payload, times=1, parameters=""):
    """Send a message without its final dot, and stay connected."""

    def attack(client, recipient, answers):
        client.greet("EHLO")
        client.open_mail(recipient, parameters)
        answers["354"] += 1
        for _ in range(times):
            client.send(payload)
        client.wait()

    return attack


def endless_command(payload):
    def attack(client, *_):
        client.greet()
        while True:
            client.send(payload)

    return attack


def deaf(payload, times):
    """Send commands without reading the replies."""

    def attack(client, *_):
        client.greet()
        for _ in range(times):
            client.send(payload)
        time.sleep(client.left_seconds())

    return attack


def idle(client, *_):
    client.reply("220")
    client.wait()


def requests(payload):
    """Send a request and disconnect; a refusal does not prevent the next connection."""

    def attack(client, *_):
        client.send(payload)
        raise Refused(client.line())

    return attack


def trickling_requests(payload, left_bytes):
    """Send an incomplete header, the last part byte by byte, and stay connected."""

    def attack(client, *_):
        client.send(payload[:-left_bytes])
        for octet in payload[-left_bytes:]:
            client.send(bytes([octet]))
            time.sleep(0.1)
        client.wait()

    return attack


def trickle(client, recipient, answers):
    client.greet()
    client.open_mail(recipient)
    answers["354"] += 1
    while True:
        client.send(b"x")
        time.sleep(1)


def guess(client, recipient, answers):
    """Try one recipient after another, in consecutive sessions."""
    domain = recipient.partition("@")[2]
    client.greet()
    client.say("MAIL FROM:<a@client.example>")
    while True:
        name = f"guess{random.getrandbits(40):x}"
        client.send(b"".join(b"RCPT TO:<%s%d@%s>\r\n" % (name.encode(), n, domain.encode()) for n in range(100)))
        for _ in range(100):
            answers[client.line()] += 1


# Actions of an attacker that opens its own connections, to delay other clients.


class Target(NamedTuple):
    """An attacker's source address, the address under attack, and the deadline."""

    source: str
    smtp_port: int
    http_port: int
    recipient: str
    deadline: float

    def mail_client(self):
        return Client(self.smtp_port, self.source, self.deadline)

    def ask(self, method, path, *, at_once=True):
        """Return the status and the body of a response; unless ``at_once`` is true, read the body slowly."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, left, (self.source, 0))
        with closing(connection):
            connection.request(method, f"/api/v1/addresses{path}")
            answer = connection.getresponse()
            if at_once:
                return answer.status, answer.read()
            while answer.read(1024) and time.monotonic() < self.deadline:
                time.sleep(0.5)
            return answer.status, b""

    def create(self):
        return json.loads(self.ask("POST", "")[1])["address"]

    def deliver(self, payload, address=None, times=1):
        with self.mail_client() as client:
            client.greet()
            for _ in range(times):
                client.open_mail(address or self.recipient)
                client.send(payload + DOT)
                client.reply("250")


def sending(payload):
    """Send one message after another on one connection."""
    attack = mails(payload)

    def attack_target(target, answers):
        with target.mail_client() as client:
            attack(client, target.recipient, answers)

    return attack_target


def listing(payload):
    """Repeatedly list messages that have not been listed before."""

    def attack(target, answers):
        while True:
            address = target.create()
            target.deliver(payload, address, times=5)
            answers[str(target.ask("GET", f"/{address}/messages?has=code")[0])] += 1

    return attack


def viewing(payload):
    """View a message repeatedly."""

    def attack(target, answers):
        address = target.create()
        target.deliver(payload, address)
        (message,) = json.loads(target.ask("GET", f"/{address}/messages")[1])["messages"]
        while True:
            answers[str(target.ask("POST", f"/{address}/messages/{message['id']}/view")[0])] += 1

    return attack


def reading_slowly(payload):
    """Request large responses and read them very slowly."""

    def attack(target, answers):
        address = target.create()
        target.deliver(payload, address, times=4)
        while True:
            answers[str(target.ask("GET", f"/{address}/messages", at_once=False)[0])] += 1

    return attack


# The messages that the attackers send.


def html(body):
    return b"Subject: hello\r\nContent-Type: text/html\r\n\r\n" + body


def rules_and_classes(size_bytes):
    """Return a message with many CSS rules, each of which matches many elements."""
    rule, element = b".a .b{opacity:1}\r\n", b'<p class="a b">x\r\n'
    sheet, elements = filled(rule, size_bytes // 2), filled(element, size_bytes // 2)
    return html(b"<style>\r\n%b</style><div class=a>\r\n%b" % (sheet, elements))


def broken_words(size_bytes):
    """Return a message whose subject consists of encoded words in a charset that cannot be decoded."""
    return b"Subject: " + filled(b"=?cp949?Q?" + b"=ff" * 20 + b"?=\r\n ", size_bytes) + b"\r\n\r\nx\r\n"


def numbers(size_bytes):
    """Return a message full of numbers that are not codes."""
    return html(filled(b"<p>Order 48%d of 1,200 <a href=https://example.org/%d>here</a>\r\n" % (15, 16), size_bytes))


def filled(pattern, size_bytes=MAIL_BYTES):
    return pattern * (size_bytes // len(pattern))


def rubbish():
    """Return random bytes without dots: a dot alone on a line would end the message."""
    return random.Random(1).randbytes(MAIL_BYTES).translate(None, b".")


def with_attachment(size_bytes):
    """Return a well-formed message with a large attachment."""
    header = (
        b'Subject: attached\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
        b"--b\r\n\r\nSee the attachment.\r\n--b\r\nContent-Type: application/pdf; name=a.pdf\r\n"
        b"Content-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    )
    line = b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx\r\n"
    return header + filled(line, size_bytes) + b"--b--\r\n"


class Attack(NamedTuple):
    """An attack: its title, the number of attackers, and a function that creates their actions when they are needed."""

    title: str
    attackers: int
    make: Callable
    sources: tuple = ()
    """The source addresses of attackers that delay other clients; each attacker opens its own connections."""


REQUEST = b"POST /api/v1/addresses HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = REQUEST + b"Transfer-Encoding: chunked\r\n\r\n"
ONE = ("127.0.0.2",)
FIVE = tuple(f"127.0.0.{number}" for number in range(1, 6))
EIGHT = tuple(f"127.0.{number}.2" for number in range(2, 10))
TEXT_LINE = b"All work and no play makes a server crash and fall away.\r\n"
FIELDS = filled(b"a:\n", 60_000) + b"\n"
SPACES = b" " * 60_000
LONG_FIELD = b"a: " + b"b," * 75 + b"\r\n"
UNFINISHED = REQUEST + b"a: " + b"x" * 16_000
ATTACKS = {
    "1": Attack("9.9 MB of empty lines", 10, lambda: mails(filled(b"\r\n"))),
    "2a": Attack("9.9 MB of NUL and dots", 10, lambda: mails(filled(b"\0.\0.\r"))),
    "2b": Attack("9.9 MB of bare LF", 10, lambda: mails(filled(b"\n"))),
    "2c": Attack("9.9 MB of stuffed dots", 10, lambda: mails(filled(b"\r\n..\r\n"))),
    "2d": Attack("9.9 MB of 8-bit rubbish", 10, lambda: mails(rubbish())),
    "3": Attack("500 MB in a line of DATA", 10, lambda: unfinished(b"x" * MIB, times=500)),
    "4": Attack("a command without end", 10, lambda: endless_command(b"x" * MIB)),
    "5": Attack("500 MB in short lines", 10, lambda: unfinished(filled(b"short\r\n", MIB), times=500)),
    "6a": Attack("100 MB of EHLO, never reading", 10, lambda: deaf(filled(b"EHLO x\r\n", MIB), times=100)),
    "6b": Attack("the same on 900 connections", 900, lambda: deaf(filled(b"EHLO x\r\n", MIB), times=1)),
    "7a": Attack(
        "200 unfinished mails, SIZE declared",
        200,
        lambda: unfinished(filled(TEXT_LINE, 9 * MIB), parameters=f" SIZE={9 * MIB}"),
    ),
    "7b": Attack("200 unfinished mails, undeclared", 200, lambda: unfinished(filled(TEXT_LINE, 9 * MIB))),
    "8a": Attack("1,000 idle connections", 1000, lambda: idle),
    "8b": Attack("1,000 trickling connections", 1000, lambda: trickle),
    "8c": Attack("900 unfinished mails of 60 KB", 900, lambda: unfinished(filled(TEXT_LINE, 60_000))),
    "10a": Attack("5 senders of 10 MB attachments", 5, lambda: mails(with_attachment(LARGE_BYTES))),
    "10b": Attack(
        "5 senders of 10 MB texts", 5, lambda: mails(b"Subject: text\r\n\r\n" + filled(TEXT_LINE, LARGE_BYTES))
    ),
    "11a": Attack("HTTP: 20,000 header fields", 100, lambda: requests(REQUEST + FIELDS)),
    "11b": Attack(
        "HTTP: a field that patterns are slow on", 100, lambda: requests(REQUEST + b"a:" + SPACES + b"\0\r\n\r\n")
    ),
    "11c": Attack("HTTP: 20,000 trailers", 100, lambda: requests(CHUNKED + b"0\r\n" + FIELDS)),
    "11d": Attack("HTTP: an extension of a chunk", 100, lambda: requests(CHUNKED + b"1;" + SPACES + b"\nx\r\n")),
    "11e": Attack("HTTP: 10,000 chunks", 100, lambda: requests(CHUNKED + filled(b"1\r\nx\r\n", 60_000))),
    "11f": Attack("HTTP: headers at their limit", 100, lambda: requests(REQUEST + LONG_FIELD * 98 + b"\r\n")),
    "11g": Attack("HTTP: 1,000 unfinished headers", 1000, lambda: trickling_requests(UNFINISHED, left_bytes=200)),
    "12": Attack("300 connections that try names", 300, lambda: guess),
}


def together():
    """Return the actions of all attackers, ordered so that each source address performs every action."""
    return [DELAYS[number].make() for number in DELAYS for _ in FIVE]


DELAYS = {
    "13a": Attack("45 senders of 65 KB of rules and classes", 45, lambda: sending(rules_and_classes(65_000)), ONE),
    "13b": Attack("45 senders of 700 KB of rules and classes", 45, lambda: sending(rules_and_classes(700_000)), ONE),
    "13c": Attack("4 first lists of 65 KB mails", 4, lambda: listing(numbers(65_000)), ONE),
    "13d": Attack("4 views of 700 KB", 4, lambda: viewing(rules_and_classes(700_000)), ONE),
    "13e": Attack("50 senders of broken encoded words", 50, lambda: sending(broken_words(32_000)), ONE),
    "13f": Attack(
        "16 slow readers, 8 addresses",
        16,
        lambda: reading_slowly(b"Subject: text\r\n\r\n" + filled(TEXT_LINE, 900_000)),
        EIGHT,
    ),
}
ATTACKS |= DELAYS
ATTACKS["13z"] = Attack("13a to 13f at once, 5 addresses", 120, together, FIVE)


class Attackers:
    """Threads that attack until a deadline, and the replies they received."""

    def __init__(self, attack, port, http_port, recipient, seconds):
        made = attack.make()
        self._meet = made
        self._port = port
        self._http_port = http_port
        self._recipient = recipient
        self._deadline = time.monotonic() + seconds
        self._answers = []
        # The attackers use ten source addresses, or more if the connection limit requires it.
        per_client = min(CONNECTIONS_PER_CLIENT, max(1, attack.attackers // 10))
        kinds = cycle(made if isinstance(made, list) else [made])
        for number in range(attack.attackers):
            answers = Counter()
            self._answers.append(answers)
            if attack.sources:
                source = attack.sources[number % len(attack.sources)]
                target = Target(source, port, http_port, recipient, self._deadline)
                threading.Thread(target=self._delay, args=(next(kinds), target, answers)).start()
                continue
            source = f"127.0.1.{1 + number // per_client}"
            threading.Thread(target=self._attack, args=(source, answers)).start()

    def _delay(self, meet, target, answers):
        while time.monotonic() < self._deadline:
            try:
                meet(target, answers)
            except TimeoutError:
                return
            except (OSError, Refused, http.client.HTTPException) as error:
                answers[str(error)[:60] if isinstance(error, Refused) else type(error).__name__] += 1
            time.sleep(BREATH_SECONDS)

    def _attack(self, source, answers):
        while time.monotonic() < self._deadline:
            try:
                with Client(self._port, source, self._deadline) as client:
                    answers[self._answer(client, answers)] += 1
            except TimeoutError:
                return
            except OSError as error:
                answers[type(error).__name__] += 1
            time.sleep(BREATH_SECONDS)

    def _answer(self, client, answers):
        """Attack until the deadline and raise ``TimeoutError``, or return the reply that ended the attack."""
        try:
            self._meet(client, self._recipient, answers)
        except Refused as refusal:
            return str(refusal)
        except ConnectionError as error:
            return client.last_words() or type(error).__name__
        raise TimeoutError

    def total(self):
        """Wait until all attackers have finished; return how often each reply was received."""
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()
        return sum(self._answers, Counter())


def main():
    os.nice(5)  # real attackers use their own CPUs
    threading.stack_size(STACK_BYTES)
    name, smtp_port, http_port, recipient, seconds = sys.argv[1:]
    port = int(http_port if name.startswith("11") else smtp_port)
    print(json.dumps(Attackers(ATTACKS[name], port, int(http_port), recipient, float(seconds)).total()))


if __name__ == "__main__":
    main()
