"""Makes scripts and style sheets smaller: comments, indentation and spaces are left out, names stay as they are.

Neither function is a parser: each reads the forms that our own files use and refuses any other that it recognises.
``test_minify.py`` and ``test_served_files.py`` compare what a JavaScript parser and a browser read in both forms.
"""

import re

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
