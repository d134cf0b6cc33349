"""What the conversation needs from its session before it can go on; each request is answered with one reply."""

from msgspec import Struct

from tmpmaild.mail.addresses import Mailbox
from tmpmaild.smtp.replies import Reply


class Sender(Struct, frozen=True):
    """MAIL was well-formed: may this transaction begin? ``size_bytes`` is what was declared, else 0.

    ``parameters`` are what followed the path, as the client wrote it.
    """

    reverse_path: str
    size_bytes: int
    parameters: str


class Recipient(Struct, frozen=True):
    """RCPT was well-formed: is there such an inbox? ``forward_path`` is the path as the client wrote it."""

    mailbox: Mailbox
    forward_path: str


class Data(Struct, frozen=True):
    """DATA is in order: may the mail come? ``GO_AHEAD`` starts it."""

    size_bytes: int


class Mail(Struct, frozen=True):
    """A whole mail has come: store it, then answer.

    ``greeting`` is EHLO or HELO, ``auth`` the mechanism of a login, "" without.
    """

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes
    greeting: str
    auth: str


class StartTls(Struct, frozen=True):
    """Send ``output`` and stop reading, call ``tls_started``, then do the handshake (RFC 3207 §4)."""


class DelayedReply(Struct, frozen=True):
    """Call ``answer`` with this reply after a delay: the client has made many mistakes."""

    reply: Reply


Request = Sender | Recipient | Data | Mail | StartTls | DelayedReply
