"""Makes scripts and style sheets smaller: comments, indentation and spaces are left out, names stay as they are.

Neither function is a parser: each reads the forms that our own files use and refuses any other that it recognises.
``test_minify.py`` and ``test_served_files.py`` compare what a JavaScript parser and a browser read in both forms.
"""

import re
from pathlib import Path

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
_GOES_ON = ("{([,;", "})],;.?:")
"""After the ones and before the others a line end is only a space: no statement ends there."""

_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_TEXT = re.compile(r'("[^"]*")')
_SPACES = re.compile(r"\s+")
_AROUND_SIGNS = re.compile(r"\s*([{};,])\s*")
_AFTER_COLON = re.compile(r"(?<=[\w-]:) +")


class UnreadableScriptError(Exception):
    """A script has something that this project's tools do not read."""


def minify_script(script: str) -> str:
    """Return a JavaScript module that means the same. Raises ``UnreadableScriptError``."""
    return _PARTS.sub(_shorten, script).strip() + "\n"


def _shorten(part: re.Match[str]) -> str:
    """Return what stays of a text or regular expression (all), or of the space between two tokens."""
    if part["unread"]:
        raise UnreadableScriptError(part.string[part.start() : part.start() + 80])
    if part["kept"]:
        return part["kept"]
    before, after = part.string[max(0, part.start() - 1) : part.start()], part.string[part.end() : part.end() + 1]
    if "\n" in part["space"] and before not in _GOES_ON[0] and after not in _GOES_ON[1]:
        return "\n"
    is_needed = (_is_of_a_word(before) and _is_of_a_word(after)) or before + after in ("++", "--", "//")
    return " " if is_needed else ""


def minify_style(style: str) -> str:
    """Return a style sheet that means the same: of spaces only those stay that may mean something."""
    parts = _STYLE_TEXT.split(_STYLE_COMMENT.sub("", style))
    parts[::2] = map(_without_spaces, parts[::2])
    return "".join(parts).strip() + "\n"


def _without_spaces(part: str) -> str:
    part = _AROUND_SIGNS.sub(r"\1", _SPACES.sub(" ", part))
    return _AFTER_COLON.sub("", part).replace(";}", "}")


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
