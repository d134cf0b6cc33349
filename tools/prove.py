"""Runs system tests by name, one after the other: ``make proof WHAT="powercut stop"``. Stops at the first failure.

Without names (``""``), all modules of tests/system run, except the tests that create whole machines (``ENVIRON``).
``--list`` shows the purpose, the duration and the requirements of each test; this option only needs Python's standard
library.

python tools/prove.py --list | "NAMES" [ARGUMENTS …]
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
MACHINES: Final = "root, systemd-container, debootstrap, network"


class Proof(NamedTuple):
    """A command or modules of tests/system, with a purpose, an approximate duration, and requirements beyond Python."""

    run: str
    shows: str
    time: str
    needs: str = ""

    def command(self) -> list[str]:
        """Return the command line."""
        first, *rest = self.run.split()
        if first == "npm":
            return [first, *rest]
        if first.endswith(".py"):
            return [sys.executable, first, *rest]
        if first.startswith("-"):
            return [sys.executable, "-m", "pytest", first, *rest]
        return [sys.executable, "-m", "pytest", "-n0", "-rs", *map("tests/system/test_{}.py".format, (first, *rest))]


PROOFS: Final = {
    "promise": Proof("promise webhooks", "kill -9 under load loses no mail and no webhook calls", "3 min"),
    "powercut": Proof("powercut", "a power cut loses no mail", "5 min", "strace"),
    "faults": Proof("faults full postfix", "a failing or full disk loses no mail", "5 min", "root, strace, postfix"),
    "erasure": Proof(
        "erasure erasure_disk", "expired mail remains in no file or block", "5 min", "postgresql, root, e2fsprogs"
    ),
    "memory": Proof("memory", "half a million addresses leak no memory", "3 min"),
    "several": Proof("several_daemons two_daemons failover", "daemons on one PostgreSQL", "5 min", "postgresql"),
    "stop": Proof("stop", "the daemon stops within five seconds", "1 min"),
    "crowds": Proof("slow_clients", "slow clients do not delay other clients", "3 min", "ulimit -Hn 16000"),
    "bombs": Proof("bombs largest_mail", "the cost of one message, and its effect on other messages", "3 min"),
    "description": Proof("description", "responses to thousands of requests match the API description", "5 min"),
    "effects": Proof("effects", "tests of new features fail without the features", "1 min"),
    "types": Proof("types", "mypy detects a storage signature that differs between caller and callee", "5 min"),
    "soak": Proof("soak", "a steady load leaks no resources; MINUTES=120", "30 min"),
    "image": Proof("image", "the image, built without a registry", "5 min", "root, debootstrap, network"),
    "site": Proof("site", "the documentation as a website", "1 min", "chromium"),
    "wheel": Proof("wheel oldest", "the contents of a wheel, and the oldest dependencies", "5 min", "network"),
    "release": Proof(
        "release", "two builds of the same commit are identical", "3 min", "npm, binutils-aarch64-linux-gnu"
    ),
    "systemd": Proof("booted booted_several install", "units and shell blocks on Debian 12 and 13", "20 min", MACHINES),
    "deb": Proof(
        "deb", "the package: install, upgrade, move, purge, Debian's own upgrade", "20 min", f"{MACHINES}, lintian"
    ),
    "fresh": Proof("fresh", "the README's commands on a bare Debian 12 and 13", "30 min", MACHINES),
    "tests": Proof("--proof", "all tests, including slow tests, on both engines", "15 min", "as make test-peers"),
    "properties": Proof("-m hypothesis --hypothesis-profile=thorough", "1000 examples for each", "15 min"),
    "languages": Proof(
        "-rs --proof tests/pytest_plugin/test_pages_languages.py",
        "the pages for languages without a client",
        "1 min",
        "go, java, csharp, php, ruby, bats",
    ),
    "access": Proof(
        "-rs --proof tests/browser/inbox/test_access_languages.py",
        "axe-core finds nothing in 14 languages, on four screens, in light and dark mode",
        "10 min",
        "chromium",
    ),
    "attack": Proof("tests/benchmarks/attacks.py", "the effect of attacks on legitimate clients; ARGS=7b", "10 min"),
    "mutants": Proof("tools/mutants.py", "how many small mutations the tests detect; ARGS=mime", "60 min"),
    "extension": Proof(
        "extension",
        "the extension in two browsers: six forms, faults, attacks",
        "6 min",
        "chromium, firefox, xvfb, xdotool, npm, network",
    ),
    "typescript": Proof("npm --prefix clients/typescript run check", "the client is built and linted", "1 min", "npm"),
}
ENVIRON: Final = {"systemd": "BOOT", "deb": "BOOT", "fresh": "FRESH"}
"""Environment variables that enable these tests: they create whole machines, so they are skipped by default."""


def listed() -> str:
    """Return a line of text for each proof."""
    width = max(len(proof.shows) for proof in PROOFS.values())
    rows = (f"  {name:12} {one.shows:{width}}  {one.time:>6}  {one.needs}" for name, one in PROOFS.items())
    return "\n".join(line.rstrip() for line in rows) + "\n"


def main(names: str, *arguments: str) -> None:
    """Run the system tests one after the other; stop at the first failure."""
    if names == "--list":
        sys.stdout.write(listed())
        return
    if unknown := [name for name in names.split() if name not in PROOFS]:
        sys.exit(f"no such proof: {', '.join(unknown)}. There are:\n{listed()}")
    environ = os.environ | {ENVIRON[name]: "1" for name in names.split() if name in ENVIRON}
    commands = [PROOFS[name].command() for name in names.split()]
    for command in commands or [[sys.executable, "-m", "pytest", "-n0", "-rs", "tests/system"]]:
        status = subprocess.run([*command, *arguments], cwd=ROOT, env=environ, check=False).returncode  # noqa: S603 - ours
        if status:
            sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
