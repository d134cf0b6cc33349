"""CSS split into rules and declarations, which stay text; what they mean is not known here.

For mail that comes in: tinycss2 takes 4 µs a character, and every HTML mail has some thousands of them. Comments,
strings and escapes are made plain first, so that what then looks like a mark of the syntax is one.
"""

import re
from collections.abc import Container, Iterator
from typing import NamedTuple

_ODD = re.compile(r"[\\\"'(\[]|/\*|<!--|-->")
_NOT_PLAIN = re.compile(
    r"(?=[/\\\"'<-])(?:"
    r"/\*.*?(?:\*/|\Z)"
    r"|\\(?:([0-9a-fA-F]{1,6}+)(?:\r\n|[ \t\r\n\f])?|(.)|\Z)"
    r"|\"((?>(?:[^\"\\\n]++|\\.)*))(?:\"|(?=\n)|\Z|\\)"
    r"|'((?>(?:[^'\\\n]++|\\.)*))(?:'|(?=\n)|\Z|\\)"
    r"|<!--|-->)",
    re.DOTALL,
)
_NO_NAME = re.compile(r"[^\w .,:/-]")
_PLAIN_BRACKETS = re.compile(r"\([^()\[\]{};]*+\)|\[[^()\[\]{};]*+\]")
_MARK = re.compile(r"[()\[\]{};]")
_BRACE = re.compile(r"[{}]")
_STRUCTURE = re.compile(r"[{};]")
_SPACE = re.compile(r"\s*+")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_IMPORTANT = re.compile(r"!\s*+important\s*+\Z")
_HOLDS_RULES = re.compile(r"@(?:media|supports|layer|container|scope)\b", re.IGNORECASE)
_MAX_CODE_POINT = 0x10FFFF
_ANY = "\ufffd"  # in place of what must not look like a mark, and is no part of a name that matters


class Rule(NamedTuple):
    """A rule: the at-rules around it, its selectors, and what stands between its braces."""

    around: tuple[str, ...]
    selectors: str
    block: str


def plain(text: str) -> str:
    """Return CSS without comments and escapes, and with no mark of the syntax in strings and brackets."""
    if _ODD.search(text) is None:
        return text
    text = _NOT_PLAIN.sub(_made_plain, text)
    rest = _PLAIN_BRACKETS.sub("", text)
    return _without_marks_in_brackets(text) if "(" in rest or "[" in rest else text


def rules(text: str) -> Iterator[Rule]:
    """Yield the rules of a plain sheet; those within others, and at-rules that hold none, are left out."""
    around: list[str] = []
    start = position = _after_space(text, 0)
    while mark := _STRUCTURE.search(text, position):
        position = mark.end()
        if mark[0] == "{":
            head = text[start : mark.start()].rstrip()
            if _HOLDS_RULES.match(head):
                around.append(head)
            else:
                position = _after_block(text, position)
                if not head.startswith("@"):
                    yield Rule(tuple(around), head, text[mark.end() : position].removesuffix("}"))
        elif mark[0] == "}" and around:
            around.pop()
        elif mark[0] == "}" or not text.startswith("@", start):
            continue  # part of the selectors, which it makes invalid
        start = position = _after_space(text, position)


def declarations(block: str, properties: Container[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield what a plain block declares of some properties: name, value and whether it is important; in lower case.

    White space in values is single spaces. Of a block with rules in it what stands before them is read.
    """
    if "{" in block:
        block = block[: block.rfind(";", 0, block.index("{")) + 1]
    for part in block.split(";"):
        name, _, value = part.partition(":")
        name = name.strip().lower()
        if name not in properties:
            continue
        value = " ".join(value.lower().split())
        important = _IMPORTANT.search(value) if "!" in value else None
        yield (name, value[: important.start()].rstrip(), True) if important else (name, value, False)


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _after_block(text: str, position: int) -> int:
    depth = 1
    for brace in _BRACE.finditer(text, position):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return len(text)


def _made_plain(found: re.Match[str]) -> str:
    first = found[0][0]
    if first == "\\":
        return _unescaped(found[1], found[2] or "")
    if first in "\"'":
        return f'"{_NO_NAME.sub(_ANY, found[3] or found[4] or "")}"'
    before, after = found.string[max(0, found.start() - 1) : found.start()], found.string[found.end() : found.end() + 1]
    return " " if before.isalnum() and after.isalnum() else ""


def _unescaped(digits: str | None, character: str) -> str:
    """Return the character that an escape stands for if it can only be part of a name."""
    code = int(digits, 16) if digits else 0
    if digits:
        character = chr(code) if 0 < code <= _MAX_CODE_POINT else _ANY
    return character if character.isalnum() or character in ("-", "_") else _ANY


def _without_marks_in_brackets(text: str) -> str:
    """Mask what ends no declaration and no rule since it stands in brackets; what is never closed holds the rest."""
    pieces: list[str] = []
    open_brackets: list[str] = []
    end = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        is_within = bool(open_brackets)
        if is_within and mark == open_brackets[-1]:
            open_brackets.pop()
        elif mark in "([" or (is_within and mark == "{"):
            open_brackets.append(_CLOSING[mark])
        if is_within and mark in "{};":
            pieces += text[end : found.start()], _ANY
            end = found.end()
    return "".join([*pieces, text[end:]])
