"""``make proof WHAT=attack``: attacks the real daemon and says what honest clients feel and how much memory it takes meanwhile.

``python tests/benchmarks/attacks.py [NUMBER …]``: all attacks, or those whose number begins so, each on a fresh daemon.
The exit code is 1 if anything is over its bound. What the attackers do stands in ``attackers.py``. During those that
are to delay others (13), five honest clients send an HTML mail and a small one, read a first list, a view and a large
answer, again and again.
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
    """What is wanted; over it the attack has succeeded."""

    memory_mib: float = 200
    honest_seconds: float = 2
    probe_seconds: float = 0.5


DELAY_SECONDS = 0.5
DELAY_P99_SECONDS = 0.1
PROBES_FROM = "127.0.{}.1"  # each honest client has a network of its own
PROBE_PAUSE_SECONDS = 0.1
DELAY_HEAD_START_SECONDS = 2  # until all attackers have prepared what they do
HTML_MAIL = html(filled(b"<p style='color:#333'>Your code is <b>481 516</b>, valid for ten minutes.\r\n", 12_000))

LIMITS = Bounds()
LARGE_LIMITS = Bounds(probe_seconds=0.05)


class Daemon(Tmpmaild):
    """``tmpmaild serve`` with all limits of its SMTP edge; an inbox alone takes whatever comes."""

    def __init__(self, folder):
        super().__init__(folder, TMPMAILD_LIMITS__EXEMPT="", TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT="1.0")

    def peak_mib(self):
        """Return the most memory it has had since it started, as the kernel has noted it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def starved_seconds(self):
        """Return how long its event loop has had to wait for a CPU: what the machine adds to every time here."""
        schedule = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat").read_text(encoding="utf-8")
        return int(schedule.split()[1]) / 1e9


class Observing:
    """Threads that run while it is entered; then it has the time the daemon waited for a CPU, and its peak memory."""

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
    """An honest client, a probe of the event loop and samples of the memory, each in a thread."""

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
        """Name what is over."""
        found = {
            "memory": self.peak_mib > bounds.memory_mib,
            "honest mail": max(self.honest_seconds, default=0) > bounds.honest_seconds,
            "refused": bool(self.refusals),
            "probe": self.probe_seconds > bounds.probe_seconds,
        }
        return [name for name, is_over in found.items() if is_over]


class Probes(Observing):
    """Five honest clients, each in a thread; ``seconds`` has the time that each request took."""

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
        """Go through a generator that yields what to measure, and measure it."""
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
        """Begin a mail; return what ends it and waits for its reply."""
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
        self._ask("GET", f"/{address}/messages", 200)  # from now on codes and links are known
        while True:
            yield lambda: self._ask("GET", f"/{address}/messages", 200)

    def over(self):
        """Name what is over."""
        found = {"refused": bool(self.refusals), "memory": self.peak_mib > LIMITS.memory_mib}
        for name, seconds in self.seconds.items():
            found[name] = max(seconds, default=PATIENCE_SECONDS) > DELAY_SECONDS or p99(seconds) > DELAY_P99_SECONDS
        return [name for name, is_over in found.items() if is_over]


def p99(seconds):
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else PATIENCE_SECONDS


def delay(number):
    """Let a fresh daemon be attacked and print what each of five honest clients waited; return whether all is well."""
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
    """Attack while honest mail comes in; return who has seen it, what is over its bounds, and what was answered."""
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
    """Let a fresh daemon be attacked and print the line of it; return whether all is well."""
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
    print("starved: how long the event loop was ready to run and had no CPU, all in all\n")
    print(HEADER, flush=True)
    outcomes = [play(number) for number in chosen]  # all of them, whatever the first ones say
    sys.exit(not all(outcomes))


main()
