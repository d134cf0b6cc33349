"""The commands of SMTP: a method for each verb, which returns its reply, or the request that its reply depends on.

What they change is the state of the conversation: greeting, transaction, login. How octets become commands is in
``conversation.py``.
"""

import re
from collections.abc import Callable

from tmpmaild.smtp import replies
from tmpmaild.smtp.auth import Authentication
from tmpmaild.smtp.lines import OTHER_HTTP, Input
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import Data, Recipient, Request, Sender, StartTls
from tmpmaild.smtp.transaction import MailTransaction, parse_mail, parse_rcpt

_is_control = re.compile(rb"[\x00-\x1f\x7f]").search
_is_c1_control = re.compile("[\x80-\x9f]").search


class Verbs:
    """The state that commands read and change, and the verbs (RFC 5321 §4.1.1)."""

    def __init__(self, hostname: str, *, max_message_bytes: int, offers_tls: bool, offers_auth: bool) -> None:
        self.output = bytearray(replies.greeting(hostname))
        self.refusals: list[tuple[str, Reply]] = []
        self.closed = False
        self.helo = ""
        self.tls = False
        self._hostname = hostname
        self._max_message_bytes = max_message_bytes
        self._offers_tls = offers_tls
        self._auth = Authentication() if offers_auth else None
        self._input = Input()
        self._extended = False
        self._transaction: MailTransaction | None = None
        self._proposed: MailTransaction | None = None  # until its sender is accepted

    def close(self, reply: Reply) -> None:
        """End the conversation with a last reply."""
        if not self.closed:
            self._say(reply)
            self.closed = True

    def _say(self, reply: Reply, command: str = "") -> None:
        self.output += reply.octets
        if not (reply.is_positive or reply.is_ordered):
            self.refusals.append((command, reply))

    def _command(self, line: bytes) -> Reply | Request | None:
        """Do what a line says."""
        name, _, argument = line.partition(b" ")
        verb = _VERBS.get(name) or _VERBS.get(name.upper())
        if verb is not None and argument.isascii() and argument.decode().isprintable():
            return verb(self, argument.rstrip())
        if _is_control(line):
            return self._not_printable(verb)
        try:
            if _is_c1_control(line.decode()):
                return self._not_printable(verb)
        except UnicodeDecodeError:
            return replies.NOT_UTF8
        return verb(self, argument.rstrip()) if verb else self._unknown(line)

    def _unknown(self, line: bytes) -> Reply | None:
        if not OTHER_HTTP(line):
            return replies.UNKNOWN_COMMAND
        self.close(replies.HTTP_RECEIVED)
        return None

    def _not_printable(self, verb: "_Verb | None") -> Reply:
        if verb is Verbs.MAIL:
            return replies.BAD_SENDER
        return replies.BAD_RECIPIENT if verb is Verbs.RCPT else replies.NOT_PRINTABLE

    def EHLO(self, argument: bytes) -> Reply:  # noqa: N802 - the verb's name
        """Greet, and list the extensions (RFC 5321 §4.1.1.1)."""
        if not argument:
            return replies.BAD_ARGUMENT
        self._greet(argument, extended=True)
        tls = self._offers_tls and not self.tls
        return replies.ehlo(self._hostname, self._max_message_bytes, tls=tls, auth=self._auth is not None)

    def HELO(self, argument: bytes) -> Reply:  # noqa: N802
        """Greet without extensions (RFC 5321 §4.1.1.1)."""
        if not argument:
            return replies.BAD_ARGUMENT
        self._greet(argument, extended=False)
        return replies.helo(self._hostname)

    def _greet(self, name: bytes, *, extended: bool) -> None:
        self.helo = name.decode()
        self._extended = extended
        self._transaction = None

    def MAIL(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Begin a transaction (RFC 5321 §4.1.1.2)."""
        if not self.helo or self._transaction:
            return replies.BAD_SEQUENCE
        proposed = parse_mail(argument, self._max_message_bytes, extended=self._extended, auth=self._auth is not None)
        if type(proposed) is Reply:
            return proposed
        self._proposed = proposed
        return Sender(proposed.sender, proposed.size_bytes, proposed.parameters)

    def RCPT(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Add a recipient (RFC 5321 §4.1.1.3)."""
        if not self._transaction:
            return replies.BAD_SEQUENCE
        recipient = parse_rcpt(argument, utf8=self._transaction.utf8)
        if type(recipient) is Recipient and self._transaction.full:
            return replies.TOO_MANY_RECIPIENTS
        return recipient

    def DATA(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Start the mail data (RFC 5321 §4.1.1.4)."""
        if not self.helo:
            return replies.BAD_SEQUENCE
        if argument:
            return replies.BAD_ARGUMENT
        if not self._transaction or not self._transaction.recipients:
            return replies.NO_RECIPIENTS
        return Data(self._transaction.size_bytes)

    def STARTTLS(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Request the TLS handshake (RFC 3207)."""
        if argument and self._offers_tls:
            return replies.BAD_ARGUMENT
        if not self._offers_tls:
            return replies.NOT_IMPLEMENTED
        if self.tls:
            return replies.BAD_SEQUENCE
        self._input.take_all()  # what follows STARTTLS in the clear may be injected (CVE-2011-0411)
        self._say(replies.READY_FOR_TLS)
        return StartTls()

    def RSET(self, _: bytes) -> Reply:  # noqa: N802
        """Abort the transaction (RFC 5321 §4.1.1.5)."""
        self._transaction = None
        return replies.OK

    def NOOP(self, _: bytes) -> Reply:  # noqa: N802
        """Do nothing (RFC 5321 §4.1.1.9)."""
        return replies.OK

    def QUIT(self, _: bytes) -> None:  # noqa: N802
        """Close the connection (RFC 5321 §4.1.1.10)."""
        self.close(replies.BYE)

    def VRFY(self, _: bytes) -> Reply:  # noqa: N802
        """Do not reveal which addresses exist (RFC 5321 §7.3)."""
        return replies.CANNOT_VERIFY

    def HELP(self, _: bytes) -> Reply:  # noqa: N802
        """Point to the standard (RFC 5321 §4.1.1.8)."""
        return replies.HELP

    def EXPN(self, _: bytes) -> Reply:  # noqa: N802
        """Refuse: there are no lists."""
        return replies.NOT_IMPLEMENTED

    def AUTH(self, argument: bytes) -> Reply:  # noqa: N802
        """Take any credentials (RFC 4954), or refuse: there are no accounts."""
        if self._auth is None:
            return replies.NOT_IMPLEMENTED
        if not self.helo or self._transaction:
            return replies.BAD_SEQUENCE
        return self._auth.begin(argument)


def shown(line: bytes) -> str:
    """Return a command line as it may be kept: MAIL and RCPT whole, the name of others, nothing of what is no command.

    What follows AUTH is a secret, and so may be what a client takes for a response to it.
    """
    name = line.partition(b" ")[0].upper()
    if name in (b"MAIL", b"RCPT"):
        return line.decode(errors="replace")
    return name.decode() if name in _VERBS else ""


_Verb = Callable[[Verbs, bytes], Reply | Request | None]
_VERBS: dict[bytes, _Verb] = {
    name.encode(): getattr(Verbs, name) for name in vars(Verbs) if name.isupper() and name[0] != "_"
}
