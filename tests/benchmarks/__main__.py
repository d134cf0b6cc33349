"""``make bench``: our speed as ratios against bare libraries, alternating in one run; and our memory.

Absolute figures belong to a machine and a moment. The ratios are what to compare.
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import BareAiosmtpd, BareHypercorn, Tmpmaild

ROUNDS = int(os.environ.get("ROUNDS", "5"))
MAIL_BYTES = 2048
SENDERS = 50
MAILS_PER_ROUND = 4000
READ_SECONDS = 4
READERS = 16
READ_MAILS = 20
STORED_MAILS = 10_000
TARGETS = {"new": 2.5, "kept": 2.5, "read": 0.5}
os.environ["PATH"] += ":/usr/sbin:/sbin"


def deliveries_per_second(server, *, kept, count=MAILS_PER_ROUND):
    """Send ``count`` mails with smtp-source, with one connection each or one a sender."""
    command = ["smtp-source", "-s", str(SENDERS), "-l", str(MAIL_BYTES), "-m", str(count), "-f", "a@example.com"]
    began = time.perf_counter()
    subprocess.run(
        [*command, *(["-d"] if kept else []), "-t", server.recipient, f"127.0.0.1:{server.smtp_port}"], check=True
    )
    return count / (time.perf_counter() - began)


def requests_per_second(server):
    """Read a URL over and over with wrk."""
    command = ["wrk", "-t1", f"-c{READERS}", f"-d{READ_SECONDS}s", server.read_url]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in report, report
    return float(re.search(r"Requests/sec:\s+([\d.]+)", report)[1])


def compare(title, ours, yardstick, measure, target):
    """Measure both in turn and print the ratio of each pair of neighbours."""
    pairs = [(measure(ours), measure(yardstick)) for _ in range(ROUNDS)]
    ratios = sorted(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{title:<44} {statistics.median(ratios):6.2f} ×   ({ratios[0]:.2f} to {ratios[-1]:.2f}; "
        f"{mine:,.0f}/s against {theirs:,.0f}/s; wanted {target} ×)",
        flush=True,
    )


def speak_of_deliveries(folder):
    with Tmpmaild(folder / "deliveries") as ours, BareAiosmtpd() as yardstick:
        for server in (ours, yardstick):
            deliveries_per_second(server, kept=True, count=1000)
        for kept, name in ((False, "new"), (True, "kept")):
            title = f"durable deliveries, {name} connections / aiosmtpd"
            compare(
                title,
                ours,
                yardstick,
                lambda server, kept=kept: deliveries_per_second(server, kept=kept),
                TARGETS[name],
            )


def speak_of_reading(folder):
    with Tmpmaild(folder / "reading") as ours, BareHypercorn() as yardstick:
        deliveries_per_second(ours, kept=True, count=READ_MAILS)
        compare(f"messages, {READ_MAILS} mails / bare Hypercorn", ours, yardstick, requests_per_second, TARGETS["read"])


def speak_of_memory(folder):
    with Tmpmaild(folder / "memory") as ours:
        idle = ours.resident_mib()
        deliveries_per_second(ours, kept=True, count=STORED_MAILS)
        print(
            f"memory: {idle:.0f} MiB idle, {ours.resident_mib():.0f} MiB after {STORED_MAILS:,} mails (wanted < 80 idle)"
        )


def main():
    missing = [name for name, package in (("smtp-source", "postfix"), ("wrk", "wrk")) if not shutil.which(name)]
    if missing:
        sys.exit(f"needs {' and '.join(missing)} (Debian packages postfix and wrk)")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"commit {commit.strip()}, Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}")
    print(f"{ROUNDS} alternating rounds, {SENDERS} senders, {MAIL_BYTES} octets a mail\n", flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        speak_of_deliveries(Path(name))
        speak_of_reading(Path(name))
        speak_of_memory(Path(name))


main()
