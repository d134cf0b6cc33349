"""``make proof WHAT=attack``: attacks the real daemon and says what honest clients feel and how much memory it takes meanwhile.

``python tests/benchmarks/attacks.py [SCENARIO …]``: all scenarios, or those whose number begins so. Each has a fresh
daemon. The exit code is 1 if anything is over its bound. What the attackers do stands in ``attackers.py``.
"""

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
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from attackers import BOMBS, DOT, LARGE_BYTES, Client, Refused
from servers import HERE, Tmpmaild

ATTACK_SECONDS = float(os.environ.get("ATTACK_SECONDS", "10"))
PATIENCE_SECONDS = 60
SAMPLE_SECONDS = 0.02
HONEST_SECONDS = 0.2
PROBE_SECONDS = 0.01
HONEST_MAIL = b"Subject: Your code\r\n\r\nIt is 481 516.\r\n" + DOT


class Bounds(NamedTuple):
    """What is wanted; over it the scenario has failed."""

    memory_mib: float = 200
    honest_seconds: float = 2
    probe_seconds: float = 0.5
    listed_seconds: float = 1


LIMITS = Bounds()
BOMB_LIMITS = Bounds(probe_seconds=0.1)
LARGE_LIMITS = Bounds(probe_seconds=0.05)


class Daemon(Tmpmaild):
    """``tmpmaild serve`` with all limits of its SMTP edge; an inbox alone takes whatever comes."""

    def __init__(self, folder):
        super().__init__(folder, TMPMAILD_LIMITS__EXEMPT="", TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT="1.0")

    def messages(self, address):
        with urllib.request.urlopen(f"{self.url}/{address}/messages", timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())["messages"]

    def peak_mib(self):
        """Return the most memory it has had since it started, as the kernel has noted it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def starved_seconds(self):
        """Return how long its event loop has had to wait for a CPU: what the machine adds to every time here."""
        schedule = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat").read_text()
        return int(schedule.split()[1]) / 1e9


class Observer:
    """An honest client, a probe of the event loop and a look at the memory, each in a thread, while it is entered."""

    def __init__(self, daemon, *, sends_mail=True):
        self._daemon = daemon
        self._recipient = daemon.create()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._sample), threading.Thread(target=self._probe)]
        if sends_mail:
            self._threads.append(threading.Thread(target=self._send_mails))
        self.seen_mib = 0.0
        self.probe_seconds = 0.0
        self.honest_seconds = []
        self.refusals = []

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
        self.peak_mib = max(self.seen_mib, self._daemon.peak_mib())

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


def honest_client(daemon):
    return Client(daemon.smtp_port, "127.0.0.1", time.monotonic() + PATIENCE_SECONDS)


def under_attack(name, bounds=LIMITS, *, http=False):
    """Return the scenario of an attack on the SMTP port, or that of HTTP, while honest mail comes in."""

    def run(daemon):
        port = urlsplit(daemon.url).port if http else daemon.smtp_port
        command = [sys.executable, HERE / "attackers.py", name, port, daemon.create(), ATTACK_SECONDS]
        with Observer(daemon) as observer:
            done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, check=True)
        answers = json.loads(done.stdout)
        said = [f"{count} × {answer}" for answer, count in sorted(answers.items())]
        said += [f"honest: {refusal}" for refusal in sorted(set(observer.refusals))]
        if bounds is LARGE_LIMITS:
            said.insert(0, f"{answers.get('250', 0) * LARGE_BYTES / 1e6 / ATTACK_SECONDS:.0f} MB/s")
        return observer, observer.over(bounds), ", ".join(said)

    return run


def bomb(make):
    """Return the scenario of one mail for a daemon that has nothing else to do."""

    def run(daemon):
        address, mail = daemon.create(), make() + DOT
        with Observer(daemon, sends_mail=False) as observer:
            with honest_client(daemon) as client:
                client.greet()
                client.open_mail(address)
                began = time.perf_counter()
                client.send(mail)
                answer = client.line()
            answered_seconds = time.perf_counter() - began
            listed = [message["id"] for message in daemon.messages(address)]
            listed_seconds = time.perf_counter() - began - answered_seconds
        over = observer.over(BOMB_LIMITS)
        over += ["answer"] * (not answer.startswith("250") or answered_seconds > BOMB_LIMITS.honest_seconds)
        over += ["list"] * (answer.split()[-1] not in listed or listed_seconds > BOMB_LIMITS.listed_seconds)
        remark = f"{answer[:9]} after {ms(answered_seconds)} ms, listed {ms(listed_seconds)} ms later"
        return observer, over, remark

    return run


class Scenario(NamedTuple):
    number: str
    title: str
    run: Callable


SCENARIOS = [
    Scenario("1", "9.9 MB of empty lines", under_attack("empty-lines")),
    Scenario("2a", "9.9 MB of NUL and dots", under_attack("nul-and-dots")),
    Scenario("2b", "9.9 MB of bare LF", under_attack("bare-line-feeds")),
    Scenario("2c", "9.9 MB of stuffed dots", under_attack("stuffed-dots")),
    Scenario("2d", "9.9 MB of 8-bit rubbish", under_attack("rubbish")),
    Scenario("3", "500 MB in a line of DATA", under_attack("endless-line")),
    Scenario("4", "a command without end", under_attack("endless-command")),
    Scenario("5", "500 MB in short lines", under_attack("endless-mail")),
    Scenario("6a", "100 MB of EHLO, never reading", under_attack("deaf")),
    Scenario("6b", "the same on 900 connections", under_attack("deaf-hundreds")),
    Scenario("7a", "200 unfinished mails, SIZE declared", under_attack("unfinished-declared")),
    Scenario("7b", "200 unfinished mails, undeclared", under_attack("unfinished")),
    Scenario("8a", "1,000 idle connections", under_attack("idle")),
    Scenario("8b", "1,000 trickling connections", under_attack("trickle")),
    Scenario("8c", "900 unfinished mails of 60 KB", under_attack("small-unfinished")),
    *(
        Scenario(f"9{letter}", title, bomb(make))
        for letter, (title, make) in zip("abcdefgh", BOMBS.items(), strict=True)
    ),
    Scenario("10a", "5 senders of 10 MB attachments", under_attack("large-attachments", LARGE_LIMITS)),
    Scenario("10b", "5 senders of 10 MB texts", under_attack("large-texts", LARGE_LIMITS)),
    Scenario("11a", "HTTP: 20,000 header fields", under_attack("many-fields", http=True)),
    Scenario("11b", "HTTP: a field that patterns are slow on", under_attack("slow-pattern", http=True)),
    Scenario("11c", "HTTP: 20,000 trailers", under_attack("many-trailers", http=True)),
    Scenario("11d", "HTTP: an extension of a chunk", under_attack("chunk-extension", http=True)),
    Scenario("11e", "HTTP: 10,000 chunks", under_attack("many-chunks", http=True)),
    Scenario("11f", "HTTP: headers at their limit", under_attack("largest-headers", http=True)),
    Scenario("11g", "HTTP: 1,000 unfinished headers", under_attack("unfinished-headers", http=True)),
    Scenario("12", "300 connections that try names", under_attack("names")),
]
HEADER = f"""\
{"":42} {"MiB":>11}  {"honest mail, ms":>22}  {"probe":>7} {"starved":>7}
{"":42} {"seen":>5} {"peak":>5}  {"median":>6} {"worst":>7} {"refused":>7}  {"ms":>7} {"ms":>7}"""


def ms(seconds):
    return f"{seconds * 1000:,.0f}"


def play(scenario):
    """Run a scenario against a fresh daemon and print its line; return whether all is well."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder, Daemon(Path(folder)) as daemon:
        observer, over, remark = scenario.run(daemon)
    times = observer.honest_seconds
    honest = (
        [ms(statistics.median(times)), ms(max(times)), f"{len(observer.refusals)}/{len(times)}"] if times else "---"
    )
    print(
        f"{scenario.number:>3}  {scenario.title:<37} {observer.seen_mib:>5.0f} {observer.peak_mib:>5.0f}"
        f"  {honest[0]:>6} {honest[1]:>7} {honest[2]:>7}"
        f"  {ms(observer.probe_seconds):>7} {ms(observer.starved_seconds):>7}"
        f"  {'OVER: ' + ', '.join(over) if over else 'ok'}; {remark}",
        flush=True,
    )
    return not over


def main():
    wanted = set(sys.argv[1:])
    chosen = [one for one in SCENARIOS if not wanted or {one.number, one.number.rstrip("abcdefgh")} & wanted]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}, {ATTACK_SECONDS:.0f} s each"
    )
    print("starved: how long the event loop was ready to run and had no CPU, all in all\n")
    print(HEADER, flush=True)
    outcomes = [play(scenario) for scenario in chosen]  # all of them, whatever the first ones say
    sys.exit(not all(outcomes))


main()
