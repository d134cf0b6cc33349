"""Finds the end of a message in a stream of chunks and undoes dot-stuffing (RFC 5321 §4.5.2). Performs no I/O.

Only ``CRLF . CRLF`` ends a message, regardless of how the stream is split. A server that accepts other endings can be
tricked into reading one message as two ("SMTP smuggling", CVE-2023-51764 and others). A lone dot between other line
endings therefore marks the message as ``Smuggled``.
"""

_END = b"\r\n.\r\n"
_DOT = b"\r\n."
_LONE_DOT = b"\n.\n"
_CR_AS_LF = bytes.maketrans(b"\r", b"\n")
_DRAIN_FACTOR = 4
_PIECE_BYTES = 64 * 1024
_UNSETTLED_BYTES = len(_END) - 1
# A message is never split after these bytes, because together with the next byte they may form a line ending or a lone
# dot.
_UNSPLITTABLE = b"\r.\0"
# The message may be up to this many bytes smaller than the buffered data, because of the line ending before the
# message, a stuffed dot, and unconverted bytes.
_SLACK_BYTES = 2 + 1 + _UNSETTLED_BYTES


class TooBig(Exception):
    """The message exceeds the limit and is not kept in memory."""


class Smuggled(Exception):
    """The message contains bytes that other servers may interpret as the end of the message."""


class DataReader:
    """Collects one message from chunks, and keeps at most about ``max_bytes`` of it in memory.

    ``too_big`` is true once the message exceeds the limit; all of it is then discarded. ``endless`` is
    true once the received data is several times as large as the limit; no legitimate sender sends that much.

    Bytes are checked and converted in pieces as they arrive. Converting 10 MiB of bare LF at the end of the message
    would block the event loop for a third of a second. A thread would not help, because bytes methods do not release
    the GIL.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # The buffer starts with a line ending, so that a dot at the start of the first line is treated like any other
        # leading dot.
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
        """The memory that the message currently uses."""
        return self._size_bytes + len(self._tail)

    @property
    def endless(self) -> bool:
        """Whether the client has sent several times as much data as the size limit without ending the message."""
        return self.received_bytes > _DRAIN_FACTOR * self._max_bytes

    def feed(self, chunk: bytes) -> bytes | None:
        """Add a chunk; return the bytes after the end of the message, or None until the end is received."""
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
        """Discard this message, regardless of its size."""
        self.too_big = True
        self._pieces.clear()
        self._size_bytes = 0
        del self._tail[:-_UNSETTLED_BYTES]

    def content(self) -> bytes:
        """Return the completed message: dots unstuffed, bare LF converted to CRLF, lone CR kept.

        Raises ``TooBig``, ``Smuggled``.
        """
        if self.too_big:
            raise TooBig
        if self._smuggled:
            raise Smuggled
        return b"".join(self._pieces)

    def _settle(self) -> None:
        """Convert the bytes that later chunks cannot affect, and check the limit."""
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
        if self._tail[settled_bytes - 1] in _UNSPLITTABLE:
            # Search only the new bytes: otherwise a long run of NULs would be searched again for each packet.
            free = self._tail[self._scanned_bytes : settled_bytes].rstrip(_UNSPLITTABLE)
            cut = self._scanned_bytes + len(free) if free else 0
        if cut > 0:
            self._convert(cut)
        self._scanned_bytes = settled_bytes - cut

    def _convert(self, end: int) -> None:
        """Convert the tail up to ``end`` into a piece of the message."""
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


def _plain_mail(wire: bytes) -> bytes | None:
    """Return the message if these bytes are complete and need no conversion: the fast path for most messages.

    Returns None if the message is incomplete, if it is followed by more bytes, or if a dot, NUL, lone CR or lone LF in
    it must be examined.
    """
    before, _, behind = wire.partition(_DOT)
    if behind != b"\r\n" or wire.startswith(b"."):  # the first line may start with a stuffed dot
        return None
    mail = wire[: len(before) + 2]
    return mail if _is_plain(mail) else None


def _is_plain(wire: bytes) -> bool:
    """Return whether every line ends with CRLF and there are no NULs."""
    # Single bytes are replaced several times faster than pairs.
    return b"\0" not in wire and wire.replace(b"\r", b"").replace(b"\n", b"\r\n") == wire


def _has_lone_dot(wire: bytes) -> bool:
    # NULs are removed first, because some servers ignore them.
    return b"." in wire and _LONE_DOT in wire.translate(_CR_AS_LF, b"\0")
