"""Joins the modules of a script into one, so that a browser makes one request instead of forty.

On a network with a delay of 0.4 s, six requests at a time, forty of them take three seconds. This is no JavaScript
parser: it reads the forms of ``import`` and ``export`` that the modules here use, and refuses any other.
"""

import re
from pathlib import Path

from tmpmaild.http.minify import UnreadableScriptError, minify_script

_IMPORT = re.compile(r'^import \{ ?(?:\w+, )*\w+ ?\} from "\./([\w-]+)\.js";$')
_OUTER_IMPORT = re.compile(r'^import \w+ from "\./[\w-]+\.js";$')
_EXPORT = re.compile(r"^export ((?:const|class|function|async function) \w+.*)$", re.DOTALL)
_declared = re.compile(r"^(?:const|let|class|function|async function) +(?:(\w+)|[\[{]([\w, ]+))").match


def bundle(folder: Path, name: str) -> str:
    """Return the module ``name`` with all that it imports as one module, without comments and spaces.

    Raises ``UnreadableScriptError`` for another form of ``import`` or ``export`` (a default import stays: the server
    chooses that file by the reader's language), for modules that import each other in a circle, and for a name that two
    modules declare, since all of them share one scope.
    """
    return minify_script(join(folder, name))


def join(folder: Path, name: str) -> str:
    """Return what ``bundle`` does, before anything is left out."""
    found = _Bundle(folder)
    found.add(name, ())
    return "\n".join([*found.outer_imports, *found.lines, ""])


class _Bundle:
    """The modules joined so far, in the order in which a browser would run them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: set[str] = set()
        self._declarers: dict[str, str] = {}
        self.outer_imports: dict[str, None] = {}
        self.lines: list[str] = []

    def add(self, name: str, importers: tuple[str, ...]) -> None:
        """Join a module after those that it imports."""
        if name in importers:
            raise UnreadableScriptError(f"{name}.js imports itself by way of {', '.join(importers)}")
        if name in self._added:
            return
        self._added.add(name)
        kept: list[str] = []
        for line in (self._folder / f"{name}.js").read_text().splitlines():
            if imported := _IMPORT.match(line):
                self.add(imported[1], (*importers, name))
            elif _OUTER_IMPORT.match(line):
                self.outer_imports[line] = None
            else:
                kept.append(self._line(line, name))
        self.lines += kept

    def _line(self, line: str, name: str) -> str:
        """Return a line without ``export``."""
        if exports := _EXPORT.match(line):
            line = exports[1]
        if line.startswith(("import", "export")) or line.count("`") % 2:
            raise UnreadableScriptError(f"{name}.js: {line}")
        if found := _declared(line):
            for declared in (found[1] or found[2]).replace(",", " ").split():
                if self._declarers.setdefault(declared, name) != name:
                    raise UnreadableScriptError(
                        f"{name}.js: {declared} is a name in {self._declarers[declared]}.js too"
                    )
        return line
