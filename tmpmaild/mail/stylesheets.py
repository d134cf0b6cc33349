"""Reads the style sheets of HTML into rules: for the text without what they hide, and for the view that they style.

Both uses read the same rules of the same sheets, so a view hides what the text leaves out. Selectors, media queries and
declarations stay text here; ``selectors``, ``mediaqueries``, ``hiding`` and ``declarations`` read them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmltokens import collapsed

MAX_CHARACTERS = 128 * 1024
"""Of all style sheets of a message together, without added white space; the rest is not read."""

_CHARACTERS_A_STEP = 8

# The next bracket, semicolon or block without blocks in it. Strings, comments, escapes and addresses hold no brackets
# (CSS Syntax Level 3, §4.3).
_OTHER = r"[^{}()\[\]\"'\\/]++|/(?!\*)"
_ESCAPE = r"\\(?:[0-9a-f]{1,6}+(?:\r\n|[ \t\r\n\f])?|.)"
_BRACKET = re.compile(
    rf"""(?>(?:[^{{}}()\[\]"'\\/;]++|/(?!\*))*)"""
    rf"""(\{{(?>(?:{_OTHER}|\((?>(?:{_OTHER})*)\))*)\}}"""
    rf"""|"(?>(?:[^"\\\n\r\f]++|{_ESCAPE})*)"?|'(?>(?:[^'\\\n\r\f]++|{_ESCAPE})*)'?"""
    r"""|\((?<=url\()(?<![-\w\\\x80-\U0010ffff]url\()(?![ \t\r\n\f]*+["'])(?>(?:[^)\\]++|\\.)*)\)?"""
    rf"""|/\*.*?(?:\*/|\Z)|{_ESCAPE}|[{{}}()\[\];]|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
_DEEPER = {"rule": 0, "start": 1, "end": -1}
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_BETWEEN_RULES = re.compile(r"(?>(?:[ \t\r\n\f]++|<!--|-->|/\*.*?(?:\*/|\Z))*)", re.DOTALL)
_MAY_BE_BETWEEN = frozenset(" \t\r\n\f</-")
_AT_KEYWORD = re.compile(r"@(?:-?(?:[^\W\d]|[\x80-\U0010ffff]|\\[^\n])|--)")


Piece = tuple[Literal["rule", "start", "end"], str, str]
"""A rule, or the start or the end of an at-rule around rules; then its prelude, and the text of its block.

The prelude is the text before the block: the selectors of a rule, the keyword and the condition of an at-rule.
"""


def pieces_of(sheet: str, budget: Budget | None = None, *, leave: int = 0) -> Iterator[Piece]:
    """Yield the rules of a style sheet in order, and where the at-rules around them start and end.

    The end of the sheet ends whatever is open, as in a browser. An at-rule without rules is left out. When the budget
    is spent, the sheet ends; without a budget, the caller has taken the steps.
    """
    start = position = _rule_start(sheet, 0)
    depth = 0
    while (found := _BRACKET.match(sheet, position)) and (bracket := found[1]):
        position = found.end()
        piece: Piece | None = None
        if bracket[0] == "{":
            piece, position = _opened(sheet, start, found)
        elif bracket == "}" and depth:
            piece = "end", "", ""
        elif bracket in ("(", "["):
            position = _closing(sheet, bracket, position).end()
            continue
        elif bracket != ";" or not _AT_KEYWORD.match(sheet, start):
            continue
        if budget and not budget.take(1 + (position - start) // _CHARACTERS_A_STEP, leave=leave):
            return
        if piece:
            depth += _DEEPER[piece[0]]
            yield piece
        start = position = (
            _rule_start(sheet, position) if sheet[position : position + 1] in _MAY_BE_BETWEEN else position
        )


def _opened(sheet: str, start: int, found: re.Match[str]) -> tuple[Piece | None, int]:
    """Return the piece that a brace opens whose prelude starts at ``start``, and where it ends."""
    prelude, bracket = sheet[start : found.start(1)], found[1]
    if prelude[:1] == "@" and _AT_KEYWORD.match(prelude):
        return ("start", prelude, "") if bracket == "{" else None, found.end()
    if bracket != "{":
        return ("rule", prelude, bracket[1:-1]), found.end()
    closing = _closing(sheet, bracket, found.end())
    return ("rule", prelude, sheet[found.end() : closing.start(1)]), closing.end()


def _closing(sheet: str, bracket: str, position: int) -> re.Match[str]:
    """Return the match of the bracket that closes one that was opened before a position, or of the sheet's end."""
    closing = [_CLOSING[bracket]]
    for found in _BRACKET.finditer(sheet, position):
        if found[1] in _CLOSING:
            closing.append(_CLOSING[found[1]])
        elif found[1] == closing[-1]:
            closing.pop()
        if not closing or not found[1]:
            break
    return found


def _rule_start(sheet: str, position: int) -> int:
    """Return where the next rule starts: behind white space, comments and the marks of an HTML comment."""
    found = _BETWEEN_RULES.match(sheet, position)
    return found.end() if found else position


def media_of(attributes: Mapping[str, str]) -> str | None:
    """Return the media query list of a style element with these attributes, "" for all media; None if it is not CSS."""
    is_css = attributes.get("type", "").strip().lower() in ("", "text/css")
    return collapsed(attributes.get("media", "")).strip() if is_css else None
