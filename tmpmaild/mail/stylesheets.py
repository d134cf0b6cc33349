"""Parses the style sheets of HTML into rules, for the styled view and for the text, which omits hidden elements.

Both use the same rules of the same sheets, so a view hides the same text that the text form omits. Selectors, media
queries and declarations are not parsed in this module, but in ``selectors``, ``mediaqueries``, ``hiding`` and
``declarations``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmltokens import collapsed

MAX_CHARACTERS = 128 * 1024
"""The total size limit for the style sheets of a message, not counting added white space; the rest is not read."""

_CHARACTERS_PER_STEP = 8

# The next bracket, semicolon or block without inner blocks. Brackets in strings, comments, escapes and addresses are
# ignored (CSS Syntax Level 3, §4.3).
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
"""The kind (a rule, or the start or end of an at-rule around rules), the prelude, and the text of the block.

The prelude is the text before the block: the selectors of a rule, the keyword and the condition of an at-rule.
"""


def pieces_of(sheet: str, budget: Budget | None = None, *, reserved: int = 0) -> Iterator[Piece]:
    """Yield the rules of a style sheet in order, and the start and end of each at-rule around them.

    As in a browser, the end of the sheet closes all open rules. An at-rule without rules is omitted. Reading stops
    early if the budget is spent; without a budget, the caller has already taken the steps.
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
        if budget and not budget.take(1 + (position - start) // _CHARACTERS_PER_STEP, reserved=reserved):
            return
        if piece:
            depth += _DEEPER[piece[0]]
            yield piece
        start = position = (
            _rule_start(sheet, position) if sheet[position : position + 1] in _MAY_BE_BETWEEN else position
        )


def _opened(sheet: str, start: int, found: re.Match[str]) -> tuple[Piece | None, int]:
    """Return the piece opened by the brace after the prelude at ``start``, and the end of the piece."""
    prelude, bracket = sheet[start : found.start(1)], found[1]
    if prelude[:1] == "@" and _AT_KEYWORD.match(prelude):
        return ("start", prelude, "") if bracket == "{" else None, found.end()
    if bracket != "{":
        return ("rule", prelude, bracket[1:-1]), found.end()
    closing = _closing(sheet, bracket, found.end())
    return ("rule", prelude, sheet[found.end() : closing.start(1)]), closing.end()


def _closing(sheet: str, bracket: str, position: int) -> re.Match[str]:
    """Return the match of the closing bracket for a bracket before ``position``, or of the end of the sheet."""
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
    """Return the start of the next rule, after white space, comments and HTML comment delimiters."""
    found = _BETWEEN_RULES.match(sheet, position)
    return found.end() if found else position


def media_of(attributes: Mapping[str, str]) -> str | None:
    """Return the media query list of a style element with these attributes, "" for all media; None if it is not CSS."""
    is_css = attributes.get("type", "").strip().lower() in ("", "text/css")
    return collapsed(attributes.get("media", "")).strip() if is_css else None
