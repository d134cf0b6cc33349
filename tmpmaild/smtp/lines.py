"""Finds command lines in a stream of octets and buffers the rest; no commands, no replies.

Other protocols are recognised at the start of a line: nothing that follows may be run as a command. Such a line need
not be complete: it may have no end, be too long or not be text.
"""

import re

MAX_LINE_BYTES = 2048
_MAX_DISCARDED_BYTES = 64 * 1024
# What another protocol's line begins with; each is compared with the patterns below only if its first octet is here.
SUSPECT = frozenset(b"\x16Bb")
SUSPECT_AT_FIRST = SUSPECT | frozenset(b"GHPDOCT")
# A TLS hello; BDAT (RFC 3030), whose data follow without a reply; HTTP in the first line.
_OTHER = rb"(?P<tls>\x16\x03)|(?P<bdat>(?i:BDAT)[^!-~])"
OTHER_PROTOCOL = re.compile(_OTHER)
OTHER_PROTOCOL_AT_FIRST = re.compile(_OTHER + rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|CONNECT|TRACE|PATCH|PRI) ")
# The first line of HTTP with any other method, complete.
OTHER_HTTP = re.compile(rb"[A-Z]+ \S+ HTTP/\d").match


class LineTooLong(Exception):
    """A line over the limit has ended and was discarded."""


class LineWithoutEnd(Exception):
    """Too many octets have come without a line end."""


class Input:
    """What a client has sent: ``octets``, read up to ``position``. Lines are taken from there."""

    __slots__ = ("_discarded_bytes", "octets", "position")

    def __init__(self) -> None:
        self.octets = b""
        self.position = 0
        self._discarded_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """How much has not been taken."""
        return len(self.octets) - self.position

    def append(self, octets: bytes) -> None:
        """Take what the client has sent."""
        if self.position < len(self.octets):
            octets = self.octets[self.position :] + octets
        self.octets = octets
        self.position = 0

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match a pattern at the start of the next line, complete or not."""
        return None if self._discarded_bytes else pattern.match(self.octets, self.position)

    def take_line(self, max_bytes: int = MAX_LINE_BYTES) -> bytes | None:
        """Return the next line without its end, which may be a bare LF; None while it is not complete.

        Raises ``LineTooLong``, ``LineWithoutEnd``, at the same octet however the line was split into packets.
        """
        end = self.octets.find(b"\n", self.position)
        if end < 0:
            self._discard_overlong(max_bytes)
            return None
        line = self.octets[self.position : end]
        self.position = end + 1
        if self._discarded_bytes or len(line) > max_bytes:
            self._discard(len(line))
            self._discarded_bytes = 0
            raise LineTooLong
        return line.removesuffix(b"\r")

    def take_all(self) -> bytes:
        """Return everything; nothing is left."""
        octets = self.octets[self.position :]
        self.octets, self.position = b"", 0
        return octets

    def _discard_overlong(self, max_bytes: int) -> None:
        if self._discarded_bytes or self.waiting_bytes > max_bytes:
            self._discard(len(self.take_all()))

    def _discard(self, size_bytes: int) -> None:
        self._discarded_bytes += size_bytes
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            raise LineWithoutEnd
