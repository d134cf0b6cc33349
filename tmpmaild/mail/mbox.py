"""Entries of an mbox file (RFC 4155)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from tmpmaild.model import FullMessage

_FROM = re.compile(rb"^(?=>*+From )", re.MULTILINE)
_PLAIN_SENDER = re.compile(r"[!-~]+")
_SLICE_BYTES = 64 * 1024  # other threads run between slices, but not during a substitution


def entry(full: FullMessage, *pieces: bytes) -> bytes:
    """Return a message as an mbox entry; ``pieces`` make up the message.

    This is too slow for the event loop. Lines end in LF (RFC 4155 appendix A): with CRLF, Python's ``mailbox`` would
    leave an empty line at the end of each message. A sender that is not a single word of printable ASCII is omitted
    from the first line. Each piece must start at the beginning of a line.
    """
    sender = full.envelope.sender
    by = sender if _PLAIN_SENDER.fullmatch(sender) else "MAILER-DAEMON"
    at = datetime.fromtimestamp(full.message.received_at_ms // 1000, UTC).ctime()
    mail = [part for one in pieces for part in _quoted(one)]
    end = b"" if not mail or mail[-1].endswith(b"\n") else b"\n"
    return b"".join([f"From {by} {at}\n".encode(), *mail, end, b"\n"])


def _quoted(piece: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(piece):
        end = piece.find(b"\n", start + _SLICE_BYTES) + 1 or len(piece)
        yield _FROM.sub(b">", piece[start:end].replace(b"\r\n", b"\n"))
        start = end
