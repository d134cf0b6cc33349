"""Finds the end of a mail in a stream of chunks and undoes dot-stuffing (RFC 5321 §4.5.2). Pure; no replies.

Only ``CRLF . CRLF`` ends a mail, however the chunks are cut. Servers that took something else for an end could be
made to see two mails where the sender's server saw one ("SMTP smuggling", CVE-2023-51764 and its kin), so a dot
that stands alone between any other line ends marks the mail as ``Smuggled``.
"""

import re

_END = b"\r\n.\r\n"
_LONE_DOTS = (b"\n.\n", b"\n.\r", b"\r.\n", b"\r.\r")
_LONE_DOT_WITH_NUL = re.compile(rb"[\r\n]\0*+\.\0*+[\r\n]")
_DRAIN_FACTOR = 4


class TooBig(Exception):
    """The mail is over the limit; nothing of it is held."""


class Smuggled(Exception):
    """The mail contains what other servers might take for its end."""


class DataReader:
    """Collects one mail from chunks, holding at most about ``max_bytes`` of it.

    ``endless`` turns true when so much has been drained beyond the limit that the sender cannot be meaning well.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # The line end that came before the mail: it makes a dot in the first line like any other.
        self._held = bytearray(b"\r\n")
        self._too_big = False
        self.received_bytes = 0

    @property
    def held_bytes(self) -> int:
        """How much memory the mail takes at the moment."""
        return len(self._held)

    @property
    def endless(self) -> bool:
        """Whether several times the limit has come without an end."""
        return self.received_bytes > _DRAIN_FACTOR * self._max_bytes

    def feed(self, chunk: bytes) -> bytes | None:
        """Take a chunk; return what stands behind the mail's end, or None while the end has not come."""
        start = max(len(self._held) - len(_END) + 1, 0)
        self._held += chunk
        self.received_bytes += len(chunk)
        end = self._held.find(_END, start)
        if end < 0:
            self._limit()
            return None
        rest = bytes(self._held[end + len(_END) :])
        del self._held[end + 2 :]
        self._limit()
        return rest

    def drop(self) -> None:
        """Hold no more of this mail, whatever its size."""
        self._too_big = True
        self._limit()

    def content(self) -> bytes:
        """Return the mail that has ended: dots unstuffed, bare LF made CRLF, lone CR kept.

        Raises ``TooBig``, ``Smuggled``.
        """
        if self._too_big:
            raise TooBig
        wire = bytes(self._held)
        if _has_lone_dot(wire):
            raise Smuggled
        if wire.count(b"\n") != wire.count(b"\r\n"):
            wire = wire.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return wire.replace(b"\r\n.", b"\r\n")[2:]

    def _limit(self) -> None:
        if not self._too_big and len(self._held) - 2 > self._max_bytes:
            stuffed = self._held.count(b"\n.")  # they do not count (RFC 1870 §4)
            self._too_big = len(self._held) - 2 - stuffed > self._max_bytes
        if self._too_big:
            del self._held[: -len(_END) + 1]


def _has_lone_dot(wire: bytes) -> bool:
    if any(lone_dot in wire for lone_dot in _LONE_DOTS):
        return True
    return b"\0" in wire and _LONE_DOT_WITH_NUL.search(wire) is not None
