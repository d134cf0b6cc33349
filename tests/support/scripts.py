"""Scripts in files of their own, beside the module that uses them."""

import re
from pathlib import Path

# To the semicolon before the next export or the end; comments above an export belong to it.
_EXPORTS = re.compile(r"^export const (\w+) = (.+?);\n(?=\s*(?://[^\n]*\n)*(?:export |\Z))", re.MULTILINE | re.DOTALL)


def scripts_of(module):
    """Return the functions that the ``.mjs`` file beside a module exports: their source, to be evaluated in a page."""
    return dict(_EXPORTS.findall(Path(module).with_suffix(".mjs").read_text()))
