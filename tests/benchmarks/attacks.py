"""``make proof WHAT=attack``: attacks the real daemon and says what honest clients feel and how much memory it takes meanwhile.

``python tests/benchmarks/attacks.py [NUMBER …]``: all attacks, or those whose number begins so, each on a fresh daemon.
The exit code is 1 if anything is over its bound. What the attackers do stands in ``attackers.py``.
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
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from attackers import ATTACKS, DOT, LARGE_BYTES, Client, Refused
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


class Observer:
    """An honest client, a probe of the event loop and a look at the memory, each in a thread, while it is entered."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._recipient = daemon.create()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._sample, self._probe, self._send_mails)]
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


def attacked(daemon, number, bounds):
    """Attack while honest mail comes in; return who has seen it, what is over its bounds, and what was answered."""
    port = urlsplit(daemon.url).port if number.startswith("11") else daemon.smtp_port
    command = [sys.executable, HERE / "attackers.py", number, port, daemon.create(), ATTACK_SECONDS]
    with Observer(daemon) as observer:
        done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, check=True)
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
    chosen = [one for one in ATTACKS if not wanted or {one, one.rstrip("abcdefgh")} & wanted]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}, {ATTACK_SECONDS:.0f} s each"
    )
    print("starved: how long the event loop was ready to run and had no CPU, all in all\n")
    print(HEADER, flush=True)
    outcomes = [play(number) for number in chosen]  # all of them, whatever the first ones say
    sys.exit(not all(outcomes))


main()
