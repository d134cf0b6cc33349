"""The SMTP conversation as a state machine without I/O: octets in, replies and requests out (RFC 5321 §4).

It has no socket, no clock and no await. Call ``receive`` with what the client sent, ``next_request`` until it returns
None, then send ``output``. A request is what only the session can answer; until ``answer`` is called nothing more is
read, and commands that the client has pipelined wait in order (RFC 2920). The verbs are in ``conversation.py``.
"""

import re
from collections.abc import Callable

from tmpmaild.smtp import replies
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig
from tmpmaild.smtp.parameters import MailTransaction, parse_mail, parse_rcpt
from tmpmaild.smtp.replies import (
    END_OF_MAIL,
    HANDSHAKE,
    Data,
    DelayedReply,
    Mail,
    Recipient,
    Reply,
    Request,
    Sender,
    StartTls,
)

MAX_LINE_BYTES = 2048
_MAX_DISCARDED_BYTES = 64 * 1024
# What another protocol's line begins with; each is compared with the patterns below only if its first octet is here.
SUSPECT = frozenset(b"\x16Bb")
SUSPECT_AT_FIRST = SUSPECT | frozenset(b"GHPDOCT")
# A TLS hello; BDAT (RFC 3030), whose data follow without a reply; HTTP in the first line.
_OTHER = rb"(?P<tls>\x16\x03)|(?P<bdat>(?i:BDAT)[^!-~])"
OTHER_PROTOCOL = re.compile(_OTHER)
OTHER_PROTOCOL_AT_FIRST = re.compile(_OTHER + rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|CONNECT|TRACE|PATCH|PRI) ")
# The first line of HTTP with any other method, complete.
OTHER_HTTP = re.compile(rb"[A-Z]+ \S+ HTTP/\d").match


class LineTooLong(Exception):
    """A line over the limit has ended and was discarded."""


class LineWithoutEnd(Exception):
    """Too many octets have come without a line end."""


class Input:
    """What a client has sent: ``octets``, read up to ``position``. Lines are taken from there."""

    __slots__ = ("_discarded_bytes", "octets", "position")

    def __init__(self) -> None:
        self.octets = b""
        self.position = 0
        self._discarded_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """How much has not been taken."""
        return len(self.octets) - self.position

    def append(self, octets: bytes) -> None:
        """Take what the client has sent."""
        if self.position < len(self.octets):
            octets = self.octets[self.position :] + octets
        self.octets = octets
        self.position = 0

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match a pattern at the start of the next line, complete or not."""
        return None if self._discarded_bytes else pattern.match(self.octets, self.position)

    def take_line(self, max_bytes: int = MAX_LINE_BYTES) -> bytes | None:
        """Return the next line without its end, which may be a bare LF; None while it is not complete.

        Raises ``LineTooLong``, ``LineWithoutEnd``, at the same octet however the line was split into packets.
        """
        end = self.octets.find(b"\n", self.position)
        if end < 0:
            self._discard_overlong(max_bytes)
            return None
        line = self.octets[self.position : end]
        self.position = end + 1
        if self._discarded_bytes or len(line) > max_bytes:
            self._discard(len(line))
            self._discarded_bytes = 0
            raise LineTooLong
        return line.removesuffix(b"\r")

    def take_all(self) -> bytes:
        """Return everything; nothing is left."""
        octets = self.octets[self.position :]
        self.octets, self.position = b"", 0
        return octets

    def _discard_overlong(self, max_bytes: int) -> None:
        if self._discarded_bytes or self.waiting_bytes > max_bytes:
            self._discard(len(self.take_all()))

    def _discard(self, size_bytes: int) -> None:
        self._discarded_bytes += size_bytes
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            raise LineWithoutEnd


MAX_RESPONSE_BYTES = 12_288 + 1  # RFC 4954 §4, and the CR of the line's end
_PROMPTS = {
    b"PLAIN": (replies.NO_CHALLENGE,),  # RFC 4616
    b"LOGIN": (replies.USER_NAME, replies.PASSWORD),  # no RFC has it, every client does
}
_BASE64_GROUP = 4
_CANCEL = b"*"
_EMPTY_INITIAL_RESPONSE = b"="

_is_auth = re.compile(rb"(?i:AUTH) ")
_are_base64_characters = re.compile(rb"[A-Za-z0-9+/]*+={0,2}").fullmatch


class Authentication:
    """AUTH in one session where it is offered: whether it is ``under_way`` (the next line is a response) or done.

    ``mechanism`` is the one that has succeeded, "" before.
    """

    __slots__ = ("_prompts", "_tried", "mechanism", "under_way")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was said: it was in the clear, and now there is TLS (RFC 3207 §4.2)."""
        self.mechanism = ""
        self._tried = ""
        self.under_way = False
        self._prompts: tuple[Reply, ...] = ()  # those that have not been given

    def max_line_bytes(self, waiting: Input) -> int:
        """Return how long the next line may be: a response is long, alone or behind AUTH."""
        return MAX_RESPONSE_BYTES if self.under_way or waiting.match(_is_auth) else MAX_LINE_BYTES

    def begin(self, argument: bytes) -> Reply:
        """Read what follows AUTH: a mechanism, and perhaps the first response."""
        if self.mechanism:
            return replies.BAD_SEQUENCE
        name, _, response = argument.upper().partition(b" ")
        if not name:
            return replies.BAD_ARGUMENT
        prompts = _PROMPTS.get(name)
        if prompts is None:
            return replies.UNKNOWN_MECHANISM
        self._tried = name.decode()
        self._prompts = prompts[1:]
        self.under_way = True
        if not response:
            return prompts[0]
        return self.respond(b"" if response == _EMPTY_INITIAL_RESPONSE else argument.partition(b" ")[2])

    def respond(self, response: bytes) -> Reply:
        """Take a response: ask for the next, or end the exchange."""
        if response == _CANCEL:
            return self._end(replies.AUTH_CANCELLED)
        if len(response) % _BASE64_GROUP or not _are_base64_characters(response):
            return self._end(replies.NOT_BASE64)
        if self._prompts:
            prompt, self._prompts = self._prompts[0], self._prompts[1:]
            return prompt
        self.mechanism = self._tried
        return self._end(replies.AUTHENTICATED)

    def refuse_long_line(self) -> Reply:
        """End the exchange, if there is one, and return the reply to a line over the limit."""
        return self._end(replies.RESPONSE_TOO_LONG) if self.under_way else replies.LINE_TOO_LONG

    def _end(self, reply: Reply) -> Reply:
        self.under_way = False
        return reply


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


MAX_OUTPUT_BYTES = 4 * 1024
_SLOW_FROM_ERRORS = 10
_MAX_ERRORS = 20
_REPLIES_TO_OTHERS = {"tls": replies.TLS_RECEIVED, "bdat": replies.NOT_IMPLEMENTED}
_CLOSING_CODE = 421  # RFC 5321 §3.8: the server closes after it


class Conversation(Verbs):
    """One client's conversation, from greeting to close.

    ``closed`` says that ``output`` holds the last reply; ``refusals`` are the negative replies that have been put into
    it, each behind its command ("": not told), to be cleared with it. ``offers_tls``: STARTTLS can be done;
    ``offers_auth``: AUTH takes any credentials. A ``max_unknown_recipients`` of 0 sets no limit.
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
        super().__init__(hostname, max_message_bytes=max_message_bytes, offers_tls=offers_tls, offers_auth=offers_auth)
        self._max_unknown_recipients = max_unknown_recipients
        self.receive = self._input.append
        """Take what the client has sent."""
        self._request: Request | None = None
        self.data: DataReader | None = None
        self._undeliverable = replies.MESSAGE_TOO_BIG
        self._errors = 0
        self._unknown_recipients = 0

    @property
    def held_bytes(self) -> int:
        """How much of an unfinished mail is in memory."""
        return self.data.held_bytes if self.data else 0

    @property
    def received_bytes(self) -> int:
        """How much of an unfinished mail has been received, held or not."""
        return self.data.received_bytes if self.data else 0

    @property
    def in_transaction(self) -> bool:
        """Whether a sender was accepted, and no mail has come since."""
        return self._transaction is not None

    def departure(self, *, encrypted: bool) -> tuple[str, str] | None:
        """Return after what a client left that was refused nothing, and why that may be; None if it missed nothing."""
        if encrypted and not self.helo:  # some clients judge a certificate only then
            return HANDSHAKE, "the client left after it; does it trust the certificate?"
        if self.helo and self._proposed is None:
            offered = f"{'AUTH' if self._auth else 'no AUTH'} and {'STARTTLS' if self._offers_tls else 'no STARTTLS'}"
            return "EHLO", f"the client left without a mail; it was offered {offered}"
        if self._transaction is not None and self._transaction.recipients:
            return "DATA", "the client left before its mail was whole"
        return None

    @property
    def draining(self) -> bool:
        """Whether a mail is coming in that is discarded."""
        return self.data is not None and self.data.draining

    @property
    def waiting_bytes(self) -> int:
        """How much input has not been read yet."""
        return self._input.waiting_bytes

    def next_request(self) -> Request | None:
        """Read on until there is a request. None: input, an answer or room in ``output`` is needed, or it is closed."""
        if self._request is not None:
            return None
        unread, output = self._input, self.output
        while unread.position < len(unread.octets) and not self.closed and len(output) < MAX_OUTPUT_BYTES:
            advanced = self._read_command() if self.data is None else self._read_data(self.data)
            if self._request is not None or not advanced:
                return self._request
        return None

    def answer(self, reply: Reply) -> None:
        """Answer the open request; a positive reply accepts it, 421 ends the conversation."""
        request, self._request = self._request, None
        if self.closed:
            return
        if type(request) is Recipient:
            reply = self._conclude(request, reply)
        elif type(request) is Mail:
            self._transaction = None
        elif type(request) is Sender and reply.is_positive:
            self._transaction = self._proposed
        elif type(request) is Data and reply.is_positive:
            self.data = DataReader(self._max_message_bytes)
            self._undeliverable = replies.MESSAGE_TOO_BIG
        if reply.is_positive:
            self.output += reply.octets
        else:
            self._say(reply, str(request or ""))
            self.closed = reply.code == _CLOSING_CODE

    def _conclude(self, recipient: Recipient, reply: Reply) -> Reply:
        if reply is replies.RECIPIENT_OK:
            assert self._transaction is not None
            self._transaction.recipients.append(recipient)
        elif reply is replies.UNKNOWN_RECIPIENT or reply is replies.UNKNOWN_TOO_OFTEN:
            self._unknown_recipients += 1
            if 0 < self._max_unknown_recipients < self._unknown_recipients:
                return replies.TOO_MANY_UNKNOWN
        return reply

    def tls_started(self) -> bytes:
        """Discard everything received in the clear, and return it; the next octet is encrypted (RFC 3207 §4.2)."""
        self._request = self._transaction = None
        if self._auth is not None:
            self._auth.reset()
        self.helo = ""
        self.tls = True
        return self._input.take_all()

    def drop_mail(self, reply: Reply) -> None:
        """Discard the mail that is coming in, and send this reply at its end."""
        if self.data is not None:
            self.data.drop()
            self._undeliverable = reply

    # From octets to commands and mails. Each step returns whether it can be repeated at once.

    def _read_command(self) -> bool:
        auth, waiting = self._auth, self._input
        responds = auth is not None and auth.under_way
        if not responds and waiting.octets[waiting.position] in (SUSPECT if self.helo else SUSPECT_AT_FIRST):
            other = waiting.match(OTHER_PROTOCOL if self.helo else OTHER_PROTOCOL_AT_FIRST)
            if other is not None:
                self.close(_REPLIES_TO_OTHERS.get(other.lastgroup or "", replies.HTTP_RECEIVED))
                return False
        try:
            line = waiting.take_line(MAX_LINE_BYTES if auth is None else auth.max_line_bytes(waiting))
        except LineTooLong:
            self._react(replies.LINE_TOO_LONG if auth is None else auth.refuse_long_line(), b"")
            return True
        except LineWithoutEnd:
            self.close(replies.LINE_WITHOUT_END)
            return False
        if line is None:
            return False
        if auth is not None and responds:
            self._react(auth.respond(line), b"AUTH")
        else:
            result = self._command(line)
            if type(result) is Reply:  # isinstance() takes several times as long with a Struct
                self._react(result, line)
            else:
                self._request = result
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
        self.data = None
        transaction = self._transaction
        assert transaction is not None
        if isinstance(result, bytes):
            greeting = "EHLO" if self._extended else "HELO"
            recipients = tuple(transaction.recipients)
            self._request = Mail(
                transaction.sender, recipients, result, greeting, self._auth.mechanism if self._auth else ""
            )
        else:
            self._transaction = None
            self._say(result, END_OF_MAIL)

    def _react(self, reply: Reply, line: bytes) -> None:
        if reply.is_mistake:
            self._refuse(reply, shown(line))
        else:
            self._say(reply, "" if reply.is_positive else shown(line))

    def _refuse(self, reply: Reply, command: str) -> None:
        """Count a mistake: after many the replies are delayed, after more the connection is closed."""
        self._errors += 1
        if self._errors >= _MAX_ERRORS:
            self.close(replies.TOO_MANY_ERRORS)
        elif self._errors >= _SLOW_FROM_ERRORS:
            self._request = DelayedReply(reply)
        else:
            self._say(reply, command)
