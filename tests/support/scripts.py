"""Scripts in their own files, next to the module that uses them."""

import re
from pathlib import Path

# An export ends with the last semicolon before the next export or the end of the file; comments above an export belong
# to it.
_EXPORTS = re.compile(r"^export const (\w+) = (.+?);\n(?=\s*(?://[^\n]*\n)*(?:export |\Z))", re.MULTILINE | re.DOTALL)


def scripts_of(module):
    """Return the source of the functions exported by the ``.mjs`` file next to a module, for evaluation in a page."""
    return dict(_EXPORTS.findall(Path(module).with_suffix(".mjs").read_text()))
