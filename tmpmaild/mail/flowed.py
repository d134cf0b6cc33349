"""Flowed text (RFC 3676): joins the lines that the sending program broke."""

import re

from tmpmaild.mail.structure import PLAIN, Part

LINES_KEPT = "The lines of a flowed text were not joined: its signature does not cover the spaces that join them."

_RELAXED_BODY = re.compile(r"/\s*+relaxed", re.IGNORECASE)

_SIGNATURE = "-- "
_MARKS = (" ", ">")


def has_relaxed_body(fields: list[tuple[str, str]]) -> bool:
    """Return whether a signature declares a relaxed body, ``c=…/relaxed`` (RFC 6376 §3.5)."""
    return any(name.lower() == "dkim-signature" and _RELAXED_BODY.search(value) for name, value in fields)


def keep_lines(parts: list[Part], warnings: dict[str, None]) -> None:
    """Keep the line breaks of flowed text parts."""
    for part in parts:
        if is_flowed(part):
            del part.parameters["format"]
            warnings[LINES_KEPT] = None


def is_flowed(part: Part) -> bool:
    """Return whether the lines of a part should be joined (RFC 3676 §4)."""
    stated = part.parameters.get("format")
    return stated is not None and part.content_type == PLAIN and stated.strip().lower() == "flowed"


def unflow(text: str, part: Part) -> str:
    """Return the text of a flowed part with one line per paragraph; line ends are LF.

    Quoted lines start with one ``>`` for each level, followed by a space. A soft break joins only lines of the same
    level. A soft break never joins a signature separator or an empty line, which some senders use to end a paragraph.
    """
    deletes_space = part.parameters.get("delsp", "").strip().lower() == "yes"
    shown: list[str] = []
    begun: list[str] = []  # the lines so far of a paragraph whose last line ends in a soft break
    level = 0
    for line in text.split("\n"):
        if not begun and line[:1] not in _MARKS and line[-1:] != " ":
            shown.append(line)
            continue
        depth, content = _unquoted(line)
        if begun and (depth != level or content in ("", _SIGNATURE)):
            shown.append(_quoted(level, begun))
            begun = []
        level = depth
        if content.endswith(" ") and content != _SIGNATURE:
            begun.append(content[:-1] if deletes_space else content)
        else:
            shown.append(_quoted(level, [*begun, content]))
            begun = []
    return "\n".join([*shown, _quoted(level, begun)] if begun else shown)


def _unquoted(line: str) -> tuple[int, str]:
    """Return the quote depth of a line, and its content without the stuffed space (RFC 3676 §4.4, §4.5)."""
    content = line.lstrip(">")
    return len(line) - len(content), content.removeprefix(" ")


def _quoted(level: int, lines: list[str]) -> str:
    content = "".join(lines)
    return f"{'>' * level} {content}" if level and content else ">" * level + content
