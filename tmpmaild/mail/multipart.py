"""Splits a message into its parts (RFC 2046 §5.1) and reads the headers of the parts (RFC 2045, RFC 2183).

The parts are found by their boundaries in one pass, without decoding them.
"""

import re

from tmpmaild.mail import headers, transferencoding
from tmpmaild.mail.structure import HTML, PLAIN, Multipart, Part

MAX_PARTS = 1000
MAX_DEPTH = 100
MAX_PART_FIELDS = 100

TOO_MANY_PARTS = "The message has too many parts; the rest was not read."
TOO_DEEP = "The message is nested too deeply; the innermost parts were not read."
NO_BOUNDARY = "A multipart body has no boundary and is shown as text."
NO_PARTS = "A multipart body has no parts and is shown as text."
NOT_CLOSED = "A multipart body does not end with its closing boundary."
STRANGE_TYPE = "A content type is malformed; the type of the part was guessed."

# Reading this number of lines takes 0.1 s in a message that consists only of such lines.
_MAX_HYPHEN_LINES = 200_000
_GUESSED_BY_BYTES = 1024
_GUESSED_WITHIN_BYTES = 512 * 1024  # white space may have been added to a signed body
_MAX_TYPES = 5
_PREAMBLE_BYTES = 4096
_STEP_BYTES = 1024 * 1024  # no other thread can acquire the GIL during a search

_HYPHEN_LINE = re.compile(rb"\n--([^\n]*)")
# White space may have been added at the end of a line or within a line of a signed body (RFC 6376 §3.4.4).
_HEADER_END = re.compile(rb"\n(?:[ \t]*+\r?\n|(?=--))")
_SPACE = re.compile(rb"[ \t]++")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}", re.IGNORECASE)
_ENCODING = re.compile(r"\s*\"?([a-z0-9-]*)", re.IGNORECASE)
# Matches a field on the same line as the field before it.
_ENCODING_BEHIND = re.compile(r"[\s\";]content-transfer-encoding:\s*+([a-z0-9-]+)", re.IGNORECASE)


def leaves(raw: bytes, fields: list[tuple[str, str]], start: int, warnings: dict[str, None]) -> list[Part]:
    """Return the parts of a message that are not ``multipart``, in order; a ``message/rfc822`` is a leaf.

    ``fields`` are the raw values of the message's header fields; ``start`` is the position of its body.
    """
    return split(raw, fields, headers.first_values(fields), start, warnings)[1]


def split(
    raw: bytes, fields: list[tuple[str, str]], stated: dict[str, str], start: int, warnings: dict[str, None]
) -> tuple[Part | Multipart, list[Part]]:
    """Return a message's parts as a tree, and its leaves in order; ``stated`` maps fields to their first values."""
    if len(stated) < len(fields) and "content-type" in stated:
        types = [value for name, value in fields if name.lower() == "content-type"]
        stated = {**stated, "content-type": _usable(raw, types[:_MAX_TYPES])}
    part = _described(raw, start, stated, PLAIN, warnings)
    part.end = len(raw)
    if not part.content_type.startswith("multipart/"):
        return part, [part]
    if "boundary" not in part.parameters:
        warnings[NO_BOUNDARY] = None
        part = Part(start=start, end=len(raw))
        return part, [part]
    return _Splitter(raw, warnings).split(part)


def _usable(raw: bytes, types: list[str]) -> str:
    """Return the content type to use if a part declares several types.

    This is the first multipart type whose boundary occurs. If no boundary occurs, it is the first type that is not
    multipart, or else the first type.
    """
    others = []
    for stated in types:
        media_type, parameters = headers.parameters(stated)
        if not _MEDIA_TYPE.match(media_type):
            continue
        if not media_type.startswith("multipart/"):
            others.append(stated)
        elif (boundary := parameters.get("boundary")) and f"\n--{boundary}".encode("utf-8", "replace") in raw:
            return stated
    return next(iter(others), types[0])


def _described(raw: bytes, start: int, stated: dict[str, str], default_type: str, warnings: dict[str, None]) -> Part:
    """Read the fields that describe a part (RFC 2045, RFC 2183); its body starts at ``start``."""
    part = Part(content_type=default_type, start=start, stated=stated)
    media_type = ""
    if value := stated.get("content-type"):
        media_type, part.parameters = headers.parameters(value, warnings)
        if "=?" in media_type:
            media_type, part.parameters = headers.parameters(headers.decode(value), warnings)
        part.content_type = _media_type(media_type)
        part.filename = part.parameters.get("name", "")
    if value := stated.get("content-disposition"):
        part.disposition, parameters = headers.parameters(value, warnings)
        if "=?" in part.disposition:
            part.disposition, parameters = headers.parameters(headers.decode(value), warnings)
        part.filename = parameters.get("filename", "") or part.filename
    if value := stated.get("content-transfer-encoding"):
        match = _ENCODING.match(value)
        part.encoding = match[1].lower() if match else ""
    elif match := _ENCODING_BEHIND.search(stated.get("content-type", "")):
        part.encoding = match[1].lower()
    if value := stated.get("content-id"):
        part.content_id = headers.decode(value, warnings).strip("<> ")
    if not part.content_type:
        part.content_type = PLAIN if media_type == "text" else _guessed_type(raw, part)
        if media_type != "text":
            warnings[STRANGE_TYPE] = None
    return part


def _media_type(stated: str) -> str:
    """Return a media type if it is well-formed, else ""."""
    if stated in (PLAIN, HTML):
        return stated
    match = _MEDIA_TYPE.match(stated)
    return match[0] if match else ""


def _guessed_type(raw: bytes, part: Part) -> str:
    """Guess the type of a part with a malformed media type.

    The guess is plain text (RFC 2045 §5.2), unless the part is clearly not text.
    """
    if "boundary" in part.parameters:
        return "multipart/mixed"
    if part.filename or "binary" in (part.encoding, part.parameters.get("charset", "").lower()):
        return "application/octet-stream"
    beginning = raw[part.start : part.start + _GUESSED_WITHIN_BYTES].translate(None, b" \t\r\n")[:_GUESSED_BY_BYTES]
    if part.encoding == "base64" and b"\0" in transferencoding.decode_base64(beginning)[0]:
        return "application/octet-stream"
    return PLAIN


class _Splitter:
    """One pass over a multipart message, with the open containers and the leaf that is being read."""

    def __init__(self, raw: bytes, warnings: dict[str, None]) -> None:
        self._raw = raw
        self._warnings = warnings
        self._open: list[Multipart] = []
        self._depth_of: dict[bytes, int] = {}
        self._leaf: Part | None = None
        self._leaves: list[Part] = []
        self._begun = 0

    def split(self, top: Part) -> tuple[Multipart | Part, list[Part]]:
        """Return the multipart ``top`` as a tree, and all its leaves."""
        tree = self._enter(top) or top
        # A body may start with a delimiter; the line break before it then belongs to the header.
        position = max(top.start - 1, 0)
        for _ in range(_MAX_HYPHEN_LINES):
            line = _hyphen_line(self._raw, position) if self._open else None
            if line is None:
                break
            position = self._take(line)
        else:
            self._stop(TOO_MANY_PARTS)
        self._finish()
        for number, leaf in enumerate(self._leaves):
            leaf.number = number
        return tree, self._leaves

    def _take(self, line: re.Match[bytes]) -> int:
        """Handle a line that starts with two hyphens; return the position from which to continue."""
        depth, closing = self._delimited(_one_spaced(line[1].rstrip(b" \t\r")))
        if depth < 0:
            return line.end()
        self._close(depth + 1, line.start())
        if closing:
            self._close(depth, line.start())
        elif self._begun >= MAX_PARTS:
            self._stop(TOO_MANY_PARTS)
        else:
            return self._begin(min(line.end() + 1, len(self._raw)), self._open[depth])
        return line.end()

    def _delimited(self, text: bytes) -> tuple[int, bool]:
        """Return the depth of the container that a line delimits (-1 if none), and whether the line closes it."""
        depth = self._depth_of.get(text, -1)
        if depth < 0 and text.endswith(b"--"):
            return self._depth_of.get(text[:-2], -1), True
        return depth, False

    def _begin(self, start: int, container: Multipart) -> int:
        """Read the header of a part that starts here; return the position from which to continue."""
        self._begun += 1
        end = _HEADER_END.search(self._raw, start - 1)
        block = self._raw[start : end.start() + 1 if end else len(self._raw)]
        found = headers.cut(block, MAX_PART_FIELDS)
        values = headers.first_values(headers.shown(found, self._warnings))
        body_at = end.end() if end and found.end == len(block) else start + found.end
        part = _described(self._raw, body_at, values, container.part_type, self._warnings)
        if not (part.content_type.startswith("multipart/") and self._enter(part)):
            self._leaf = part
            container.children.append(part)
        return part.start - 1

    def _enter(self, part: Part) -> Multipart | None:
        """Open a multipart container; return None if it cannot be opened and becomes a leaf."""
        boundary = _one_spaced(part.parameters.get("boundary", "").rstrip().encode("utf-8", "replace"))
        # Apostrophes may be part of a boundary (RFC 2046 §5.1.1), but some programs use them as quotes.
        if boundary[:1] == b"'" == boundary[-1:]:
            begun = self._raw[max(part.start - 1, 0) : part.start + _PREAMBLE_BYTES]
            boundary = boundary if b"\n--" + boundary in begun else boundary.strip(b"'")
        if not boundary or len(self._open) >= MAX_DEPTH:
            self._warnings[TOO_DEEP if boundary else NO_BOUNDARY] = None
            if not boundary:
                part.content_type = PLAIN
            return None
        multipart = Multipart(part.content_type.partition("/")[2], boundary, part.start, content_id=part.content_id)
        multipart.root = part.parameters.get("start", "").strip("<> ")
        if multipart.subtype == "digest":  # RFC 2046 §5.1.5: a digest has a different default type
            multipart.part_type = "message/rfc822"
        if self._open:
            self._open[-1].children.append(multipart)
        self._open.append(multipart)
        self._depth_of[boundary] = len(self._open) - 1
        return multipart

    def _close(self, depth: int, line_start: int) -> None:
        """Close the leaf and all containers at ``depth`` or deeper.

        The line break before a delimiter belongs to the delimiter (RFC 2046 §5.1.1).
        """
        end = line_start - 1 if self._raw[line_start - 1 : line_start] == b"\r" else line_start
        if self._leaf is not None:
            self._leaf.end = max(end, self._leaf.start)
            self._leaves.append(self._leaf)
            self._leaf = None
        if len(self._open) <= depth:
            return
        for multipart in reversed(self._open[depth:]):
            if not multipart.children:
                self._warnings[NO_PARTS] = None
                leaf = Part(start=multipart.start, end=max(end, multipart.start))
                multipart.children.append(leaf)
                self._leaves.append(leaf)
        del self._open[depth:]
        self._depth_of = {multipart.boundary: at for at, multipart in enumerate(self._open)}

    def _stop(self, sentence: str) -> None:
        """Stop searching and add a warning."""
        self._warnings[sentence] = None
        self._open.clear()

    def _finish(self) -> None:
        """Close everything at the end of the message."""
        if any(multipart.children for multipart in self._open):
            self._warnings[NOT_CLOSED] = None
        self._close(0, len(self._raw))


def _hyphen_line(raw: bytes, position: int) -> re.Match[bytes] | None:
    """Return the next line that starts with two hyphens."""
    while len(raw) - position > _STEP_BYTES:
        found = _HYPHEN_LINE.search(raw, position, position + _STEP_BYTES)
        if found:
            return _HYPHEN_LINE.match(raw, found.start())  # the search step may have split the line
        position += _STEP_BYTES - len(b"\n-")
    return _HYPHEN_LINE.search(raw, position)


def _one_spaced(boundary: bytes) -> bytes:
    return _SPACE.sub(b" ", boundary) if b" " in boundary or b"\t" in boundary else boundary
