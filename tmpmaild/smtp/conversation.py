"""The SMTP conversation as a state machine without I/O: octets in, replies and requests out (RFC 5321 §4).

It has no socket, no clock and no await. Call ``receive`` with what the client sent, ``next_request`` until it returns
None, then send ``output``. A request is what only the session can answer; until ``answer`` is called nothing more is
read, and commands that the client has pipelined wait in order (RFC 2920). A verb is a method of that name.
"""

import re
from collections.abc import Callable

from tmpmaild.smtp import otherprotocols, replies
from tmpmaild.smtp.auth import Authentication
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig
from tmpmaild.smtp.lines import MAX_LINE_BYTES, Input, LineTooLong, LineWithoutEnd
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import Data, DelayedReply, Mail, Recipient, Request, Sender, StartTls
from tmpmaild.smtp.transaction import MailTransaction, parse_mail, parse_rcpt

MAX_OUTPUT_BYTES = 4 * 1024
_SLOW_FROM_ERRORS = 10
_MAX_ERRORS = 20
_CLOSING_CODE = 421  # RFC 5321 §3.8: the server closes after it

_is_control = re.compile(rb"[\x00-\x1f\x7f]").search
_is_c1_control = re.compile("[\x80-\x9f]").search


class Conversation:
    """One client's conversation, from greeting to close.

    ``closed`` says that ``output`` holds the last reply; ``refusals`` are the negative replies that have been put into
    it, to be cleared with it. ``offers_tls``: STARTTLS can be done; ``offers_auth``: AUTH takes any credentials.
    A ``max_unknown_recipients`` of 0 sets no limit.
    """

    def __init__(
        self,
        hostname: str,
        *,
        max_message_bytes: int,
        max_unknown_recipients: int = 0,
        offers_tls: bool = False,
        offers_auth: bool = False,
    ) -> None:
        self.output = bytearray(f"220 {hostname} ESMTP tmpmaild\r\n".encode())
        self.refusals: list[Reply] = []
        self.closed = False
        self.helo = ""
        self.tls = False
        self._hostname = hostname
        self._max_message_bytes = max_message_bytes
        self._max_unknown_recipients = max_unknown_recipients
        self._offers_tls = offers_tls
        self._auth = Authentication(offered=offers_auth)
        self._input = Input()
        self._extended = False
        self._transaction: MailTransaction | None = None
        self._proposed: MailTransaction | None = None  # until its sender is accepted
        self._request: Request | None = None
        self._data: DataReader | None = None
        self._undeliverable = replies.MESSAGE_TOO_BIG
        self._errors = 0
        self._unknown_recipients = 0

    @property
    def held_bytes(self) -> int:
        """How much of an unfinished mail is in memory."""
        return self._data.held_bytes if self._data else 0

    @property
    def received_bytes(self) -> int:
        """How much of an unfinished mail has been received, held or not."""
        return self._data.received_bytes if self._data else 0

    @property
    def in_transaction(self) -> bool:
        """Whether a sender was accepted, and no mail has come since."""
        return self._transaction is not None

    @property
    def receiving_data(self) -> bool:
        """Whether a mail is on its way in."""
        return self._data is not None

    @property
    def draining(self) -> bool:
        """Whether a mail is coming in that is discarded."""
        return self._data is not None and self._data.draining

    @property
    def waiting_bytes(self) -> int:
        """How much input has not been read yet."""
        return self._input.waiting_bytes

    def receive(self, octets: bytes) -> None:
        """Take what the client has sent."""
        self._input.append(octets)

    def next_request(self) -> Request | None:
        """Read on until there is a request. None: input, an answer or room in ``output`` is needed, or it is closed."""
        if self._request is not None:
            return None
        while self._input.waiting_bytes and not self.closed and len(self.output) < MAX_OUTPUT_BYTES:
            advanced = self._read_data(self._data) if self._data else self._read_command()
            if self._request is not None or not advanced:
                return self._request
        return None

    def answer(self, reply: Reply) -> None:
        """Answer the open request; a positive reply accepts it, 421 ends the conversation."""
        request, self._request = self._request, None
        if self.closed:
            return
        if isinstance(request, Mail):
            self._transaction = None
        elif isinstance(request, Recipient):
            reply = self._conclude(request, reply)
        elif isinstance(request, Sender) and reply.is_positive:
            self._transaction = self._proposed
        elif isinstance(request, Data) and reply.is_positive:
            self._data = DataReader(self._max_message_bytes)
            self._undeliverable = replies.MESSAGE_TOO_BIG
        self._say(reply)
        self.closed = reply.code == _CLOSING_CODE

    def _conclude(self, recipient: Recipient, reply: Reply) -> Reply:
        if reply is replies.RECIPIENT_OK:
            assert self._transaction is not None
            self._transaction.recipients.append(recipient)
        elif reply is replies.UNKNOWN_RECIPIENT:
            self._unknown_recipients += 1
            if 0 < self._max_unknown_recipients < self._unknown_recipients:
                return replies.TOO_MANY_UNKNOWN
        return reply

    def tls_started(self) -> bytes:
        """Discard everything received in the clear, and return it; the next octet is encrypted (RFC 3207 §4.2)."""
        self._request = self._transaction = None
        self._auth.reset()
        self.helo = ""
        self.tls = True
        return self._input.take_all()

    def drop_mail(self, reply: Reply) -> None:
        """Discard the mail that is coming in, and send this reply at its end."""
        if self._data is not None:
            self._data.drop()
            self._undeliverable = reply

    def close(self, reply: Reply) -> None:
        """End the conversation with a last reply."""
        if not self.closed:
            self._say(reply)
            self.closed = True

    # From octets to commands and mails. Each step returns whether it can be repeated at once.

    def _read_command(self) -> bool:
        auth = self._auth
        refusal = None if auth.under_way else otherprotocols.refusal(self._input, greeted=bool(self.helo))
        if refusal:
            self.close(refusal)
            return False
        try:
            line = self._input.take_line(auth.max_line_bytes(self._input) if auth.offered else MAX_LINE_BYTES)
        except LineTooLong:
            self._react(auth.refuse_long_line())
            return True
        except LineWithoutEnd:
            self.close(replies.LINE_WITHOUT_END)
            return False
        if line is None:
            return False
        self._react(auth.respond(line) if auth.under_way else self._command(line))
        return True

    def _read_data(self, data: DataReader) -> bool:
        rest = data.feed(self._input.take_all())
        if rest is None:
            if data.endless:
                self.close(replies.MESSAGE_WITHOUT_END)
            return False
        self._input.append(rest)
        try:
            self._end_data(data.content())
        except TooBig:
            self._end_data(self._undeliverable)
        except Smuggled:
            self._end_data(replies.SMUGGLING)
        return True

    def _end_data(self, result: bytes | Reply) -> None:
        """End the transaction: request that the mail is stored, or refuse it with a reply."""
        self._data = None
        transaction = self._transaction
        assert transaction is not None
        if isinstance(result, bytes):
            greeting = "EHLO" if self._extended else "HELO"
            recipients = tuple(transaction.recipients)
            self._request = Mail(transaction.sender, recipients, result, greeting, self._auth.mechanism)
        else:
            self._transaction = None
            self._say(result)

    def _react(self, result: Reply | Request | None) -> None:
        if result is None:
            return
        if not isinstance(result, Reply):
            self._request = result
        elif result.is_mistake:
            self._refuse(result)
        else:
            self._say(result)

    def _refuse(self, reply: Reply) -> None:
        """Count a mistake: after many the replies are delayed, after more the connection is closed."""
        self._errors += 1
        if self._errors >= _MAX_ERRORS:
            self.close(replies.TOO_MANY_ERRORS)
        elif self._errors >= _SLOW_FROM_ERRORS:
            self._request = DelayedReply(reply)
        else:
            self._say(reply)

    def _say(self, reply: Reply) -> None:
        self.output += reply.octets
        if not reply.is_positive and not reply.is_ordered:
            self.refusals.append(reply)

    # The verbs (RFC 5321 §4.1.1). Each returns its reply, or the request its reply depends on.

    def _command(self, line: bytes) -> Reply | Request | None:
        name, _, argument = line.partition(b" ")
        verb = _VERBS.get(name) or _VERBS.get(name.upper())
        if _is_control(line):
            return self._not_printable(verb)
        if verb is not None and argument.isascii():
            return verb(self, argument.rstrip())
        try:
            if _is_c1_control(line.decode()):
                return self._not_printable(verb)
        except UnicodeDecodeError:
            return replies.NOT_UTF8
        return verb(self, argument.rstrip()) if verb else replies.UNKNOWN_COMMAND

    def _not_printable(self, verb: "_Verb | None") -> Reply:
        if verb is Conversation.MAIL:
            return replies.BAD_SENDER
        return replies.BAD_RECIPIENT if verb is Conversation.RCPT else replies.NOT_PRINTABLE

    def EHLO(self, argument: bytes) -> Reply:  # noqa: N802 - the verb's name
        """Greet, and list the extensions (RFC 5321 §4.1.1.1)."""
        if not argument:
            return replies.BAD_ARGUMENT
        self._greet(argument, extended=True)
        tls = self._offers_tls and not self.tls
        return replies.ehlo(self._hostname, self._max_message_bytes, tls=tls, auth=self._auth.offered)

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
        proposed = parse_mail(argument, self._max_message_bytes, extended=self._extended, auth=self._auth.offered)
        if isinstance(proposed, Reply):
            return proposed
        self._proposed = proposed
        return Sender(proposed.sender, proposed.size_bytes, proposed.parameters)

    def RCPT(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Add a recipient (RFC 5321 §4.1.1.3)."""
        if not self._transaction:
            return replies.BAD_SEQUENCE
        recipient = parse_rcpt(argument, utf8=self._transaction.utf8)
        if isinstance(recipient, Recipient) and self._transaction.full:
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
        if not self._auth.offered:
            return replies.NOT_IMPLEMENTED
        if not self.helo or self._transaction:
            return replies.BAD_SEQUENCE
        return self._auth.begin(argument)


_Verb = Callable[[Conversation, bytes], Reply | Request | None]
_VERBS: dict[bytes, _Verb] = {
    name.encode(): getattr(Conversation, name) for name in vars(Conversation) if name.isupper() and name[0] != "_"
}
