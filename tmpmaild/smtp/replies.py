"""All replies of this server with enhanced status codes (RFC 3463), the reply to each error, and the requests.

The reply to an internal error is 4xx, so that the sender retries. No reply contains exception text or echoes input. A
request is a decision that the conversation leaves to its caller.
"""

from functools import lru_cache
from typing import final

from msgspec import Struct

from tmpmaild import errors
from tmpmaild.mail.addresses import Mailbox

_LOWEST_NEGATIVE = 400  # RFC 5321 §4.2.1: 2xx and 3xx accept, 4xx and 5xx refuse


@final
class Reply(Struct, frozen=True, gc=False):
    """A reply (RFC 5321 §4.2). ``encoded`` contains all of the reply's lines.

    ``enhanced_status`` is the RFC 3463 code, or empty if RFC 2034 §4 does not require a code.
    """

    code: int
    enhanced_status: str
    encoded: bytes
    is_positive: bool = True
    """Whether the command was accepted."""
    is_mistake: bool = False
    """Whether this reply is sent only to clients that violate SMTP. A refused recipient is not a violation."""
    is_ordered: bool = False
    """Whether a tester configured this reply as a fault.

    Such a reply does not depend on the client, and its text is not logged.
    """

    @property
    def status(self) -> str:
        """The reply code and the enhanced status code, such as ``452 4.3.1``."""
        return f"{self.code} {self.enhanced_status}".rstrip()

    def __str__(self) -> str:
        """Return the reply as text, without the final line ending."""
        return self.encoded.decode().removesuffix("\r\n")


def _reply(code: int, enhanced_status: str, text: str, *, is_mistake: bool = False) -> Reply:
    status = f"{code} {enhanced_status}".rstrip()
    return Reply(code, enhanced_status, f"{status} {text}\r\n".encode(), code < _LOWEST_NEGATIVE, is_mistake)


def _mistake(code: int, enhanced_status: str, text: str) -> Reply:
    return _reply(code, enhanced_status, text, is_mistake=True)


READY_FOR_TLS = _reply(220, "2.0.0", "Ready to start TLS")
BYE = _reply(221, "2.0.0", "Bye")
HELP = _reply(214, "2.0.0", "This server only receives mail; see RFC 5321")
OK = _reply(250, "2.0.0", "Ok")
SENDER_OK = _reply(250, "2.1.0", "Ok")
STORED = _reply(250, "2.0.0", "Ok: stored as %b")  # the id of the message, which is on disk (RFC 5321 §6.1)
RECIPIENT_OK = _reply(250, "2.1.5", "Ok")
AUTHENTICATED = _reply(235, "2.7.0", "Authentication successful")
CANNOT_VERIFY = _reply(252, "2.0.0", "Cannot verify the address, try RCPT")
NO_CHALLENGE = _reply(334, "", "")
USER_NAME = _reply(334, "", "VXNlcm5hbWU6")  # "Username:", the prompt that clients expect
PASSWORD = _reply(334, "", "UGFzc3dvcmQ6")  # "Password:"
GO_AHEAD = _reply(354, "", "End data with <CR><LF>.<CR><LF>")

STOPPING = _reply(421, "4.3.2", "Service is stopping")
TIMEOUT = _reply(421, "4.4.2", "Timeout, closing")
IDLE = _reply(421, "4.4.2", "Idle while other clients wait for a connection, closing")
TOO_MANY_ERRORS = _reply(421, "4.7.0", "Too many errors, closing")
TOO_MANY_UNKNOWN = _reply(421, "4.7.0", "Too many unknown recipients, closing")
TOO_MANY_CONNECTIONS = _reply(421, "4.7.0", "Too many connections, try again later")
LINE_WITHOUT_END = _reply(421, "4.7.0", "Unterminated line, closing")
MESSAGE_WITHOUT_END = _reply(421, "4.7.0", "Message far exceeds the size limit, closing")

UNKNOWN_TOO_OFTEN = _reply(450, "4.7.1", "Too many unknown recipients, try again later")
OUR_FAULT = _reply(451, "4.3.0", "Temporary failure, try again later")
MAILBOX_FULL = _reply(452, "4.2.2", "Mailbox full, try again later")
SYSTEM_FULL = _reply(452, "4.3.1", "Insufficient system storage, try again later")
MEMORY_FULL = _reply(452, "4.3.2", "Too much mail is arriving at once, try again later")
TOO_MANY_RECIPIENTS = _reply(452, "4.5.3", "Too many recipients")

LINE_TOO_LONG = _mistake(500, "5.5.2", "Line too long")
RESPONSE_TOO_LONG = _mistake(500, "5.5.6", "Authentication response too long")
UNKNOWN_COMMAND = _mistake(500, "5.5.2", "Command not recognized")
HTTP_RECEIVED = _mistake(500, "5.5.2", "HTTP request received on an SMTP port, closing")
TLS_RECEIVED = _mistake(500, "5.5.2", "TLS handshake received on a port without implicit TLS, closing")
NOT_UTF8 = _mistake(500, "5.5.2", "Not UTF-8")
NOT_PRINTABLE = _mistake(501, "5.5.2", "Control characters are not allowed")
NOT_BASE64 = _mistake(501, "5.5.2", "Authentication response is not base64")
AUTH_CANCELLED = _reply(501, "5.7.0", "Authentication cancelled")
BAD_RECIPIENT = _mistake(501, "5.1.3", "Bad recipient address syntax")
BAD_SENDER = _mistake(501, "5.1.7", "Bad sender address syntax")
BAD_ARGUMENT = _mistake(501, "5.5.4", "Bad or missing argument")
NOT_IMPLEMENTED = _mistake(502, "5.5.1", "Command not implemented")
BAD_SEQUENCE = _mistake(503, "5.5.1", "Bad sequence of commands")
UNKNOWN_MECHANISM = _mistake(504, "5.5.4", "Authentication mechanism not supported")
UNKNOWN_RECIPIENT = _reply(550, "5.1.1", "No such address here")
SMUGGLING = _reply(550, "5.5.2", "A lone dot between line endings other than CRLF is not accepted")
NOT_OURS = _reply(550, "5.7.1", "Relaying denied")
BLOCKED_SENDER = _reply(550, "5.7.1", "Sender not accepted here")
MESSAGE_TOO_BIG = _reply(552, "5.3.4", "Message too big")
SMTPUTF8_REQUIRED = _reply(553, "5.6.7", "The address requires SMTPUTF8")
BLOCKED_CLIENT = _reply(554, "5.7.1", "Access denied")
NO_RECIPIENTS = _mistake(554, "5.5.1", "No valid recipients")
BAD_PARAMETER = _mistake(555, "5.5.4", "Parameter not recognized or not supported")

_REPLIES: dict[type[errors.RequestError], Reply] = {
    errors.RequestError: OUR_FAULT,
    errors.InvalidRequest: OUR_FAULT,
    errors.Unauthorized: OUR_FAULT,
    errors.AddressTaken: OUR_FAULT,
    errors.MessageNotFound: OUR_FAULT,
    errors.AddressNotFound: UNKNOWN_RECIPIENT,
    errors.AddressExpired: UNKNOWN_RECIPIENT,  # the same reply, so as not to reveal which addresses existed
    errors.MailboxFull: MAILBOX_FULL,
    errors.StorageFull: SYSTEM_FULL,
    errors.StorageUnavailable: OUR_FAULT,
    errors.StorageLost: OUR_FAULT,
    errors.Stopping: STOPPING,
}


def reply_to(error: errors.RequestError) -> Reply:
    """Return the reply to a message or a recipient that was refused with ``error``."""
    return next(_REPLIES[kind] for kind in type(error).__mro__ if kind in _REPLIES)


def ordered(text: str) -> Reply:
    """Return the reply that a fault specifies: a code from 400 to 599 and a text."""
    return Reply(int(text[:3]), "", f"{text}\r\n".encode(), is_positive=False, is_ordered=True)


@lru_cache(maxsize=4)
def greeting(hostname: str) -> bytes:
    """Return the server's greeting (RFC 5321 §4.2)."""
    return f"220 {hostname} ESMTP tmpmaild\r\n".encode()


@lru_cache(maxsize=4)
def helo(hostname: str) -> Reply:
    """Return the reply to HELO, which has no enhanced status code (RFC 2034 §4)."""
    return _reply(250, "", hostname)


@lru_cache(maxsize=4)
def ehlo(hostname: str, max_message_bytes: int, *, tls: bool, auth: bool) -> Reply:
    """Return the reply to EHLO with the extensions of this server, one keyword per line (RFC 5321 §4.1.1.1)."""
    keywords = ["PIPELINING", f"SIZE {max_message_bytes}", "8BITMIME", "SMTPUTF8"]
    keywords += ["STARTTLS"] * tls + ["AUTH PLAIN LOGIN"] * auth
    lines = "".join(f"250-{line}\r\n" for line in (hostname, *keywords))
    return Reply(250, "", f"{lines}250 ENHANCEDSTATUSCODES\r\n".encode())


# The requests. ``str()`` of a request is the part of its command that may be stored.

END_OF_MAIL = "the end of the mail"
HANDSHAKE = "the TLS handshake"


class MailFrom(Struct, frozen=True):
    """A request to start a transaction, after a well-formed MAIL command. ``size_bytes`` is the declared size or 0.

    ``parameters`` is the unmodified text after the path; ``utf8`` permits addresses in UTF-8.
    """

    reverse_path: str
    size_bytes: int = 0
    parameters: str = ""
    utf8: bool = False

    def __str__(self) -> str:
        return f"MAIL FROM:<{self.reverse_path}>"


class Recipient(Struct, frozen=True):
    """A request to accept a recipient, after a well-formed RCPT command.

    ``forward_path`` is the unmodified path from the command.
    """

    mailbox: Mailbox
    forward_path: str

    def __str__(self) -> str:
        return f"RCPT TO:<{self.forward_path}>"


class Data(Struct, frozen=True):
    """A request to receive the message, after a DATA command that is allowed at this point.

    The reply ``GO_AHEAD`` starts the transfer.
    """

    size_bytes: int

    def __str__(self) -> str:
        return "DATA"


class EndOfMail(Struct, frozen=True):
    """A request to store a message that was received completely, and then reply.

    ``greeting`` is EHLO or HELO; ``auth`` is the authentication mechanism, or "" without a login.
    """

    content: bytes
    greeting: str
    auth: str

    def __str__(self) -> str:
        return END_OF_MAIL


class StartTls(Struct, frozen=True):
    """A request to send ``output`` and stop reading, call ``tls_started``, and perform the handshake (RFC 3207 §4)."""


class DelayedReply(Struct, frozen=True):
    """A request to call ``resolve`` with this reply after a delay, because the client has made many mistakes."""

    reply: Reply

    def __str__(self) -> str:
        return ""


Request = MailFrom | Recipient | Data | EndOfMail | StartTls | DelayedReply
