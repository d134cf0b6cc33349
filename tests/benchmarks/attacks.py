"""``make proof WHAT=attack``: attack the real daemon, and measure its memory and the delays for honest clients.

``python tests/benchmarks/attacks.py [NUMBER …]`` runs all attacks, or only those given by their numbers, such as ``13a``,
or ``13`` for all from 13a to 13z. Each attack gets a fresh daemon. The exit code is 1 if any measurement exceeds its
bound. ``attackers.py`` defines the attacks. During the attacks that try to delay other clients (numbers 13a to 13z),
five honest clients repeatedly send messages, list new messages, and read a view and a large response.
"""

import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from attackers import ATTACKS, DOT, LARGE_BYTES, TEXT_LINE, Client, Refused, filled, html
from servers import HERE, Tmpmaild

ATTACK_SECONDS = float(os.environ.get("ATTACK_SECONDS", "10"))
PATIENCE_SECONDS = 60
SAMPLE_SECONDS = 0.02
HONEST_SECONDS = 0.2
PROBE_SECONDS = 0.01
HONEST_MAIL = b"Subject: Your code\r\n\r\nIt is 481 516.\r\n" + DOT


class Bounds(NamedTuple):
    """The limits for each measurement; the attack has succeeded if any of the limits is exceeded."""

    memory_mib: float = 200
    honest_seconds: float = 2
    probe_seconds: float = 0.5


DELAY_SECONDS = 0.5
DELAY_P99_SECONDS = 0.1
PROBES_FROM = "127.0.{}.1"  # each honest client is in its own network
PROBE_PAUSE_SECONDS = 0.1
DELAY_HEAD_START_SECONDS = 2  # time for all attackers to prepare their buffers
HTML_MAIL = html(filled(b"<p style='color:#333'>Your code is <b>481 516</b>, valid for ten minutes.\r\n", 12_000))

LIMITS = Bounds()
LARGE_LIMITS = Bounds(probe_seconds=0.05)


class Daemon(Tmpmaild):
    """``tmpmaild serve`` with all SMTP limits, except that an inbox accepts any number of messages."""

    def __init__(self, folder):
        super().__init__(folder, TMPMAILD_LIMITS__EXEMPT="", TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT="1.0")

    def peak_mib(self):
        """Return the peak memory since the start, according to the kernel."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def starved_seconds(self):
        """Return how long the event loop has waited for a CPU: the delay that the machine adds to every measurement."""
        schedule = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat").read_text(encoding="utf-8")
        return int(schedule.split()[1]) / 1e9


class Observing:
    """Runs threads within a ``with`` block; its attributes then contain the daemon's CPU wait time and peak memory."""

    _threads = ()

    def __init__(self, daemon):
        self._daemon = daemon
        self._over = threading.Event()

    def __enter__(self):
        self._starved_before = self._daemon.starved_seconds()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.starved_seconds = self._daemon.starved_seconds() - self._starved_before
        self.peak_mib = self._daemon.peak_mib()


class Observer(Observing):
    """An honest client, an event loop probe and a memory sampler, each in its own thread."""

    def __init__(self, daemon):
        super().__init__(daemon)
        self._recipient = daemon.create()
        self._threads = [threading.Thread(target=one) for one in (self._sample, self._probe, self._send_mails)]
        self.seen_mib = 0.0
        self.probe_seconds = 0.0
        self.honest_seconds = []
        self.refusals = []

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self.peak_mib = max(self.seen_mib, self.peak_mib)

    def _sample(self):
        while not self._over.wait(SAMPLE_SECONDS):
            self.seen_mib = max(self.seen_mib, self._daemon.resident_mib())

    def _probe(self):
        with honest_client(self._daemon) as client:
            client.greet()
            left_seconds = PROBE_SECONDS
            while not self._over.wait(left_seconds):
                began = time.perf_counter()
                client.say("NOOP")
                taken = time.perf_counter() - began
                self.probe_seconds = max(self.probe_seconds, taken)
                left_seconds = max(PROBE_SECONDS - taken, 0)

    def _send_mails(self):
        left_seconds = HONEST_SECONDS
        while not self._over.wait(left_seconds):
            began = time.perf_counter()
            try:
                with honest_client(self._daemon) as client:
                    client.greet()
                    client.open_mail(self._recipient)
                    client.send(HONEST_MAIL)
                    client.reply("250")
            except Refused as refusal:
                self.refusals.append(str(refusal))
            except OSError as error:
                self.refusals.append(type(error).__name__)
            taken = time.perf_counter() - began
            self.honest_seconds.append(taken)
            left_seconds = max(HONEST_SECONDS - taken, 0)

    def over(self, bounds):
        """Return the names of the exceeded bounds."""
        found = {
            "memory": self.peak_mib > bounds.memory_mib,
            "honest mail": max(self.honest_seconds, default=0) > bounds.honest_seconds,
            "refused": bool(self.refusals),
            "probe": self.probe_seconds > bounds.probe_seconds,
        }
        return [name for name, is_over in found.items() if is_over]


class Probes(Observing):
    """Five honest clients, each in its own thread; ``seconds`` contains the duration of each request."""

    def __init__(self, daemon):
        super().__init__(daemon)
        self._own = threading.local()
        probes = (self._html_mail, self._first_list, self._view, self._large_answer, self._small_mail)
        self.seconds = {probe.__name__.strip("_").replace("_", " "): [] for probe in probes}
        self.refusals = []
        self._threads = [
            threading.Thread(target=self._probe, args=(PROBES_FROM.format(number), probe(), seconds))
            for number, (probe, seconds) in enumerate(zip(probes, self.seconds.values(), strict=True), 100)
        ]

    def _probe(self, source, steps, seconds):
        """Measure the duration of each request that a generator yields."""
        self._own.source = source
        while not self._over.wait(PROBE_PAUSE_SECONDS):
            try:
                request = next(steps)
                began = time.perf_counter()
                request()
            except (OSError, Refused, http.client.HTTPException, ValueError) as error:
                self.refusals.append(f"{type(error).__name__} {error}"[:60])
                return
            seconds.append(time.perf_counter() - began)

    def _ask(self, method, path, status):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._daemon.http_port, PATIENCE_SECONDS, (self._own.source, 0)
        )
        try:
            connection.request(method, path if path.startswith("/view") else f"/api/v1/addresses{path}")
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != status:
            raise Refused(f"{method} {answer.status}")
        return body

    def _sent(self, raw, address):
        """Send a message except for its final dot; return a function that sends the dot and waits for the reply."""
        client = Client(self._daemon.smtp_port, self._own.source, time.monotonic() + PATIENCE_SECONDS)
        client.greet()
        client.open_mail(address)
        client.send(raw)

        def end():
            client.send(DOT)
            with client:
                client.reply("250")

        return end

    def _html_mail(self):
        while True:
            yield self._sent(HTML_MAIL, self._daemon.recipient)

    def _small_mail(self):
        while True:
            yield self._sent(b"Subject: Your code\r\n\r\nIt is 481 516.", self._daemon.recipient)

    def _first_list(self):
        while True:
            address = self._daemon.create()
            self._sent(HTML_MAIL, address)()
            yield lambda address=address: self._ask("GET", f"/{address}/messages", 200)

    def _view(self):
        address = self._daemon.create()
        self._sent(HTML_MAIL, address)()
        (message,) = json.loads(self._ask("GET", f"/{address}/messages", 200))["messages"]

        def view():
            made = json.loads(self._ask("POST", f"/{address}/messages/{message['id']}/view", 201))
            self._ask("GET", made["url"], 200)

        while True:
            yield view

    def _large_answer(self):
        address = self._daemon.create()
        for _ in range(3):
            self._sent(b"Subject: text\r\n\r\n" + filled(TEXT_LINE, 100_000), address)()
        self._ask("GET", f"/{address}/messages", 200)  # this request caches the codes and links
        while True:
            yield lambda: self._ask("GET", f"/{address}/messages", 200)

    def over(self):
        """Return the names of the exceeded bounds."""
        found = {"refused": bool(self.refusals), "memory": self.peak_mib > LIMITS.memory_mib}
        for name, seconds in self.seconds.items():
            found[name] = max(seconds, default=PATIENCE_SECONDS) > DELAY_SECONDS or p99(seconds) > DELAY_P99_SECONDS
        return [name for name, is_over in found.items() if is_over]


def p99(seconds):
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else PATIENCE_SECONDS


def delay(number):
    """Attack a fresh daemon and print the delays for five honest clients; return whether all are within bounds."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder, Daemon(Path(folder)) as daemon:
        attacking = attack_command(daemon, number)
        attackers = subprocess.Popen(attacking, stdout=subprocess.PIPE)
        time.sleep(DELAY_HEAD_START_SECONDS)
        with Probes(daemon) as probes:
            answers = json.loads(attackers.communicate()[0])
    over = probes.over()
    print(f"{number:>3}  {ATTACKS[number].title}: {'OVER: ' + ', '.join(over) if over else 'ok'}")
    for name, seconds in probes.seconds.items():
        if seconds:
            row = (ms(statistics.median(seconds)), ms(p99(seconds)), ms(max(seconds)))
            print(f"     {name:<14} median {row[0]:>5}  p99 {row[1]:>6}  worst {row[2]:>6} ms  of {len(seconds):,}")
    refused = ", ".join(sorted(set(probes.refusals)))
    said = ", ".join(f"{count} × {answer}" for answer, count in sorted(answers.items()))
    print(
        f"     {probes.peak_mib:.0f} MiB, starved {ms(probes.starved_seconds)} ms; {refused or 'no refusals'}; {said}",
        flush=True,
    )
    return not over


def attack_command(daemon, number):
    ports = (daemon.smtp_port, urlsplit(daemon.url).port)
    return list(map(str, (sys.executable, HERE / "attackers.py", number, *ports, daemon.create(), ATTACK_SECONDS)))


def honest_client(daemon):
    return Client(daemon.smtp_port, "127.0.0.1", time.monotonic() + PATIENCE_SECONDS)


def attacked(daemon, number, bounds):
    """Attack while honest messages arrive; return the observer, the exceeded bounds, and the attackers' replies."""
    with Observer(daemon) as observer:
        done = subprocess.run(attack_command(daemon, number), stdout=subprocess.PIPE, check=True)
    answers = json.loads(done.stdout)
    said = [f"{count} × {answer}" for answer, count in sorted(answers.items())]
    said += [f"honest: {refusal}" for refusal in sorted(set(observer.refusals))]
    if bounds is LARGE_LIMITS:
        said.insert(0, f"{answers.get('250', 0) * LARGE_BYTES / 1e6 / ATTACK_SECONDS:.0f} MB/s")
    return observer, observer.over(bounds), ", ".join(said)


HEADER = f"""\
{"":42} {"MiB":>11}  {"honest mail, ms":>22}  {"probe":>7} {"starved":>7}
{"":42} {"seen":>5} {"peak":>5}  {"median":>6} {"worst":>7} {"refused":>7}  {"ms":>7} {"ms":>7}"""


def ms(seconds):
    return f"{seconds * 1000:,.0f}"


def play(number):
    """Attack a fresh daemon and print a line of results; return whether all are within bounds."""
    if number.startswith("13"):
        return delay(number)
    bounds = LARGE_LIMITS if number.startswith("10") else LIMITS
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder, Daemon(Path(folder)) as daemon:
        observer, over, remark = attacked(daemon, number, bounds)
    times = observer.honest_seconds
    refused = f"{len(observer.refusals)}/{len(times)}"
    print(
        f"{number:>3}  {ATTACKS[number].title:<37} {observer.seen_mib:>5.0f} {observer.peak_mib:>5.0f}"
        f"  {ms(statistics.median(times)):>6} {ms(max(times)):>7} {refused:>7}"
        f"  {ms(observer.probe_seconds):>7} {ms(observer.starved_seconds):>7}"
        f"  {'OVER: ' + ', '.join(over) if over else 'ok'}; {remark}",
        flush=True,
    )
    return not over


def main():
    wanted = set(sys.argv[1:])
    chosen = [one for one in ATTACKS if not wanted or {one, one.rstrip("abcdefghz")} & wanted]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}, {ATTACK_SECONDS:.0f} s each"
    )
    print("starved: total time for which the event loop was ready to run but had no CPU\n")
    print(HEADER, flush=True)
    outcomes = [play(number) for number in chosen]  # run all attacks, even if an early attack succeeds
    sys.exit(not all(outcomes))


main()
