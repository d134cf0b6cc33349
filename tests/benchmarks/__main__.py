"""``make bench``: measure our memory usage, and our speed in alternation with bare libraries.

Absolute figures vary with the machine and its load, so compare the ratios. ``ARGS="reading memory"`` runs only the
parts ``reading`` and ``memory``. Four parts run only on request: ``ARGS=scale`` takes a few minutes and a few
gigabytes, ``ARGS=nodes`` needs PostgreSQL, ``ARGS=costs`` needs a loopback interface that no other program uses, and
``ARGS=catchers`` needs MailDev.
"""

import os
import platform
import re
import shutil
import smtplib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from catchers import speak_of_catchers
from costs import speak_of_costs
from nodes import speak_of_nodes
from scale import speak_of_scale
from servers import MAIL_BYTES, BareAiosmtpd, BareHypercorn, SmtpSink, Tmpmaild, compared, seconds_from_dot, smtp_source

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SENDERS = 50
MAILS_PER_ROUND = 4000
READ_SECONDS = 4
READERS = 16
READ_MAILS = 20
STORED_MAILS = 10_000
LATENCY_MAILS = 300
TARGETS = {"new": 3.5, "kept": 3.0, "read": 0.85}
os.environ["PATH"] += ":/usr/sbin:/sbin"


def deliveries_per_second(server, *, kept, count=MAILS_PER_ROUND):
    """Send ``count`` messages with smtp-source, over one connection per message or per sender."""
    began = time.perf_counter()
    subprocess.run(smtp_source(server, count, SENDERS, *["-d"] * kept), check=True)
    return count / (time.perf_counter() - began)


def requests_per_second(server):
    """Request a URL repeatedly with wrk."""
    command = ["wrk", "-t1", f"-c{READERS}", f"-d{READ_SECONDS}s", server.read_url]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in report, report
    return float(re.search(r"Requests/sec:\s+([\d.]+)", report)[1])


def compare(title, ours, yardstick, measure, target):
    """Measure two servers alternately, and print the ratio for each pair of neighbouring runs."""
    pairs = [(measure(ours), measure(yardstick)) for _ in range(ROUNDS)]
    ratios, mine, theirs = compared(pairs)
    print(f"{title:<44} {ratios}; {mine:,.0f}/s against {theirs:,.0f}/s; target {target} ×)", flush=True)


def compare_cpu(title, ours, yardstick, deliver):
    """Compare processor time per message, which depends less on the machine than message rates do."""

    def cpu_per_mail(server):
        before = server.cpu_seconds()
        deliver(server)
        return (server.cpu_seconds() - before) / MAILS_PER_ROUND * 1e6

    pairs = [(cpu_per_mail(ours), cpu_per_mail(yardstick)) for _ in range(ROUNDS)]
    ratios, mine, theirs = compared(pairs)
    print(f"{title:<44} {ratios}; {mine:.0f} against {theirs:.0f} µs)", flush=True)


def speak_of_deliveries(folder):
    with Tmpmaild(folder / "deliveries") as ours, BareAiosmtpd() as yardstick, SmtpSink() as sink:
        for server in (ours, yardstick):
            deliveries_per_second(server, kept=True, count=1000)
        for kept, name in ((False, "new"), (True, "kept")):
            measure = partial(deliveries_per_second, kept=kept)
            compare(f"durable deliveries, {name} connections / aiosmtpd", ours, yardstick, measure, TARGETS[name])
            compare_cpu(f"CPU per message / bare aiosmtpd, {name} connections", ours, yardstick, measure)
            compare(f"  smtp-sink (C), {name} connections / aiosmtpd", sink, yardstick, measure, "-")


def speak_of_group_commit(folder):
    if shutil.which("strace") is None:
        print("fdatasync calls per message: not counted, strace is missing")
        return
    log = folder / "strace.log"
    tracer = ["strace", "-D", "-f", "--seccomp-bpf", "-e", "trace=fdatasync", "-o", str(log)]
    with Tmpmaild(folder / "commits", tracer) as ours:
        before = log.read_text().count("fdatasync(")
        deliveries_per_second(ours, kept=True)
        time.sleep(0.5)
        calls = log.read_text().count("fdatasync(") - before
    print(
        f"fdatasync calls per message, {SENDERS} senders: {calls / MAILS_PER_ROUND:.2f} (target: at most 0.5)",
        flush=True,
    )


def speak_of_latency(folder):
    """Compare the time from the final dot to the 250 with a plain write and fdatasync on the same disk."""
    with Tmpmaild(folder / "latency") as ours, (folder / "plain").open("w+b", buffering=0) as plain:
        plain.write(bytes(1 << 20))
        with smtplib.SMTP("127.0.0.1", ours.smtp_port, local_hostname="localhost") as client:
            client.ehlo()
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs = [
                (seconds_from_dot(client, ours.recipient), seconds_to_sync(plain, number))
                for number in range(LATENCY_MAILS)
            ]
    mail, bare = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    print(
        f"one sender, dot to 250, median: {mail:.2f} ms; a write of 12 KiB with fdatasync {bare:.2f} ms, "
        f"so {mail - bare:.2f} ms more (target: at most 1)",
        flush=True,
    )


def seconds_to_sync(file, number):
    began = time.perf_counter()
    os.pwrite(file.fileno(), bytes(12288), number * 12288 % (1 << 20))
    os.fdatasync(file.fileno())
    return time.perf_counter() - began


def speak_of_reading(folder):
    with Tmpmaild(folder / "reading") as ours, BareHypercorn() as yardstick:
        deliveries_per_second(ours, kept=True, count=READ_MAILS)
        compare(f"messages, {READ_MAILS} mails / bare Hypercorn", ours, yardstick, requests_per_second, TARGETS["read"])


def speak_of_memory(folder):
    with Tmpmaild(folder / "memory") as ours:
        idle = ours.resident_mib()
        deliveries_per_second(ours, kept=True, count=STORED_MAILS)
        print(
            f"memory: {idle:.0f} MiB idle, {ours.resident_mib():.0f} MiB after {STORED_MAILS:,} messages (target: < 80 idle)"
        )


PARTS = {
    "deliveries": speak_of_deliveries,
    "commits": speak_of_group_commit,
    "latency": speak_of_latency,
    "reading": speak_of_reading,
    "memory": speak_of_memory,
    "scale": speak_of_scale,
    "nodes": speak_of_nodes,
    "costs": speak_of_costs,
    "catchers": speak_of_catchers,
}
LONG = {"scale", "nodes", "costs", "catchers"}  # parts that run only on request


def main():
    parts = sys.argv[1:] or [part for part in PARTS if part not in LONG]
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"unknown part: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    missing = [name for name, package in (("smtp-source", "postfix"), ("wrk", "wrk")) if not shutil.which(name)]
    if missing:
        sys.exit(f"needs {' and '.join(missing)} (Debian packages postfix and wrk)")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"commit {commit.strip()}, Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}")
    if not set(parts) <= LONG:
        print(f"{ROUNDS} alternating rounds, {SENDERS} senders, {MAIL_BYTES} bytes per message", flush=True)
    print(flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        for part in parts:
            PARTS[part](Path(name))


main()
