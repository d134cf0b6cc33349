"""The leaves of a mail's MIME tree, found in one pass; what they mean to a reader is decided in ``mime.py``.

Parsers that recurse, or that look for each boundary anew at each level, fall over on mail made for that.
Here every line that starts with two hyphens is looked up once among the boundaries that are open, so the
time does not depend on the nesting, and nothing recurses.
"""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tmpmaild.mail import headers

MAX_PARTS = 1000
MAX_DEPTH = 100
MAX_PART_FIELDS = 100

IDENTITIES = ("", "7bit", "8bit", "binary")
"""The content transfer encodings that leave the octets as they are (RFC 2045 §6.2)."""

TOO_MANY_PARTS = "The mail has too many parts; the rest was not looked at."
TOO_DEEP = "The mail is nested too deeply; the innermost parts were not looked at."
NO_BOUNDARY = "A multipart has no boundary and is shown as text."
NO_PARTS = "A multipart has no parts and is shown as text."
NOT_CLOSED = "A multipart does not end with its boundary."
STRANGE_TYPE = "A content type is malformed and was read as text/plain."
BROKEN_BASE64 = "Some base64 is malformed and was repaired."
BROKEN_QUOTED_PRINTABLE = "Some quoted-printable is malformed and was repaired."
UNKNOWN_ENCODING = "A content transfer encoding is unknown; the content is shown as it is."

# Of a whole mail of nothing but such lines, this many cost 0.1 s.
_MAX_HYPHEN_LINES = 200_000
_STEP_BYTES = 256 * 1024

_HYPHEN_LINE = re.compile(rb"\n--([^\n]*)")
# White space at the end of a line may have been added to a signed body (RFC 6376 §3.4.4), and more of it within one.
_HEADER_END = re.compile(rb"\n(?:[ \t]*+\r?\n|(?=--))")
_SPACE = re.compile(rb"[ \t]++")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}", re.IGNORECASE)
_ENCODING = re.compile(r"\s*\"?([a-z0-9-]*)", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+\r?\n|[ \t\r]*+\Z)")
_SPACE_AFTER_SOFT_BREAK = re.compile(rb"=[ \t]++(?=\r?\n)")


@dataclass(slots=True)
class Part:
    """One entity (RFC 2045 §2.4): what its header says, and where in the mail its body stands.

    Names and types are in lower case; ``content_id`` has no angle brackets and is "" when absent.
    """

    content_type: str = "text/plain"
    parameters: dict[str, str] = field(default_factory=dict)
    disposition: str = ""
    filename: str = ""
    encoding: str = ""
    content_id: str = ""
    start: int = 0
    end: int = 0


def leaves(raw: bytes, fields: dict[str, str], start: int, warnings: dict[str, None]) -> list[Part]:
    """Return the parts of a mail that are not ``multipart``, in order; ``message/rfc822`` is not entered.

    ``fields`` are the raw values of the mail's header by lower-case name, ``start`` is where its body
    begins.
    """
    part = _described(fields, "text/plain", warnings)
    part.start, part.end = start, len(raw)
    if not part.content_type.startswith("multipart/"):
        return [part]
    if "boundary" not in part.parameters:
        warnings[NO_BOUNDARY] = None
        return [Part(start=start, end=len(raw))]
    return _Splitter(raw, warnings).split(part)


def content(raw: bytes, part: Part, warnings: dict[str, None]) -> bytes:
    """Undo the content transfer encoding of a part (RFC 2045 §6), repairing what is broken."""
    if part.encoding == "base64":
        octets, sound = headers.base64_octets(memoryview(raw)[part.start : part.end])
        if not sound:
            warnings[BROKEN_BASE64] = None
        return octets
    data = raw[part.start : part.end]
    if part.encoding in IDENTITIES:
        return data
    if part.encoding == "quoted-printable":
        return b"".join(_quoted_printable_steps(data, warnings))
    warnings[UNKNOWN_ENCODING] = None
    return data


def _quoted_printable_steps(data: bytes, warnings: dict[str, None]) -> Iterator[bytes]:
    """Decode whole lines step by step: no other thread gets the GIL during a step."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _STEP_BYTES) + 1 or len(data)
        lines = data[start:end]
        if _BROKEN_ESCAPE.search(lines):
            warnings[BROKEN_QUOTED_PRINTABLE] = None
        yield binascii.a2b_qp(_SPACE_AFTER_SOFT_BREAK.sub(b"=", lines))
        start = end


def _described(fields: dict[str, str], default_type: str, warnings: dict[str, None]) -> Part:
    """Read the fields that say what a part is (RFC 2045, RFC 2183)."""
    part = Part(content_type=default_type)
    if stated := fields.get("content-type"):
        media_type, part.parameters = headers.parameters(stated, warnings)
        part.content_type = _media_type(media_type, warnings)
        part.filename = part.parameters.get("name", "")
    if stated := fields.get("content-disposition"):
        part.disposition, parameters = headers.parameters(stated, warnings)
        part.filename = parameters.get("filename", "") or part.filename
    if stated := fields.get("content-transfer-encoding"):
        match = _ENCODING.match(stated)
        part.encoding = match[1].lower() if match else ""
    if stated := fields.get("content-id"):
        part.content_id = headers.decode(stated, warnings).strip("<> ")
    return part


def _media_type(stated: str, warnings: dict[str, None]) -> str:
    """Return a media type that is one; anything else is plain text (RFC 2045 §5.2)."""
    match = _MEDIA_TYPE.match(stated)
    if match is None:
        if stated != "text":
            warnings[STRANGE_TYPE] = None
        return "text/plain"
    return match[0]


def _one_spaced(boundary: bytes) -> bytes:
    return _SPACE.sub(b" ", boundary) if b" " in boundary or b"\t" in boundary else boundary


@dataclass(slots=True)
class _Container:
    """A multipart whose closing delimiter has not come yet."""

    boundary: bytes
    part_type: str
    start: int
    empty: bool = True


class _Splitter:
    """One pass over a multipart mail: the containers that are open, and the leaf that is being read."""

    def __init__(self, raw: bytes, warnings: dict[str, None]) -> None:
        self._raw = raw
        self._warnings = warnings
        self._open: list[_Container] = []
        self._depth_of: dict[bytes, int] = {}
        self._leaf: Part | None = None
        self._leaves: list[Part] = []
        self._begun = 0

    def split(self, top: Part) -> list[Part]:
        """Find all leaves below the multipart ``top``."""
        self._enter(top)
        # A body may begin with a delimiter; the line break before it is then the header's.
        position = max(top.start - 1, 0)
        for _ in range(_MAX_HYPHEN_LINES):
            line = _HYPHEN_LINE.search(self._raw, position) if self._open else None
            if line is None:
                break
            position = self._take(line)
        else:
            self._stop(TOO_MANY_PARTS)
        self._finish()
        return self._leaves

    def _take(self, line: re.Match[bytes]) -> int:
        """Act on one line of two hyphens; return where to look on."""
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
        """Return which container a line delimits (-1: none), and whether it closes it (RFC 2046 §5.1.1)."""
        depth = self._depth_of.get(text, -1)
        if depth < 0 and text.endswith(b"--"):
            return self._depth_of.get(text[:-2], -1), True
        return depth, False

    def _begin(self, start: int, container: _Container) -> int:
        """Read the header of a part that starts here; return where to look for the next delimiter."""
        self._begun += 1
        container.empty = False
        end = _HEADER_END.search(self._raw, start - 1)
        block = self._raw[start : end.start() + 1 if end else len(self._raw)]
        found = headers.cut(block, MAX_PART_FIELDS)
        values: dict[str, str] = {}
        for name, value in headers.shown(found, self._warnings):
            values.setdefault(name.lower(), value)
        part = _described(values, container.part_type, self._warnings)
        part.start = end.end() if end and found.end == len(block) else start + found.end
        if not (part.content_type.startswith("multipart/") and self._enter(part)):
            self._leaf = part
        return part.start - 1

    def _enter(self, part: Part) -> bool:
        """Open a multipart; one that cannot be opened becomes a leaf."""
        boundary = _one_spaced(part.parameters.get("boundary", "").rstrip().encode("utf-8", "replace"))
        if boundary and len(self._open) < MAX_DEPTH:
            # RFC 2046 §5.1.5: within a digest the type that need not be said is another one.
            part_type = "message/rfc822" if part.content_type == "multipart/digest" else "text/plain"
            self._open.append(_Container(boundary, part_type, part.start))
            self._depth_of[boundary] = len(self._open) - 1
            return True
        self._warnings[TOO_DEEP if boundary else NO_BOUNDARY] = None
        if not boundary:
            part.content_type = "text/plain"
        return False

    def _close(self, depth: int, line_start: int) -> None:
        """End the leaf and all containers from ``depth`` on.

        The line break before a delimiter belongs to it (RFC 2046 §5.1.1).
        """
        end = line_start - 1 if self._raw[line_start - 1 : line_start] == b"\r" else line_start
        if self._leaf is not None:
            self._leaf.end = max(end, self._leaf.start)
            self._leaves.append(self._leaf)
            self._leaf = None
        if len(self._open) <= depth:
            return
        for container in reversed(self._open[depth:]):
            if container.empty:
                self._warnings[NO_PARTS] = None
                self._leaves.append(Part(start=container.start, end=max(end, container.start)))
        del self._open[depth:]
        self._depth_of = {container.boundary: at for at, container in enumerate(self._open)}

    def _stop(self, sentence: str) -> None:
        """Look no further."""
        self._warnings[sentence] = None
        self._open.clear()

    def _finish(self) -> None:
        """End what the end of the mail ends."""
        if any(not container.empty for container in self._open):
            self._warnings[NOT_CLOSED] = None
        self._close(0, len(self._raw))
