"""Make the modules ``sync….py`` of the client from those that are named ``aio….py``, without ``await``.

``make client`` runs it. What differs in substance between the two is in ``tmpmaild/client/transport.py``; here are only
words. ruff then removes the imports that are not used any more, and sets the line breaks.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tmpmaild/client"
MADE = {"aio.py": "sync.py", "aiodriver.py": "syncdriver.py"}

HEADER = "# Made from {source} by tools/sync_client.py: change that one, then run `make client`.\n"

SENTENCES = {
    "aio.py": {
        "The client for code with ``await``": "The client for code without ``await``",
        "A client belongs to one event loop.": "Threads may share a client.",
    },
    "aiodriver.py": {"for code with ``await``": "for code without ``await``"},
}
"""Documentation that says something else of the client without ``await``."""

PATTERNS = {
    r"  # noqa: ASYNC.*": "",
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\bAwaitable\[([^\[\]]+)\]": r"\1",
    r"\bAsyncGenerator\[(.+), None\]": r"Generator[\1, None, None]",
    r"\bAsyncGenerator\b": "Generator",
    r"\baio(?=driver\b)": "sync",
    r"\bAsync(?=[A-Z])": "",
    r"\basync_(?=[a-z])": "",
    r"\b__a(?=enter__|exit__)": "__",
    r"\ba(?=close\b|closing\b|read\()": "",
    r"\banext\b": "next",
    r"\banyio\.sleep\b": "time.sleep",
}
"""Names and syntax, in this order."""


def converted(name: str, source: str) -> str:
    """Return the text that is made of a source of this name. Raises ValueError if a sentence to replace is missing."""
    for sentence, other in SENTENCES[name].items():
        if sentence not in source:
            raise ValueError(f"{name} does not say {sentence!r} any more")
        source = source.replace(sentence, other)
    for pattern, replacement in PATTERNS.items():
        source = re.sub(pattern, replacement, source)
    made = HEADER.format(source=name) + source
    made = _ruff(MADE[name], made, "check", "--select=F401,I", "--fix-only", "--quiet")
    return _ruff(MADE[name], made, "format", "--quiet")


def _ruff(name: str, source: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, f"--stdin-filename={FOLDER / name}", "-"]
    return subprocess.run(command, input=source, capture_output=True, check=True, text=True).stdout  # noqa: S603 - ours


if __name__ == "__main__":
    for name, target in MADE.items():
        (FOLDER / target).write_text(converted(name, (FOLDER / name).read_text()))
