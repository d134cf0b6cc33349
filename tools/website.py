"""Builds the documentation as a website in build/site/html, from copies of the pages listed in zensical.toml.

Only the indentation of list items is changed in the copies. Zensical stops with an error if a link's target page or
heading does not exist.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "build/site/pages"
FILES: Final = (
    *("*.md", "LICENSE", "Containerfile", "config.example.toml"),
    *("clients/typescript/*.md", "docs/**/*", "tests/examples/*/*"),
)
"""The pages, and the other files that they link to."""


def for_site(markdown: str) -> str:
    """Return a page in which the content of list items is indented by four spaces, although GitHub only needs three."""
    return "".join(_moved_in(markdown))


def _moved_in(markdown: str) -> Iterator[str]:
    is_code = False
    for line in markdown.splitlines(keepends=True):
        is_code ^= line.startswith("```")
        yield f" {line}" if not is_code and re.match(r"   \s*\S", line) else line


def main() -> None:
    """Copy the pages and build the site."""
    shutil.rmtree(PAGES.parent, ignore_errors=True)
    for path in (path for pattern in FILES for path in ROOT.glob(pattern) if path.is_file()):
        target = PAGES / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for page in PAGES.rglob("*.md"):
        page.write_text(for_site(page.read_text("utf-8")), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - no untrusted input


if __name__ == "__main__":
    main()
