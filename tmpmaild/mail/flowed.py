"""Text of the type ``text/plain; format=flowed`` (RFC 3676): paragraphs whose lines the sender has broken.

Only the lines are put together here; charset and transfer encoding have been undone before.
"""

from tmpmaild.mail.parts import Part

_SIGNATURE = "-- "
_MARKS = (" ", ">")


def is_flowed(part: Part) -> bool:
    """Return whether the lines of a part are to be put together (RFC 3676 §4)."""
    return part.content_type == "text/plain" and part.parameters.get("format", "").strip().lower() == "flowed"


def unflow(text: str, part: Part) -> str:
    """Return the text of a flowed part with a line for each paragraph; line ends are LF.

    Quoted lines begin with one ``>`` for each level and a space. A soft break joins lines of one level only, and no
    line with the separator of a signature or with an empty one, which some senders take for the end of a paragraph.
    """
    deletes_space = part.parameters.get("delsp", "").strip().lower() == "yes"
    shown: list[str] = []
    begun: list[str] = []  # the lines of a paragraph whose last one ended with a soft break
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
    """Return the quote depth of a line, and its content without the space that was stuffed (RFC 3676 §4.4, §4.5)."""
    content = line.lstrip(">")
    return len(line) - len(content), content.removeprefix(" ")


def _quoted(level: int, lines: list[str]) -> str:
    content = "".join(lines)
    return f"{'>' * level} {content}" if level and content else ">" * level + content
