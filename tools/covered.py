"""Runs both kinds of tests and reports the coverage of lines and branches, including the programs that they start.

It fails if a package's coverage is below its bound, or if a test fails. A few tests measure time and memory, so the
overhead of coverage may also make them fail. ``build/coverage`` contains HTML pages that show uncovered lines, and a
table of all files.

make coverage                                          all tests: 15 minutes
.venv/bin/python tools/covered.py tests/smtp           the coverage of selected tests, without bounds
.venv/bin/python tools/covered.py --again              print the table again
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

KINDS: Final = ("not needs", "needs")
ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build/coverage"
BOUNDS: Final = {"all": 98.9, "smtp": 99.0, "inboxes": 99.0, "storage": 99.0, "senders": 99.0, "webhooks": 97.5}
"""The minimum line coverage in percent. The goal is 99 for each package, so these values are only ever increased.

In ``webhooks``, the coverage that Python 3.11 reports is too low: it stops tracing frames that wait for
``anyio.connect_tcp``.
"""


def measure(*tests: str) -> int:
    """Run each kind of test under coverage; return how many of the two runs failed."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    FOLDER.chmod(0o777)  # processes that switch to another user also write here
    return sum(_coverage("run", "-m", "pytest", "-q", "-m", kind, *tests) not in (0, 5) for kind in KINDS)


def _coverage(*arguments: str) -> int:
    environ = os.environ | {"COVERAGE_FILE": str(FOLDER / "data"), "COVERAGE_RCFILE": str(ROOT / "pyproject.toml")}
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode  # noqa: S603 - no untrusted input


def shares(report: dict[str, dict[str, dict[str, int]]]) -> dict[str, tuple[float, float]]:
    """Return the percentages of covered lines and branches for each package and in total."""
    counts = Counter[tuple[str, str]]()
    for path, of_file in report.items():
        parts = Path(path).parts
        package = parts[1] if len(parts) > 2 else "shared"  # noqa: PLR2004 - tmpmaild/PACKAGE/MODULE
        for name in ("covered_lines", "num_statements", "covered_branches", "num_branches"):
            counts[package, name] += of_file["summary"][name]
            counts["all", name] += of_file["summary"][name]

    def share(package: str, reached: str, there: str) -> float:
        return 100 * counts[package, reached] / (counts[package, there] or 1)

    return {
        package: (share(package, "covered_lines", "num_statements"), share(package, "covered_branches", "num_branches"))
        for package in sorted({package for package, _ in counts})
    }


def main(*tests: str) -> int:
    """Print the table; return the total number of failed runs and of packages below their bounds."""
    wrong = 0
    if tests != ("--again",):
        wrong = measure(*tests)
        _coverage("combine", "--quiet")
    _coverage("html", "--quiet", "--directory", str(FOLDER))
    _coverage("json", "--quiet", "-o", str(FOLDER / "report.json"))
    _coverage("report", "--skip-covered", "--show-missing")
    report = json.loads((FOLDER / "report.json").read_text("utf-8"))
    sys.stdout.write("\n| package | lines | branches | bound of lines |\n|---|---|---|---|\n")
    for package, (lines, branches) in shares(report["files"]).items():
        bound = BOUNDS.get(package, 0) if tests in ((), ("--again",)) else 0
        wrong += lines < bound
        sys.stdout.write(f"| {package} | {lines:.1f} % | {branches:.1f} % | {bound or ''} |\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
