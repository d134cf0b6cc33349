"""Simulates the loss of a cell at peak, and computes the machines that a rate of mail needs (docs/scaling.md, Cells).

python tools/simulate_cells.py              what happens to mail in outages of several lengths
python tools/simulate_cells.py --table      what a mail costs, and the machines for three rates

The same figures come at each run: the seed is fixed. ``MEASURED`` was measured with the daemon
(``make bench ARGS=costs``), ``ASSUMED`` was not.
"""

import heapq
import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

CPU_MICROSECONDS: Final = {
    "a mail of 30 KB on a connection of its own": 1_120,
    "deleting it": 547,
    "creating its address": 1_940,
    "listing its mail": 1_130,
    "opening a stream": 1_210,
    "a heartbeat of a stream": 285,
}
WRITTEN: Final = {"storing it": 69_500, "deleting it": 86_300, "creating its address": 27_400}
WIRE_BYTES: Final = 32_200
KEPT_BYTES: Final = 33_900
STREAM_BYTES: Final = 42_800
SESSION_BYTES: Final = 3_000
FLUSHES: Final = 1
MEASURED: Final = {
    **{f"CPU of {name}, µs": value for name, value in CPU_MICROSECONDS.items()},
    **{f"octets written to the disk for {name}": value for name, value in WRITTEN.items()},
    "octets on the wire for it": WIRE_BYTES,
    "octets that it takes on the disk": KEPT_BYTES,
    "flushes for it, if no other comes at that moment": FLUSHES,
    "memory of an open stream, octets": STREAM_BYTES,
    "memory of an SMTP session, octets": SESSION_BYTES,
}
WATCHED_SECONDS: Final = 120
SESSION_SECONDS: Final = 2
BUSY: Final = 0.5
AVERAGE: Final = 0.5
ASSUMED: Final = {
    "mails for an address": 1,
    "seconds that somebody watches it": WATCHED_SECONDS,
    "seconds of an SMTP session": SESSION_SECONDS,
    "share of a machine that may be busy at peak": BUSY,
    "average rate, as a share of that at peak": AVERAGE,
}
HEARTBEAT_SECONDS: Final = 15
LIFETIME_SECONDS: Final = 3600
MAX_SESSIONS: Final = 1000  # smtp.max_connections
CPU_SECONDS: Final = (
    sum(CPU_MICROSECONDS.values())
    + (WATCHED_SECONDS // HEARTBEAT_SECONDS - 1) * CPU_MICROSECONDS["a heartbeat of a stream"]
) / 1e6
"""A mail with all that belongs to it: its address, and somebody who waits for it."""
MEMORY_BYTES: Final = WATCHED_SECONDS * STREAM_BYTES + SESSION_SECONDS * SESSION_BYTES
WRITTEN_BYTES: Final = sum(WRITTEN.values())
HOUR_BYTES: Final = KEPT_BYTES * LIFETIME_SECONDS


@dataclass(frozen=True)
class Machine:
    """A kind of machine, as its makers and hosters describe it; a daemon uses one core, one is for the proxy."""

    name: str
    euros_a_month: int
    cores: int
    memory_bytes: float
    network_bits: float
    disk_bytes: float
    disk_bytes_a_second: float
    disk_bytes_a_second_for_years: float
    flushes_a_second: float

    def limits(self) -> dict[str, float]:
        """Return the mails a second at peak at which each part of the machine is as busy as it may be."""
        return {
            "CPU": BUSY * (self.cores - 1) / CPU_SECONDS,
            "memory": BUSY * self.memory_bytes / MEMORY_BYTES,
            "network": BUSY * self.network_bits / 8 / WIRE_BYTES,
            "room on the disk": BUSY * self.disk_bytes / HOUR_BYTES,
            "speed of the disk": BUSY * self.disk_bytes_a_second / WRITTEN_BYTES,
            "wear of the disk": self.disk_bytes_a_second_for_years / WRITTEN_BYTES / AVERAGE,
            "flushes": BUSY * self.flushes_a_second / FLUSHES,
        }


SMALL: Final = Machine("2 cores, 4 GB, 80 GB", 8, 2, 4e9, 1e9, 80e9, 100e6, 10e6, 1000)
LARGE: Final = Machine("16 cores, 128 GB, 2 TB", 250, 16, 128e9, 10e9, 2e12, 1e9, 2e12 / 86400, 20_000)
RATES: Final = ((10, SMALL), (1_000, LARGE), (100_000, LARGE))


def table() -> str:
    """Return two tables: the costs of a mail, and what rates need."""
    costs = [f"| {name} | {value:,} | measured |" for name, value in MEASURED.items()]
    costs += [f"| {name} | {value:,} | assumed |" for name, value in ASSUMED.items()]
    head = "| mails a second | machines | cells | € a month | first to break | octets in | written | kept | streams |"
    rows = [_row(rate, machine) for rate, machine in RATES]
    return "\n".join(["| what | figure | |", "|---|---|---|", *costs, "", head, "|---" * 9 + "|", *rows])


def _row(rate: int, machine: Machine) -> str:
    first, second = sorted(machine.limits().items(), key=lambda limit: limit[1])[:2]
    count = math.ceil(rate / first[1]) + 1  # one may be lost
    broken = f"{first[0]}, at {first[1]:,.0f} a machine; then {second[0]}, at {second[1]:,.0f}"
    cells = count * (machine.cores - 1)
    return (
        f"| {rate:,} | {count} of {machine.name} | {cells:,} | {count * machine.euros_a_month:,} | {broken} "
        f"| {rate * WIRE_BYTES * 8 / 1e6:,.0f} Mbit/s | {rate * WRITTEN_BYTES / 1e6:,.0f} MB/s "
        f"| {rate * HOUR_BYTES / 1e9:,.0f} GB | {rate * WATCHED_SECONDS:,} |"
    )


RETRIES: Final = {
    # Seconds between attempts, the last one again and again; and the tenths of all mail.
    "a large provider": ((60, 120, 240, 480, 960, 1920, 3600), 5),  # assumed: they tell nobody
    "Postfix": ((300, 300, 600, 1200, 2400, 4000), 3),  # minimal_backoff_time, maximal_backoff_time
    "Exim on Debian": ((1800, 1800, 1800, 1800, 3600), 1),  # F,2h,15m; G,16h,1h,1.5; a queue run each 30 minutes
    "RFC 5321": ((1800, 1800, 7200), 1),  # section 4.5.4.1: 30 minutes, twice in the first hour, then each 2 hours
}
DELAYED_SECONDS: Final = 60
WINDOW_SECONDS: Final = 600


@dataclass(frozen=True)
class Scenario:
    """Some cells, of which the first is away from ``lost_at_seconds`` on. One in ``scale`` mails is simulated."""

    outage_seconds: float = 1800
    cells: int = 3
    mails_a_second: float = 3 * BUSY / CPU_SECONDS
    offered_seconds: float = 5400
    lost_at_seconds: float = 600
    until_seconds: float = math.inf
    scale: int = 50
    seed: int = 1

    def is_away(self, cell: int, at: float) -> bool:
        """Return whether a cell is lost at a time."""
        return cell == 0 and 0 <= at - self.lost_at_seconds < self.outage_seconds

    def chosen(self, number: int, at: float) -> int:
        """Return the cell at which an address is created: each in turn, without one that is away."""
        cell = number % self.cells
        return 1 + number % (self.cells - 1) if self.is_away(cell, at) else cell


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail: when it is first sent, when its address expires, and how long its sender waits between attempts."""

    sent_at: float
    expires_at: float
    pauses: Sequence[float]
    stretch: float
    cell: int

    def pause(self, tries: int) -> float:
        """Return how long its sender waits after so many attempts."""
        return self.stretch * self.pauses[min(tries, len(self.pauses)) - 1]


@dataclass
class Result:
    """What became of the mails."""

    offered: int = 0
    delivered: int = 0
    refused: int = 0  # its address had expired by then
    queued: int = 0  # with its sender, at the end
    deferred: int = 0  # not taken at the first attempt
    delays_seconds: list[float] = field(default_factory=list)  # of those delivered more than a minute later
    last_at: float = 0.0  # when the last one that was deferred was delivered or refused
    taken: Counter[tuple[int, int]] = field(default_factory=Counter)  # by cell and window


def mails(scenario: Scenario) -> list[Mail]:
    """Return all mails. Their times do not depend on the outage, only the cells to which they go."""
    chance = random.Random(scenario.seed)  # noqa: S311 - a simulation
    schedules = [pauses for pauses, tenths in RETRIES.values() for _ in range(tenths)]
    found = []
    created_at, number = -float(LIFETIME_SECONDS), 0
    while created_at < scenario.offered_seconds:
        created_at += chance.expovariate(scenario.mails_a_second / scenario.scale)
        number += 1
        # Somebody waits for every other one; the rest come at any time while the address lives.
        age = min(chance.expovariate(1 / 30), 600) if number % 2 else chance.uniform(0, LIFETIME_SECONDS)
        pauses, stretch = schedules[int(10 * chance.random())], 0.9 + 0.2 * chance.random()
        if 0 <= created_at + age < scenario.offered_seconds:
            cell = scenario.chosen(number // 2, created_at)
            found.append(Mail(created_at + age, created_at + LIFETIME_SECONDS, pauses, stretch, cell))
    return found


def simulate(scenario: Scenario) -> Result:
    """Send each mail, and again until it is delivered or refused, or until the end of the scenario."""
    waiting = mails(scenario)
    result = Result(offered=len(waiting))
    free_at = [0.0] * scenario.cells  # when a cell will have done all that it has accepted
    seconds = CPU_SECONDS * scenario.scale
    events = [(mail.sent_at, number, 0) for number, mail in enumerate(waiting)]
    heapq.heapify(events)
    while events and events[0][0] <= scenario.until_seconds:
        at, number, tries = heapq.heappop(events)
        mail = waiting[number]
        sessions = max(0, math.ceil((free_at[mail.cell] - at) / CPU_SECONDS))
        if scenario.is_away(mail.cell, at) or sessions >= MAX_SESSIONS:
            result.deferred += tries == 0
            heapq.heappush(events, (at + mail.pause(tries + 1), number, tries + 1))
            continue
        free_at[mail.cell] = max(free_at[mail.cell], at) + seconds
        result.taken[mail.cell, int(at // WINDOW_SECONDS)] += 1
        _count(result, mail, at, free_at[mail.cell])
    result.queued = len(events)
    return result


def _count(result: Result, mail: Mail, at: float, done_at: float) -> None:
    if at > mail.sent_at:
        result.last_at = max(result.last_at, done_at)
    if at >= mail.expires_at:
        result.refused += 1
        return
    result.delivered += 1
    if done_at - mail.sent_at > DELAYED_SECONDS:
        result.delays_seconds.append(done_at - mail.sent_at)


def report() -> str:
    """Return a table of outages of several lengths."""
    head = (
        "| away for | mails in 90 minutes | not taken at once | refused: the address had expired "
        "| delivered late | half of them within, all within | queues of the senders empty "
        "| busiest ten minutes of a cell |"
    )
    rows = [_outage(Scenario(outage_seconds=60 * minutes)) for minutes in (5, 30, 60)]
    return "\n".join([head, "|---" * 8 + "|", *rows])


def _outage(scenario: Scenario) -> str:
    result = simulate(scenario)
    counts = result.offered, result.deferred, result.refused, len(result.delays_seconds)
    delays = sorted(result.delays_seconds) or [0.0]
    back_at = scenario.lost_at_seconds + scenario.outage_seconds
    cells = (
        f"{scenario.outage_seconds / 60:.0f} min",
        *(f"{count * scenario.scale:,}" for count in counts),
        f"{delays[len(delays) // 2] / 60:.0f} min, {delays[-1] / 60:.0f} min",
        f"{max(0.0, result.last_at - back_at) / 60:.0f} min after its return",
        f"{max(result.taken.values()) * scenario.scale * CPU_SECONDS / WINDOW_SECONDS:.0%} of a core",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write((table() if "--table" in sys.argv else report()) + "\n")
