"""Compare the processor time per message with an earlier commit: ``python tests/benchmarks/pairs.py COMMIT``.

Both daemons use the packages of this environment and receive messages in turn; the result is the ratio for each pair of
neighbouring runs. User and system time come from /proc, so the database's writes are included.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

from servers import Tmpmaild, compared, smtp_source

ROUNDS = int(os.environ.get("ROUNDS", "9"))
MAILS = 4000
SENDERS = 16
HERE = Path(__file__).parents[2]
os.environ["PATH"] += ":/usr/sbin:/sbin"


def cpu_per_mail(server, *, kept):
    """Return the microseconds of processor time that the daemon needs per message."""
    before = server.cpu_seconds()
    subprocess.run(smtp_source(server, MAILS, SENDERS, *["-d"] * kept), check=True)
    return (server.cpu_seconds() - before) / MAILS * 1e6


def unpack(commit, folder):
    archive = subprocess.run(["git", "archive", commit], cwd=HERE, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def main():
    commit = sys.argv[1]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name, ExitStack() as running:
        folder = Path(name)
        unpack(commit, folder / "earlier")
        trees = {"now": HERE, "earlier": folder / "earlier"}
        now, earlier = (
            running.enter_context(Tmpmaild(folder / f"data-{which}", PYTHONPATH=str(tree)))
            for which, tree in trees.items()
        )
        for kept, title in ((False, "new"), (True, "kept")):
            for server in (now, earlier):
                cpu_per_mail(server, kept=kept)
            pairs = [(cpu_per_mail(now, kept=kept), cpu_per_mail(earlier, kept=kept)) for _ in range(ROUNDS)]
            ratios, mine, theirs = compared(pairs)
            print(
                f"CPU per message / {commit}, {title} connections {ratios}; {mine:.0f} against {theirs:.0f} µs; {ROUNDS} pairs)",
                flush=True,
            )


main()
