"""Tests that are too slow for every run: ``make proof`` runs them, ``make proof QUICK=1`` runs shorter versions.

Each test records its measurements with ``figure``; a table at the end lists all measurements.
"""

import os
import platform
import tempfile
from pathlib import Path

import pytest

from daemons import finished

IS_QUICK = bool(os.environ.get("QUICK"))


def pytest_terminal_summary(terminalreporter):
    """Write the table of all measurements, with the commit and the machine."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    rows = [value for report in reports for name, value in report.user_properties if name == "figure"]
    if not rows:
        return
    terminalreporter.section("measurements" + (" of a quick run" if IS_QUICK else ""))
    for proof, found, wanted in rows:
        terminalreporter.line(f"| {proof} | {found} | {wanted} |")
    terminalreporter.line(f"commit {_commit()}; {_machine()}")


def _commit():
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    return finished(command, cwd=Path(__file__).parent).stdout.strip()


def _machine():
    names = [
        line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")
    ]
    model = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{os.cpu_count()} cores of {model}, {platform.platform(terse=True)}, Python {platform.python_version()}"


@pytest.fixture(scope="session")
def amount():
    """Return a function that chooses between the full amount and a smaller amount for quick runs."""
    return lambda whole, quick: quick if IS_QUICK else whole


@pytest.fixture
def figure(record_property):
    """Return a function that records a table row: the tested property, the result, and the requirement."""

    def note(proof, found, wanted):
        record_property("figure", (proof, found, wanted))

    return note


@pytest.fixture
def disk():
    """Return a folder on a disk, because pytest's folders may be in memory, where an fsync costs nothing."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PROOF_DIR", "/var/tmp"), prefix="tmpmaild-") as folder:
        yield Path(folder)
