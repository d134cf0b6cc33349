"""Bundles and minifies the scripts and style sheets of the web pages.

Comments, indentation and spaces are removed, but names are kept. This module does not contain a full parser. Each
function supports the syntax that our own files use, and rejects any other syntax that it recognises.
``test_bundling_minified.py`` and ``test_served_files.py`` check that a JavaScript parser and a browser interpret both
forms identically.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_IMPORT = re.compile(r'^import \{ ?((?:\w+, )*\w+) ?\} from "\./([\w-]+)\.js";$')
_later_imports = re.compile(r'\blater\("([\w-]+)"\)').findall  # later() in api.js
_OUTER_IMPORT = re.compile(r'^import \w+ from "\./[\w-]+\.js";$')
_EXPORT = re.compile(r"^export ((?:const|class|function|async function) \w+.*)$", re.DOTALL)
_declared = re.compile(r"^(?:const|let|class|function|async function) +(?:(\w+)|[\[{]([\w, ]+))").match
_PARTS = re.compile(
    r"""
    (?P<kept>
        "(?:[^"\\\n]|\\.)*"
        # A template; in its ${…} may be one level of braces, and templates without parts of their own in braces.
      | `(?:[^`\\$]|\\.|\$(?!\{)|\$\{(?:[^`{}]|`[^`]*`|\{[^{}]*\})*\})*`
        # A regular expression, where a value begins; elsewhere the sign divides.
      | (?:(?<=[(\[!])|(?<=[=,:?&|({]\ )|(?<=return\ ))/(?![/*\ ])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/
    )
    | (?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)
    | (?P<unread>["'`])
    """,
    re.DOTALL | re.VERBOSE,
)
_is_of_a_word = re.compile(r"[\w$#]").match
_CONTINUATIONS = ("{([,;", "})],;.?:")
"""A line end never terminates a statement after a character in the first string or before a character in the second."""
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_TEXT = re.compile(r'("[^"]*")')
_SPACES = re.compile(r"\s+")
_AROUND_SIGNS = re.compile(r"\s*([{};,])\s*")
_AFTER_COLON = re.compile(r"(?<=[\w-]:) +")


def join(folder: Path, name: str) -> dict[str, str]:
    """Return the unminified scripts for a page that loads the module ``name``, keyed by name.

    The first script is ``name`` joined with all its imports. Each module that is loaded with ``later()`` becomes a
    separate script. It contains the imports that are not in the first script, and imports the rest from it.

    Raises ``UnreadableScriptError`` for an unsupported form of ``import`` or ``export``, for circular imports, for a
    module that two later scripts would contain, and for a name that two modules declare. All modules of a script share
    one scope. Default imports are kept, because the server selects the imported file by the reader's language.
    """
    first = _Bundle(folder, name)
    later: dict[str, _Bundle] = {}
    wanted = list(first.later)
    for one in wanted:
        if one not in later and one not in first.added:
            later[one] = _Bundle(folder, one, first)
            wanted += later[one].later
    modules = [module for bundle in later.values() for module in bundle.added]
    if twice := {module for module in modules if modules.count(module) > 1}:
        raise UnreadableScriptError(
            f"{', '.join(sorted(twice))}.js: contained in several scripts that are loaded later"
        )
    shared = {needed for bundle in later.values() for needed in bundle.needed}
    return {name: first.text(exported=shared)} | {one: bundle.text() for one, bundle in later.items()}


class _Bundle:
    """A module joined with all its imports, in the order in which a browser would run them."""

    def __init__(self, folder: Path, name: str, first: "_Bundle | None" = None) -> None:
        self._folder = folder
        self.name = name
        self._first = first
        self._declarers: dict[str, str] = {}
        self._exports: list[str] = []
        self._outer_imports: dict[str, None] = {}
        self._lines: list[str] = []
        self.added: set[str] = set()
        self.needed: set[str] = set()
        """Names that are imported from the first script."""
        self.later: list[str] = []
        """Modules that the script loads with ``later()``."""
        self._add(name, ())

    def text(self, exported: Iterable[str] = ()) -> str:
        """Return the script.

        The first script exports ``exported``; a later script has the same exports as its module.
        """
        names = self._exports if self._first else sorted(exported)
        lines = [*self._outer_imports, *self._lines, ""]
        if self._first and self.needed:
            lines.insert(0, f'import {{ {", ".join(sorted(self.needed))} }} from "./{self._first.name}.js";')
        if names:
            lines.insert(-1, f"export {{ {', '.join(names)} }};")
        return "\n".join(lines)

    def _add(self, name: str, importers: tuple[str, ...]) -> None:
        """Add a module after its imports."""
        if name in importers:
            raise UnreadableScriptError(f"{name}.js imports itself through {', '.join(importers)}")
        if name in self.added:
            return
        self.added.add(name)
        kept: list[str] = []
        for line in (self._folder / f"{name}.js").read_text("utf-8").splitlines():
            if imported := _IMPORT.match(line):
                self._import(imported[2], imported[1].split(", "), (*importers, name))
            elif _OUTER_IMPORT.match(line):
                self._outer_imports[line] = None
            else:
                kept.append(self._line(line, name))
                self.later += _later_imports(line)
        self._lines += kept

    def _import(self, name: str, names: Sequence[str], importers: tuple[str, ...]) -> None:
        if self._first and name in self._first.added:
            self.needed.update(names)
        else:
            self._add(name, importers)

    def _line(self, line: str, name: str) -> str:
        """Return a line without ``export``."""
        if exports := _EXPORT.match(line):
            line = exports[1]
            if name == self.name and (exported := _declared(line)):
                self._exports.append(exported[1])
        if line.startswith(("import", "export")) or line.count("`") % 2:
            raise UnreadableScriptError(f"{name}.js: {line}")
        if found := _declared(line):
            for declared in (found[1] or found[2]).replace(",", " ").split():
                if self._declarers.setdefault(declared, name) != name:
                    raise UnreadableScriptError(
                        f"{name}.js: {declared} is also declared in {self._declarers[declared]}.js"
                    )
        return line


class UnreadableScriptError(Exception):
    """Raised if a script contains syntax that this project's tools do not support."""


def minify_script(script: str) -> str:
    """Return an equivalent, shorter JavaScript module. Raises ``UnreadableScriptError``."""
    return _PARTS.sub(_shorten, script).strip() + "\n"


def _shorten(part: re.Match[str]) -> str:
    """Return a string or regular expression unchanged, or only the necessary space between two tokens."""
    if part["unread"]:
        raise UnreadableScriptError(part.string[part.start() : part.start() + 80])
    if part["kept"]:
        return part["kept"]
    before, after = part.string[max(0, part.start() - 1) : part.start()], part.string[part.end() : part.end() + 1]
    if "\n" in part["space"] and before not in _CONTINUATIONS[0] and after not in _CONTINUATIONS[1]:
        return "\n"
    is_needed = (_is_of_a_word(before) and _is_of_a_word(after)) or before + after in ("++", "--", "//")
    return " " if is_needed else ""


def minify_style(style: str) -> str:
    """Return an equivalent style sheet that keeps only the spaces that may be significant."""
    parts = _STYLE_TEXT.split(_STYLE_COMMENT.sub("", style))
    parts[::2] = map(_without_spaces, parts[::2])
    return "".join(parts).strip() + "\n"


def _without_spaces(part: str) -> str:
    part = _AROUND_SIGNS.sub(r"\1", _SPACES.sub(" ", part))
    return _AFTER_COLON.sub("", part).replace(";}", "}")
