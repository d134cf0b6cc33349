"""Make ``tmpmaild/client/sync.py`` from ``aio.py``: the same client without ``await``.

``make client`` runs it. What differs in substance between the two is in ``tmpmaild/client/transport.py``; here are only
words. ruff then removes the imports that are not used any more, and sets the line breaks.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tmpmaild/client"
SOURCE = FOLDER / "aio.py"
TARGET = FOLDER / "sync.py"

HEADER = "# Made from aio.py by tools/sync_client.py: change aio.py, then run `make client`.\n"

SENTENCES = {
    "The client for code with ``await``": "The client for code without ``await``",
    "A client belongs to one event loop.": "Threads may share a client.",
}
"""Documentation that says something else of the client without ``await``."""

PATTERNS = {
    r"  # noqa: ASYNC.*": "",
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\bAwaitable\[([^\[\]]+)\]": r"\1",
    r"\bAsyncGenerator\[(.+), None\]": r"Generator[\1, None, None]",
    r"\bAsyncGenerator\b": "Generator",
    r"\bAsync(?=[A-Z])": "",
    r"\basync_(?=[a-z])": "",
    r"\b__a(?=enter__|exit__)": "__",
    r"\ba(?=close\b|closing\b|read\()": "",
    r"\banext\b": "next",
    r"\banyio\.sleep\b": "time.sleep",
}
"""Names and syntax, in this order."""


def converted(source: str) -> str:
    """Return the text of ``sync.py`` for one of ``aio.py``. Raises ValueError if a sentence to replace is missing."""
    for sentence, other in SENTENCES.items():
        if sentence not in source:
            raise ValueError(f"{SOURCE.name} does not say {sentence!r} any more")
        source = source.replace(sentence, other)
    for pattern, replacement in PATTERNS.items():
        source = re.sub(pattern, replacement, source)
    source = _ruff(HEADER + source, "check", "--select=F401,I", "--fix-only", "--quiet")
    return _ruff(source, "format", "--quiet")


def _ruff(source: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, f"--stdin-filename={TARGET}", "-"]
    return subprocess.run(command, input=source, capture_output=True, check=True, text=True).stdout  # noqa: S603 - ours


if __name__ == "__main__":
    TARGET.write_text(converted(SOURCE.read_text()))
