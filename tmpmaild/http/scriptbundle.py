"""Joins the modules of a script into one, so that a browser makes one request instead of forty.

On a network with a delay of 0.4 s, six requests at a time, forty of them take three seconds. This is no JavaScript
parser: it reads the forms of ``import`` and ``export`` that the modules here use, and refuses any other.
"""

import re
from pathlib import Path

from tmpmaild.http.minify import UnreadableScriptError, minify_script

_IMPORT = re.compile(r'^import \{ ?([\w$, ]+?) ?\} from "\./([\w-]+)\.js";$')
_OUTER_IMPORT = re.compile(r'^import \w+ from "\./[\w-]+\.js";$')
_EXPORT = re.compile(r"^export ((?:const|class|function|async function) (\w+).*)$", re.DOTALL)


def bundle(folder: Path, name: str) -> str:
    """Return the module ``name`` with all that it imports as one module.

    Each becomes a function that is called once, in the order in which a browser would run them. A default import stays
    an import of the whole: the server chooses that file by the reader's language. Comments and spaces are left out.

    Raises ``UnreadableScriptError`` for another form of ``import`` or ``export`` or for modules in a circle.
    """
    return minify_script(join(folder, name))


def join(folder: Path, name: str) -> str:
    """Return what ``bundle`` does, before anything is left out."""
    found = _Bundle(folder)
    found.add(name, ())
    return "\n".join([*found.outer_imports, *found.functions, ""])


class _Bundle:
    """The modules joined so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: set[str] = set()
        self.outer_imports: dict[str, None] = {}
        self.functions: list[str] = []

    def add(self, name: str, importers: tuple[str, ...]) -> None:
        """Join a module after those that it imports."""
        if name in importers:
            raise UnreadableScriptError(f"{name}.js imports itself by way of {', '.join(importers)}")
        if name in self._added:
            return
        self._added.add(name)
        lines: list[str] = []
        exported: list[str] = []
        for line in (self._folder / f"{name}.js").read_text().splitlines():
            written = self._line(line, exported, (*importers, name), name)
            if written is not None:
                lines.append(written)
        body = "\n".join(lines)
        self.functions.append(f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();")

    def _line(self, line: str, exported: list[str], importers: tuple[str, ...], name: str) -> str | None:
        """Return what becomes of a line: no text spans lines. None for one left out."""
        if imported := _IMPORT.match(line):
            self.add(imported[2], importers)
            return f"const {{ {imported[1].replace(' as ', ': ')} }} = ${imported[2]};"
        if _OUTER_IMPORT.match(line):
            self.outer_imports[line] = None
            return None
        if exports := _EXPORT.match(line):
            exported.append(exports[2])
            return exports[1]
        if line.startswith(("import", "export")) or line.count("`") % 2:
            raise UnreadableScriptError(f"{name}.js: {line}")
        return line
