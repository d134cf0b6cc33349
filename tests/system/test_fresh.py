"""The commands in README.md on freshly installed machines: Debian 12 and 13, as root and as a user.

At first, only the packages listed in the README are installed; later, also those that ``make test-peers`` lists.
"""

import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import chroot_image
import machines
from blocks import ROOT
from freshmachines import USER, fresh

README = (ROOT / "README.md").read_text()
PACKAGES = re.search(r"`apt install ([^`]+)`", README)[1]
NAMES = dict(zip(chroot_image.SUITES, ("Debian 12", "Debian 13"), strict=True))
# The script stops the daemon instead of stopping make, so the exit code is the daemon's.
RUN = Path(__file__).with_name("fresh_run.sh").read_text()

pytestmark = pytest.mark.skipif(not os.environ.get("FRESH"), reason="takes half an hour: make proof WHAT=fresh")


class Rows:
    """The commands run on one machine; ``failed`` contains the output of failed commands."""

    def __init__(self, machine, user, name, figure):
        self._machine, self._user, self._name, self._figure = machine, user, name, figure
        self.failed = []

    def run(self, what, script):
        begun = time.monotonic()
        done = self._machine.run(self._user, script, "tmpmaild")
        counts = Counter()
        for summary in re.findall(r"^=+ (.+) in [\d.]+s.*=+$", done.stdout, re.MULTILINE):
            for number, kind in re.findall(r"(\d+) (passed|failed|error|skipped)", summary):
                counts[kind] += int(number)
        found = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "error", "skipped"))
        ended = f"exit code {done.returncode}; {found}; {time.monotonic() - begun:.0f} s"
        self._figure(f"{self._name}, {self._user}: {what}", ended, "exit code 0; 0 failed, 0 error")
        sys.stdout.write(f"\n{self._name}, {self._user}: {what}: {ended}\n")  # shows progress in a long test
        if done.returncode or counts["failed"] or counts["error"]:
            broken = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
            self.failed.append("\n".join([what, ended, *broken, done.stdout[-20_000:]]))
        return done.stdout


@pytest.mark.parametrize("user", ["root", USER])
@pytest.mark.parametrize("suite", chroot_image.SUITES)
def test_the_readme_commands_pass(suite, user, figure):
    if reason := machines.missing():
        pytest.skip(reason)
    assert "`curl`" in README
    with fresh(suite) as machine:
        rows = Rows(machine, user, NAMES[suite], figure)
        machine.install(PACKAGES)
        machine.must(user, "git clone --quiet /tmpmaild.bundle tmpmaild")
        rows.run("make test", "make test")
        said = rows.run("make test-peers, with nothing installed for it", "make test-peers")
        machine.install("curl")
        rows.run("make run", RUN)
        if user == "root":
            rows.run(".ci/run", ".ci/run")
        else:
            machine.install(re.search(r"^  apt-get install (.+)$", said, re.MULTILINE)[1])
            rows.run("make test-peers, with what it asked for", "make test-peers ARGS=--all-peers")
    assert not rows.failed, "\n\n".join(rows.failed)
