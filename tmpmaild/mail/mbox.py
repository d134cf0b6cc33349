"""Mails as parts of an mbox file (RFC 4155), in its variant mboxrd, in which quoting can be undone."""

import re
from datetime import UTC, datetime

from tmpmaild.model import Source

_FROM = re.compile(rb"^(>*+From )", re.MULTILINE)
_PLAIN_SENDER = re.compile(r"[!-~]+")


def entry(source: Source, octets: bytes) -> bytes:
    """Return a mail of these octets as a part of an mbox. Takes long for the event loop.

    Its lines end in LF (RFC 4155 appendix A): with CRLF Python's ``mailbox`` would leave an empty line at the end of
    each mail. A sender that is not one word of ASCII is not in the first line.
    """
    sender = source.envelope.sender
    by = sender if _PLAIN_SENDER.fullmatch(sender) else "MAILER-DAEMON"
    at = datetime.fromtimestamp(source.received_at_ms // 1000, UTC).ctime()
    mail = _FROM.sub(rb">\1", octets.replace(b"\r\n", b"\n"))
    end = b"" if not mail or mail.endswith(b"\n") else b"\n"
    return b"".join([f"From {by} {at}\n".encode(), mail, end, b"\n"])
