"""What the conversation needs from its session before it can go on; each request is answered with one reply.

As text each is the command that it answers.
"""

from msgspec import Struct

from tmpmaild.mail.addresses import Mailbox
from tmpmaild.smtp.replies import Reply

END_OF_MAIL = "the end of the mail"
HANDSHAKE = "the TLS handshake"


class Sender(Struct, frozen=True):
    """MAIL was well-formed: may this transaction begin? ``size_bytes`` is what was declared, else 0.

    ``parameters`` are what followed the path, as the client wrote it.
    """

    reverse_path: str
    size_bytes: int
    parameters: str

    def __str__(self) -> str:
        return f"MAIL FROM:<{self.reverse_path}>"


class Recipient(Struct, frozen=True):
    """RCPT was well-formed: is there such an inbox? ``forward_path`` is the path as the client wrote it."""

    mailbox: Mailbox
    forward_path: str

    def __str__(self) -> str:
        return f"RCPT TO:<{self.forward_path}>"


class Data(Struct, frozen=True):
    """DATA is in order: may the mail come? ``GO_AHEAD`` starts it."""

    size_bytes: int

    def __str__(self) -> str:
        return "DATA"


class Mail(Struct, frozen=True):
    """A whole mail has come: store it, then answer.

    ``greeting`` is EHLO or HELO, ``auth`` the mechanism of a login, "" without.
    """

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes
    greeting: str
    auth: str

    def __str__(self) -> str:
        return END_OF_MAIL


class StartTls(Struct, frozen=True):
    """Send ``output`` and stop reading, call ``tls_started``, then do the handshake (RFC 3207 §4)."""

    def __str__(self) -> str:
        return "STARTTLS"


class DelayedReply(Struct, frozen=True):
    """Call ``answer`` with this reply after a delay: the client has made many mistakes."""

    reply: Reply

    def __str__(self) -> str:
        return ""


Request = Sender | Recipient | Data | Mail | StartTls | DelayedReply
