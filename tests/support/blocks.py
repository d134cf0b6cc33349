"""The shell blocks in the documentation, unchanged."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    page: str
    heading: str
    script: str


def shell_blocks(page):
    """Return the shell blocks in a page, each with the heading above it; ``page`` is a path in the repository."""
    heading, found = "", []
    for match in re.finditer(r"^##+ ([^\n]+)$|^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        heading = match[1] or heading
        if match[2]:
            found.append(Block(page, heading, match[2]))
    return found
