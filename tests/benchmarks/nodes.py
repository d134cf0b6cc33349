"""The benefit of a second daemon: deliveries and CPU time with SQLite, and with one and two daemons on PostgreSQL."""

import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from servers import Tmpmaild, smtp_source

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from clusters import ROLE, Cluster

ROUNDS = 5
MAILS = 6000
SENDERS = 64
TARGETS = {"one / SQLite": 0.9, "two / one": 1.2, "CPU of two / one": 1.1}
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """Messages per second, and CPU microseconds per message for the daemons, the database server and the senders."""

    rate: float
    daemons: float
    server: float
    senders: float

    @property
    def cpu(self):
        return self.daemons + self.server


def speak_of_nodes(folder):
    with ExitStack() as stack:
        cluster = stack.enter_context(_cluster())
        settings = {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}
        alone = [stack.enter_context(Tmpmaild(folder / "sqlite"))]
        two = [stack.enter_context(Tmpmaild(folder / f"node{number}", **settings)) for number in range(2)]
        kinds = {"SQLite": alone, "one": two[:1], "two": two}
        found = {name: [] for name in kinds}
        for number in range(ROUNDS + 1):
            for name, daemons in kinds.items():
                measured = _measure(daemons, cluster)
                if number:  # the first round is a warm-up
                    found[name].append(measured)
    for name, rounds in found.items():
        rate, daemons, server, senders = map(statistics.median, zip(*rounds, strict=True))
        print(
            f"{name:<8} {rate:9,.0f} messages/s; CPU per message: daemons {daemons:.0f} µs, server {server:.0f} µs,"
            f" senders {senders:.0f} µs",
            flush=True,
        )
    ratios = {
        "one / SQLite": _ratio(found["one"], found["SQLite"], lambda one: one.rate),
        "two / one": _ratio(found["two"], found["one"], lambda one: one.rate),
        "CPU of two / one": _ratio(found["two"], found["one"], lambda one: one.cpu),
    }
    for name, ratio in ratios.items():
        print(f"{name:<44} {ratio:6.2f} ×   (target {TARGETS[name]} ×)", flush=True)
    _speak_of_more_cores(found)


def _speak_of_more_cores(found):
    """Report the rate expected on more cores if CPU time is the only limit."""
    one = Measured(*map(statistics.median, zip(*found["two"], strict=True)))
    for cores in (4, 8, 32):
        daemons = max(round(cores * one.daemons / one.cpu), 1)
        print(
            f"{cores} cores, senders elsewhere: {cores * 1e6 / one.cpu:9,.0f} messages/s with {daemons} daemons, by CPU alone"
        )


def _ratio(these, those, figure):
    return statistics.median(figure(this) / figure(that) for this, that in zip(these, those, strict=True))


@contextmanager
def _cluster():
    folder = Path(tempfile.mkdtemp(prefix="tmpmaild-pg-", dir=os.environ.get("BENCH_DIR")))
    if os.getuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    cluster = Cluster(folder, {"shared_buffers": "256MB", "max_wal_size": "1GB", "max_connections": "40"})
    try:
        cluster.create()
        cluster.start()
        cluster.execute(f"CREATE ROLE {ROLE} LOGIN")
        yield cluster
    finally:
        cluster.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _measure(daemons, cluster):
    """Send messages with two programs, either to the same daemon or to one daemon each."""
    targets = [daemons[number % len(daemons)] for number in range(2)]
    before = [_cpu(daemon.process.pid) for daemon in daemons], _server_cpu(cluster), _children_cpu()
    began = time.perf_counter()
    commands = [smtp_source(target, MAILS // 2, SENDERS // 2, "-d") for target in targets]
    sending = [subprocess.Popen(command) for command in commands]
    for process in sending:
        assert process.wait() == 0
    seconds = time.perf_counter() - began
    after = [_cpu(daemon.process.pid) for daemon in daemons], _server_cpu(cluster), _children_cpu()
    per_mail = 1e6 / MAILS
    return Measured(
        rate=MAILS / seconds,
        daemons=(sum(after[0]) - sum(before[0])) * per_mail,
        server=(after[1] - before[1]) * per_mail,
        senders=(after[2] - before[2]) * per_mail,
    )


def _cpu(pid):
    """Return the CPU seconds of a process and of its children that have exited."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _server_cpu(cluster):
    pid = cluster.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return _cpu(pid) + sum(_cpu(int(child)) for child in children)


def _children_cpu():
    """Return the CPU seconds used by the senders, the only child processes that exit during the measurement."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
