"""An h11 connection that checks limits before parsing, so headers, trailers and chunks can be refused cheaply.

h11 itself limits only incomplete headers: a header that arrives in a single read is parsed regardless of its size.
h11's patterns take quadratic time for some malformed lines, for example 15 s for a line of 60 KB. This connection is
used for requests to the server and for responses from webhook targets.
"""

import re
from typing import Final, NoReturn

import h11
from h11._receivebuffer import ReceiveBuffer

MAX_HEADER_BYTES: Final = 16 * 1024  # including the request line
MAX_FIELDS: Final = 100
_MAX_LINES: Final = 1 + MAX_FIELDS + 1  # including the first line and the empty last line
_MAX_CHUNK_LINE_BYTES: Final = 256  # the chunk size and any extensions, which are ignored
_MAX_CHUNKS: Final = 256  # the maximum number of chunks in a body
_SHORT_LINE_BYTES: Final = 256  # h11's patterns are fast enough on any line of this length

_empty_line = re.compile(rb"\n\r?\n").search  # the pattern that h11 uses to find the end of a header
_invalid = re.compile(rb"[\0\v\f\r]").search  # bytes that make h11's patterns backtrack


class BoundedConnection(h11.Connection):
    """An ``h11.Connection`` that refuses a header or trailer of more than 16 KiB or 100 lines (431), and bad chunks."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER]) -> None:
        super().__init__(role, max_incomplete_event_size=MAX_HEADER_BYTES)
        if not isinstance(
            self._receive_buffer, ReceiveBuffer
        ):  # a private attribute: with a different version of h11, the limits might have no effect
            raise TypeError("this version of h11 stores received data elsewhere")
        self._receive_buffer = _BoundedBuffer()


class _BoundedBuffer(ReceiveBuffer):
    """Received data that has not been parsed yet.

    Each byte is counted only once, even if the data arrives in many reads.
    """

    _counted_bytes = _line_ends = _chunks = 0

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a header or trailer once it is complete. Raises ``h11.RemoteProtocolError``."""
        self._line_ends += self._data.count(b"\n", self._counted_bytes, MAX_HEADER_BYTES)
        self._counted_bytes = min(len(self._data), MAX_HEADER_BYTES)
        if len(self._data) > MAX_HEADER_BYTES or self._line_ends > _MAX_LINES:
            self._refuse_large_header()
        lines = super().maybe_extract_lines()
        if lines is not None:
            self._counted_bytes = self._line_ends = self._chunks = 0
            for line in lines:
                if len(line) > _SHORT_LINE_BYTES and _invalid(line):
                    self._refuse("illegal octet in a header", 400)
        return lines

    def _refuse_large_header(self) -> None:
        """Raise if a single header is too large; several requests, or a header and a body, may be larger together."""
        end = _empty_line(self._data, 0, MAX_HEADER_BYTES)
        if end is None or self._data.count(b"\n", 0, end.end()) > _MAX_LINES:
            self._refuse("header too large", 431)

    def maybe_extract_next_line(self) -> bytearray | None:
        """Return the chunk-size line once it is complete. Raises ``h11.RemoteProtocolError``."""
        line_end = self._data.find(b"\r\n", 0, _MAX_CHUNK_LINE_BYTES)
        if line_end < 0 and len(self._data) >= _MAX_CHUNK_LINE_BYTES:
            self._refuse("chunk line too long", 400)
        if line_end >= 0:
            self._chunks += 1
            if self._chunks > _MAX_CHUNKS:
                self._refuse("too many chunks", 400)
        return super().maybe_extract_next_line()

    def _refuse(self, why: str, status: int) -> NoReturn:
        self._data.clear()  # the connection may stay open for a few seconds so that the client can read the reason
        raise h11.RemoteProtocolError(why, error_status_hint=status)
