"""Generates the module ``sync.py`` of the client from ``aio.py``, without ``await``.

Only names and texts are replaced here; ``tmpmaild/client/transport.py`` handles all other differences between the two
modules. ruff then removes unused imports and formats the code.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tmpmaild/client"
HEADER = "# Generated from aio.py by tools/sync_client.py: edit aio.py, then run `python tools/sync_client.py`.\n"

SENTENCES = {
    "The client for code with ``await``": "The client for code without ``await``",
    "A client belongs to one event loop.": "Threads may share a client.",
}
"""Sentences that are different in the documentation of the client without ``await``."""

PATTERNS = {
    r"  # noqa: ASYNC.*": "",
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\bAwaitable\[([^\[\]]+)\]": r"\1",
    r"\bAsyncGenerator\[(.+), None\]": r"Generator[\1, None, None]",
    r"\bAsyncGenerator\b": "Generator",
    r"\bAsync(?=[A-Z])": "",
    r"\b__a(?=enter__|exit__)": "__",
    r"\ba(?=close\b|closing\b|iter_bytes\b|read\()": "",
    r"\banext\b": "next",
    r"\banyio\.sleep\b": "time.sleep",
}
"""Replacements for names and syntax, in this order."""

_FORMAT = ("--quiet", "--config=format.skip-magic-trailing-comma=true")  # rewraps lines that have become shorter


def converted(source: str) -> str:
    """Return the text of ``sync.py``. Raises ValueError if a sentence to be replaced is missing."""
    for sentence, other in SENTENCES.items():
        if sentence not in source:
            raise ValueError(f"cannot find {sentence!r} in aio.py")
        source = source.replace(sentence, other)
    for pattern, replacement in PATTERNS.items():
        source = re.sub(pattern, replacement, source)
    return _ruff(_ruff(HEADER + source, "check", "--select=F401,I", "--fix-only", "--quiet"), "format", *_FORMAT)


def _ruff(source: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, f"--stdin-filename={FOLDER / 'sync.py'}", "-"]
    return subprocess.run(command, input=source, capture_output=True, check=True, encoding="utf-8").stdout  # noqa: S603 - ours


if __name__ == "__main__":
    (FOLDER / "sync.py").write_text(converted((FOLDER / "aio.py").read_text("utf-8")), encoding="utf-8")
