"""What the conversation asks the world outside; each is put once and waits for its answer."""

from msgspec import Struct

from tmpmaild.mail.addresses import Mailbox
from tmpmaild.smtp.replies import Reply


class Sender(Struct, frozen=True):
    """MAIL was well-formed: may this transaction begin? ``size_bytes`` is what was declared, else 0."""

    address: str
    size_bytes: int


class Recipient(Struct, frozen=True):
    """RCPT was well-formed: does it live here? ``written`` is the path as it came."""

    mailbox: Mailbox
    written: str


class Data(Struct, frozen=True):
    """DATA is in order: may the mail come? ``GO_AHEAD`` lets it."""

    size_bytes: int


class Mail(Struct, frozen=True):
    """A whole mail has come: store it, then answer."""

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes


class StartTls(Struct, frozen=True):
    """Send ``output`` and stop reading, call ``tls_started``, then do the handshake."""


class Late(Struct, frozen=True):
    """The reply shall come a second late: hand it to ``answer`` then."""

    reply: Reply


Question = Sender | Recipient | Data | Mail | StartTls | Late
