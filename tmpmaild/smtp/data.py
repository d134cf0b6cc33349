"""Finds the end of a mail in a stream of chunks and undoes dot-stuffing (RFC 5321 §4.5.2). Pure; no replies.

Only ``CRLF . CRLF`` ends a mail, however the chunks are cut. Servers that took something else for an end could be
made to see two mails where the sender's server saw one ("SMTP smuggling", CVE-2023-51764 and others), so a dot
that stands alone between any other line ends marks the mail as ``Smuggled``.
"""

_END = b"\r\n.\r\n"
_DOT = b"\r\n."
_LONE_DOT = b"\n.\n"
_CR_AS_LF = bytes.maketrans(b"\r", b"\n")
_DRAIN_FACTOR = 4
_PIECE_BYTES = 64 * 1024
_UNSETTLED_BYTES = len(_END) - 1
# A mail is not cut after these: together with the next octet they may be a line end or a lone dot.
_CLINGING = b"\r.\0"
# How far the size may be below what is held: the line end before the mail, a stuffed dot, and what is not settled.
_SLACK_BYTES = 2 + 1 + _UNSETTLED_BYTES


class TooBig(Exception):
    """The mail is over the limit; nothing of it is held."""


class Smuggled(Exception):
    """The mail contains what other servers may read as its end."""


class DataReader:
    """Collects one mail from chunks, holding at most about ``max_bytes`` of it.

    ``too_big`` is true once it is over the limit: then it is discarded until its end. ``endless`` is true once several
    times the limit has been received: no honest sender goes on after so much.

    Octets are checked and converted in pieces as they come. Converting 10 MiB of bare LF at the end would block the
    event loop for a third of a second, and a thread would not help: a bytes method keeps the GIL.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # The line end that came before the mail: it makes a dot in the first line like any other.
        self._tail = bytearray(b"\r\n")
        self._pieces: list[bytes] = []
        self._size_bytes = 0
        self._line_end_before = b""
        self._skipped_bytes = 2
        self._scanned_bytes = 0
        self._has_dots = False
        self.too_big = False
        self._smuggled = False
        self.received_bytes = 0

    @property
    def held_bytes(self) -> int:
        """How much memory the mail takes at the moment."""
        return self._size_bytes + len(self._tail)

    @property
    def endless(self) -> bool:
        """Whether several times the limit has come without an end."""
        return self.received_bytes > _DRAIN_FACTOR * self._max_bytes

    def feed(self, chunk: bytes) -> bytes | None:
        """Take a chunk; return what follows the end of the mail, or None while the end has not come."""
        if not self.received_bytes and (mail := _plain_mail(chunk)) is not None:
            self.received_bytes = len(chunk)
            self._pieces.append(mail)
            self.too_big = len(mail) > self._max_bytes
            return b""
        searched_bytes = max(len(self._tail) - _UNSETTLED_BYTES, 0)
        self._tail += chunk
        self.received_bytes += len(chunk)
        dot = self._tail.find(_DOT, searched_bytes)
        self._has_dots = self._has_dots or dot >= 0
        end = self._tail.find(_END, dot) if dot >= 0 else -1
        if end < 0:
            self._settle()
            return None
        rest = bytes(self._tail[end + len(_END) :])
        if not self.too_big:
            self._convert(end + 2)
            self.too_big = self._size_bytes > self._max_bytes
        self._tail.clear()
        return rest

    def drop(self) -> None:
        """Discard this mail, whatever its size."""
        self.too_big = True
        self._pieces.clear()
        self._size_bytes = 0
        del self._tail[:-_UNSETTLED_BYTES]

    def content(self) -> bytes:
        """Return the mail that has ended: dots unstuffed, bare LF made CRLF, lone CR kept.

        Raises ``TooBig``, ``Smuggled``.
        """
        if self.too_big:
            raise TooBig
        if self._smuggled:
            raise Smuggled
        return b"".join(self._pieces)

    def _settle(self) -> None:
        """Convert the octets that the next chunk cannot change, and check the limit."""
        if not self.too_big:
            settled_bytes = len(self._tail) - _UNSETTLED_BYTES
            over_limit = self._size_bytes + settled_bytes > self._max_bytes
            if over_limit or settled_bytes - self._scanned_bytes >= _PIECE_BYTES:
                self._convert_until(settled_bytes)
            self.too_big = self._size_bytes + len(self._tail) - _SLACK_BYTES > self._max_bytes
        if self.too_big:
            self.drop()

    def _convert_until(self, settled_bytes: int) -> None:
        cut = settled_bytes
        if self._tail[settled_bytes - 1] in _CLINGING:
            # Only new octets are searched: otherwise a long run of NULs would be searched again with each packet.
            free = self._tail[self._scanned_bytes : settled_bytes].rstrip(_CLINGING)
            cut = self._scanned_bytes + len(free) if free else 0
        if cut > 0:
            self._convert(cut)
        self._scanned_bytes = settled_bytes - cut

    def _convert(self, end: int) -> None:
        """Convert the tail up to ``end`` into a piece of the mail."""
        with memoryview(self._tail) as tail:
            wire = b"".join((self._line_end_before, tail[:end]))
        del self._tail[:end]
        ends_line = wire.endswith(b"\n")
        if self._has_dots or not _is_plain(wire):
            self._smuggled = self._smuggled or _has_lone_dot(wire)
            if wire.count(b"\n") != wire.count(b"\r\n"):
                wire = wire.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            wire = wire.replace(b"\r\n.", b"\r\n")
        piece = wire[self._skipped_bytes :] if self._skipped_bytes else wire
        self._line_end_before, self._skipped_bytes = (b"\r\n", 2) if ends_line else (b"", 0)
        self._has_dots = _DOT in self._line_end_before + self._tail
        self._pieces.append(piece)
        self._size_bytes += len(piece)


def _plain_mail(octets: bytes) -> bytes | None:
    """Return the mail if these octets are all of it and need no change. This is the fast path of most mails.

    None: it goes on, something follows it, or a dot, NUL, lone CR or LF in it must be examined.
    """
    before, _, behind = octets.partition(_DOT)
    if behind != b"\r\n" or octets.startswith(b"."):  # a dot in the first line is one at the start of a line
        return None
    mail = octets[: len(before) + 2]
    return mail if _is_plain(mail) else None


def _is_plain(wire: bytes) -> bool:
    """Return whether each line end is CRLF and there is no NUL."""
    # Single octets are replaced several times faster than pairs.
    return b"\0" not in wire and wire.replace(b"\r", b"").replace(b"\n", b"\r\n") == wire


def _has_lone_dot(wire: bytes) -> bool:
    # NULs are removed first: some servers ignored them.
    return b"." in wire and _LONE_DOT in wire.translate(_CR_AS_LF, b"\0")
