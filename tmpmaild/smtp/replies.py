"""Every reply this server gives, with its enhanced status code (RFC 3463), and the answer to each error.

Trouble on our side is 4xx: the sender tries again. No reply carries an exception's text or echoes input.
"""

from tmpmaild import errors

READY_FOR_TLS = "220 2.0.0 Ready to start TLS"
BYE = "221 2.0.0 Bye"
HELP = "214 2.0.0 This server only receives; see RFC 5321"
OK = "250 2.0.0 Ok"
SENDER_OK = "250 2.1.0 Ok"
RECIPIENT_OK = "250 2.1.5 Ok"
CANNOT_VERIFY = "252 2.0.0 Cannot verify, send some mail and see"
GO_AHEAD = "354 End data with <CR><LF>.<CR><LF>"

STOPPING = "421 4.3.2 Service is stopping"
TIMEOUT = "421 4.4.2 Timeout, closing"
TOO_MANY_ERRORS = "421 4.7.0 Too many errors, closing"
TOO_MANY_UNKNOWN = "421 4.7.0 Too many unknown recipients, closing"
TOO_MANY_CONNECTIONS = "421 4.7.0 Too many connections, try again later"
LINE_WITHOUT_END = "421 4.7.0 Line without end, closing"
MESSAGE_WITHOUT_END = "421 4.7.0 Message far over the limit, closing"

OUR_FAULT = "451 4.3.0 Temporary failure, try again later"
MAILBOX_FULL = "452 4.2.2 Mailbox full, try again later"
SYSTEM_FULL = "452 4.3.1 Insufficient system storage, try again later"
TOO_MANY_RECIPIENTS = "452 4.5.3 Too many recipients"

LINE_TOO_LONG = "500 5.5.2 Line too long"
UNKNOWN_COMMAND = "500 5.5.2 Command not recognized"
NOT_UTF8 = "500 5.5.2 Not UTF-8"
NOT_PRINTABLE = "501 5.5.2 Control characters are not allowed"
BAD_RECIPIENT = "501 5.1.3 Bad recipient address syntax"
BAD_SENDER = "501 5.1.7 Bad sender address syntax"
BAD_ARGUMENT = "501 5.5.4 Bad or missing argument"
NOT_IMPLEMENTED = "502 5.5.1 Command not implemented"
BAD_SEQUENCE = "503 5.5.1 Bad sequence of commands"
UNKNOWN_RECIPIENT = "550 5.1.1 No such address here"
SMUGGLING = "550 5.5.2 A dot alone between line ends other than CRLF is not accepted"
NOT_OURS = "550 5.7.1 Relaying denied"
MESSAGE_TOO_BIG = "552 5.3.4 Message too big"
UTF8_NOT_ASKED_FOR = "553 5.6.7 The address needs SMTPUTF8"
NO_RECIPIENTS = "554 5.5.1 No valid recipients"
BAD_PARAMETER = "555 5.5.4 Parameter not recognized or not supported"

MISTAKES = frozenset(
    {
        LINE_TOO_LONG,
        UNKNOWN_COMMAND,
        NOT_UTF8,
        NOT_PRINTABLE,
        BAD_RECIPIENT,
        BAD_SENDER,
        BAD_ARGUMENT,
        NOT_IMPLEMENTED,
        BAD_SEQUENCE,
        NO_RECIPIENTS,
        BAD_PARAMETER,
    }
)
"""What a client that can speak SMTP does not provoke: these are counted. A refused recipient is no mistake."""

_ANSWERS: dict[type[errors.RequestError], str] = {
    errors.RequestError: OUR_FAULT,
    errors.InvalidRequest: OUR_FAULT,
    errors.Unauthorized: OUR_FAULT,
    errors.AddressTaken: OUR_FAULT,
    errors.MessageNotFound: OUR_FAULT,
    errors.AddressNotFound: UNKNOWN_RECIPIENT,
    errors.AddressExpired: UNKNOWN_RECIPIENT,  # the same bytes: nobody learns which names have been
    errors.MailboxFull: MAILBOX_FULL,
    errors.StorageFull: SYSTEM_FULL,
    errors.StorageUnavailable: OUR_FAULT,
    errors.StorageLost: OUR_FAULT,
    errors.Stopping: STOPPING,
}


def answer_to(error: errors.RequestError) -> str:
    """Return the reply to a mail or a recipient that was refused with ``error``."""
    return next(_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS)


def stored(message_id: str) -> str:
    """Return the promise: the message is on disk."""
    return f"250 2.0.0 Ok: stored as {message_id}"
