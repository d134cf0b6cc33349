"""The SMTP conversation, sans-I/O: a state machine that reads bytes and produces replies and requests (RFC 5321 §4).

It uses no socket, no clock and no ``await``. Append the client's bytes to ``input``, call ``next_request`` until it
returns None, then send ``output``. The caller must answer every request; requests are defined in ``replies.py``. Until
``resolve`` is called, nothing more is read; commands that the client has pipelined wait in order (RFC 2920).
"""

import re
from collections.abc import Callable

from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import Mailbox, parse_path, parse_recipient, plain_domain, split_path
from tmpmaild.smtp import auth, replies
from tmpmaild.smtp.auth import SaslExchange
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig
from tmpmaild.smtp.replies import Data, DelayedReply, EndOfMail, MailFrom, Recipient, Reply, Request, StartTls

MAX_OUTPUT_BYTES = 4 * 1024
MAX_RECIPIENTS = 100  # RFC 5321 §4.5.3.1.8 requires at least 100
_SLOW_FROM_ERRORS = 10
_MAX_ERRORS = 20
_CLOSING_CODE = 421  # RFC 5321 §3.8: the server closes the connection after this reply

_MAX_LINE_BYTES = 2048
_MAX_DISCARDED_BYTES = 64 * 1024
# The first bytes of lines in other protocols; only lines that start with these bytes are compared with the patterns
# below.
_SUSPECT = frozenset(b"\x16Bb")
_SUSPECT_AT_FIRST = _SUSPECT | frozenset(b"GHPDOCT")
# A TLS hello; BDAT (RFC 3030), whose data follows without waiting for a reply; HTTP in the first line.
_OTHER = rb"(?P<tls>\x16\x03)|(?P<bdat>(?i:BDAT)[^!-~])"
_OTHER_PROTOCOL = re.compile(_OTHER)
_OTHER_PROTOCOL_AT_FIRST = re.compile(_OTHER + rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|CONNECT|TRACE|PATCH|PRI) ")
_NOT_PRINTABLE = {b"MAIL": replies.BAD_SENDER, b"RCPT": replies.BAD_RECIPIENT}
_REPLIES_TO_OTHERS = {"tls": replies.TLS_RECEIVED, "bdat": replies.NOT_IMPLEMENTED}
# A complete HTTP request line with any other method.
_is_other_http = re.compile(rb"[A-Z]+ \S+ HTTP/\d").match

_PARAMETER = rb"[A-Za-z0-9][A-Za-z0-9-]*+(?:=[!-<>-~]++)?"  # RFC 5321 §4.1.2, esmtp-param
_are_parameters = re.compile(rb"%s(?: ++%s)* *+" % (_PARAMETER, _PARAMETER)).fullmatch
_is_xtext = re.compile(rb"(?:[!-*,-<>-~]|\+[0-9A-F]{2})+").fullmatch  # RFC 3461 §4
# Matches nearly all paths without the full grammar: paths have at most 254 octets (RFC 5321 §4.5.3.1).
_PLAIN_PATH = rb":<(([A-Za-z0-9]{1,64}+)@([A-Za-z0-9.-]{1,189}+))>"
_plain_sender = re.compile(rb"(?i:FROM)%s(?: ((?i:SIZE)=([0-9]{1,18}+)))?" % _PLAIN_PATH).fullmatch
_plain_recipient = re.compile(rb"(?i:TO)%s" % _PLAIN_PATH).fullmatch
_is_number = re.compile(rb"[0-9]+").fullmatch
_PARAMETERS = frozenset({b"SIZE", b"BODY", b"SMTPUTF8"})
_PARAMETERS_WITH_AUTH = _PARAMETERS | {b"AUTH"}

_is_control = re.compile(rb"[\x00-\x1f\x7f]").search
_is_c1_control = re.compile("[\x80-\x9f]").search


class LineTooLong(Exception):
    """A complete line exceeded the limit and was discarded."""


class LineWithoutEnd(Exception):
    """Too many bytes were received without a line end."""


class InputBuffer:
    """The bytes received from a client: ``received`` is consumed up to ``position``, at which the next line starts."""

    __slots__ = ("_discarded_bytes", "position", "received")

    def __init__(self) -> None:
        self.received = b""
        self.position = 0
        self._discarded_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """The number of unread bytes."""
        return len(self.received) - self.position

    def append(self, unread: bytes) -> None:
        """Add bytes that the client has sent."""
        if self.position < len(self.received):
            unread = self.received[self.position :] + unread
        self.received = unread
        self.position = 0

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match a pattern at the start of the next line, even if the line is incomplete."""
        return None if self._discarded_bytes else pattern.match(self.received, self.position)

    def take_line(self, max_bytes: int) -> bytes | None:
        """Return the next line without its line end, which may be a bare LF; None while the line is incomplete.

        Raises ``LineTooLong`` and ``LineWithoutEnd``, at the same byte regardless of how the line was split into
        packets.
        """
        end = self.received.find(b"\n", self.position)
        if end < 0:
            if self._discarded_bytes or self.waiting_bytes > max_bytes:
                self._discard(len(self.take_all()))
            return None
        line = self.received[self.position : end]
        self.position = end + 1
        if self._discarded_bytes or len(line) > max_bytes:
            self._discard(len(line))
            self._discarded_bytes = 0
            raise LineTooLong
        return line.removesuffix(b"\r")

    def take_all(self) -> bytes:
        """Return all unread bytes and clear the buffer."""
        unread = self.received[self.position :]
        self.received, self.position = b"", 0
        return unread

    def _discard(self, size_bytes: int) -> None:
        self._discarded_bytes += size_bytes
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            raise LineWithoutEnd


class Conversation:
    """One client's conversation, from greeting to close.

    ``closed`` means that ``output`` ends with the final reply. ``refusals`` contains the negative replies in
    ``output``, each with its command ("" if unknown); clear both together. ``discarded`` contains the replies to
    messages that were refused at the final dot without a request. ``data`` is the incoming message.

    ``offers_tls`` enables STARTTLS; ``offers_auth`` enables AUTH, which accepts any credentials. A
    ``max_unknown_recipients`` of 0 means no limit. ``lenient`` accepts addresses that RFC 5321 does not permit, but
    that applications send to their own mail server: names without a domain, and UTF-8 without SMTPUTF8.
    """

    def __init__(
        self,
        hostname: str,
        *,
        max_message_bytes: int,
        max_recipients: int = MAX_RECIPIENTS,
        lenient: bool = False,
        max_unknown_recipients: int = 0,
        offers_tls: bool = False,
        offers_auth: bool = False,
    ) -> None:
        self.input = InputBuffer()
        self.output = bytearray(replies.greeting(hostname))
        self.refusals: list[tuple[str, Reply]] = []
        self.discarded: list[Reply] = []
        self.data: DataReader | None = None
        self.helo = ""
        self.closed = self.tls = False
        self._extended = self._has_sender = False
        self._request: Request | None = None  # the request that has not been answered yet
        self._transaction: MailFrom | None = None  # set when the sender is accepted
        self._recipients = self._unknown_recipients = self._errors = 0
        self._undeliverable = replies.MESSAGE_TOO_BIG  # the reply to the incoming message, if that message is discarded
        self._hostname = hostname
        self._max_message_bytes = max_message_bytes
        self._max_recipients = max_recipients
        self._lenient = lenient
        self._max_unknown_recipients = max_unknown_recipients
        self._offers_tls = offers_tls
        self._auth = SaslExchange() if offers_auth else None

    @property
    def in_transaction(self) -> bool:
        """Whether a sender was accepted and the transaction has not ended yet."""
        return self._transaction is not None

    def next_request(self) -> Request | None:
        """Read up to the next request.

        Returns None if the conversation needs input, an answer or room in ``output``, or is closed.
        """
        if self._request is not None:
            return None
        unread, output = self.input, self.output
        while unread.position < len(unread.received) and not self.closed and len(output) < MAX_OUTPUT_BYTES:
            advanced = self._read_command() if self.data is None else self._read_data(self.data)
            if self._request is not None or not advanced:
                return self._request
        return None

    def resolve(self, reply: Reply) -> None:
        """Answer the pending request; a positive reply accepts it, and 421 ends the conversation."""
        request, self._request = self._request, None
        if self.closed:
            return
        if not reply.is_positive:
            if isinstance(request, EndOfMail):
                self._transaction = None
            self._refuse(request, reply)
            return
        if isinstance(request, MailFrom):
            self._transaction, self._recipients = request, 0
        elif isinstance(request, Recipient):
            self._recipients += 1
        elif isinstance(request, Data):
            self.data = DataReader(self._max_message_bytes)
            self._undeliverable = replies.MESSAGE_TOO_BIG
        elif isinstance(request, EndOfMail):
            self._transaction = None
        self.output += reply.encoded

    def _refuse(self, request: Request | None, reply: Reply) -> None:
        if reply is replies.UNKNOWN_RECIPIENT or reply is replies.UNKNOWN_TOO_OFTEN:
            self._unknown_recipients += 1
            if 0 < self._max_unknown_recipients < self._unknown_recipients:
                reply = replies.TOO_MANY_UNKNOWN
        self._send(reply, str(request or ""))
        self.closed = reply.code == _CLOSING_CODE

    def tls_started(self) -> bytes:
        """Remove and return all input received in clear text; the next byte is encrypted (RFC 3207 §4.2)."""
        self._request = self._transaction = None
        if self._auth is not None:
            self._auth.reset()
        self.helo = ""
        self.tls = True
        return self.input.take_all()

    def drop_mail(self, reply: Reply) -> None:
        """Discard the incoming message, and send this reply after its end."""
        if self.data is not None:
            self.data.drop()
            self._undeliverable = reply

    def close(self, reply: Reply) -> None:
        """End the conversation with a final reply."""
        if not self.closed:
            self._send(reply)
            self.closed = True

    def departure(self, *, encrypted: bool) -> tuple[str, str] | None:
        """Return the step after which a client disconnected early, and a possible reason; None otherwise."""
        if encrypted and not self.helo:  # some clients do not verify the certificate until after the handshake
            return replies.HANDSHAKE, "the client disconnected after the handshake; does it trust the certificate?"
        if self.helo and not self._has_sender:
            offered = f"{'AUTH' if self._auth else 'no AUTH'} and {'STARTTLS' if self._offers_tls else 'no STARTTLS'}"
            return "EHLO", f"the client disconnected without sending a message; it was offered {offered}"
        if self._transaction is not None and self._recipients:
            return "DATA", "the client disconnected before its message was complete"
        return None

    # From bytes to commands and messages. Each step returns whether it can be repeated immediately.

    def _read_command(self) -> bool:
        exchange, unread = self._auth, self.input
        responds = exchange is not None and exchange.under_way
        if not responds and unread.received[unread.position] in (_SUSPECT if self.helo else _SUSPECT_AT_FIRST):
            other = unread.match(_OTHER_PROTOCOL if self.helo else _OTHER_PROTOCOL_AT_FIRST)
            if other is not None:
                self.close(_REPLIES_TO_OTHERS.get(other.lastgroup or "", replies.HTTP_RECEIVED))
                return False
        long_line = exchange is not None and (responds or unread.match(auth.COMMAND))
        try:
            line = unread.take_line(auth.MAX_RESPONSE_BYTES if long_line else _MAX_LINE_BYTES)
        except LineTooLong:
            self._reply_to_command(replies.LINE_TOO_LONG if exchange is None else exchange.refuse_long_line(), b"")
            return True
        except LineWithoutEnd:
            self.close(replies.LINE_WITHOUT_END)
            return False
        if line is None:
            return False
        if exchange is not None and responds:
            self._reply_to_command(exchange.respond(line), b"AUTH")
            return True
        result = self._command(line)
        if isinstance(result, Reply):
            self._reply_to_command(result, line)
        else:
            self._request = result
        return True

    def _command(self, line: bytes) -> Reply | Request | None:
        """Execute the command in a line."""
        name, _, argument = line.partition(b" ")
        verb = _VERBS.get(name) or _VERBS.get(name.upper())
        if verb is not None and argument.isascii() and argument.decode().isprintable():
            return verb(self, argument.rstrip())
        try:
            if _is_control(line) or _is_c1_control(line.decode()):
                return _NOT_PRINTABLE.get(name.upper(), replies.NOT_PRINTABLE)
        except UnicodeDecodeError:
            return replies.NOT_UTF8
        if verb is not None:
            return verb(self, argument.rstrip())
        if _is_other_http(line):
            self.close(replies.HTTP_RECEIVED)
            return None
        return replies.UNKNOWN_COMMAND

    def _reply_to_command(self, reply: Reply, line: bytes) -> None:
        """Send the reply to a command. Repeated mistakes delay replies, and too many mistakes end the connection."""
        if reply.is_positive:
            self.output += reply.encoded
            return
        self._errors += reply.is_mistake
        if not reply.is_mistake or self._errors < _SLOW_FROM_ERRORS:
            self._send(reply, shown(line))
        elif self._errors < _MAX_ERRORS:
            self._request = DelayedReply(reply)
        else:
            self.close(replies.TOO_MANY_ERRORS)

    def _send(self, reply: Reply, command: str = "") -> None:
        self.output += reply.encoded
        if not (reply.is_positive or reply.is_ordered):
            self.refusals.append((command, reply))

    def _read_data(self, data: DataReader) -> bool:
        rest = data.feed(self.input.take_all())
        if rest is None:
            if data.endless:
                self.close(replies.MESSAGE_WITHOUT_END)
            return False
        if rest:
            self.input.append(rest)
        self.data = None
        try:
            content = data.content()
        except TooBig:
            self._discard_mail(self._undeliverable)
        except Smuggled:
            self._discard_mail(replies.SMUGGLING)
        else:
            greeting = "EHLO" if self._extended else "HELO"
            self._request = EndOfMail(content, greeting, self._auth.mechanism if self._auth else "")
        return True

    def _discard_mail(self, reply: Reply) -> None:
        self._transaction = None
        self._send(reply, replies.END_OF_MAIL)
        self.discarded.append(reply)

    # The verbs (RFC 5321 §4.1.1): each method takes the verb's argument and returns a reply or a request.

    def EHLO(self, argument: bytes) -> Reply:  # noqa: N802 - the verb's name
        """Greet, and list the extensions (RFC 5321 §4.1.1.1)."""
        tls = self._offers_tls and not self.tls
        offer = replies.ehlo(self._hostname, self._max_message_bytes, tls=tls, auth=self._auth is not None)
        return self._greet(argument, offer, extended=True)

    def HELO(self, argument: bytes) -> Reply:  # noqa: N802
        """Greet without extensions (RFC 5321 §4.1.1.1)."""
        return self._greet(argument, replies.helo(self._hostname), extended=False)

    def _greet(self, name: bytes, reply: Reply, *, extended: bool) -> Reply:
        if not name:
            return replies.BAD_ARGUMENT
        self.helo = name.decode()
        self._extended = extended
        self._transaction = None
        return reply

    def MAIL(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Start a transaction (RFC 5321 §4.1.1.2)."""
        if not self.helo or self._transaction:
            return replies.BAD_SEQUENCE
        has_auth, lenient = self._auth is not None, self._lenient
        parsed = parse_mail(argument, self._max_message_bytes, extended=self._extended, auth=has_auth, lenient=lenient)
        if isinstance(parsed, MailFrom):
            self._has_sender = True
        return parsed

    def RCPT(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Add a recipient (RFC 5321 §4.1.1.3)."""
        if not self._transaction:
            return replies.BAD_SEQUENCE
        parsed = parse_rcpt(argument, utf8=self._transaction.utf8, lenient=self._lenient)
        if isinstance(parsed, Recipient) and self._recipients >= self._max_recipients:
            return replies.TOO_MANY_RECIPIENTS
        return parsed

    def DATA(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Start the mail data (RFC 5321 §4.1.1.4)."""
        if not self.helo:
            return replies.BAD_SEQUENCE
        if argument:
            return replies.BAD_ARGUMENT
        if not self._transaction or not self._recipients:
            return replies.NO_RECIPIENTS
        return Data(self._transaction.size_bytes)

    def STARTTLS(self, argument: bytes) -> Reply | Request:  # noqa: N802
        """Request the TLS handshake (RFC 3207)."""
        if not self._offers_tls:
            return replies.NOT_IMPLEMENTED
        if argument:
            return replies.BAD_ARGUMENT
        if self.tls:
            return replies.BAD_SEQUENCE
        self.input.take_all()  # clear text after STARTTLS may be injected (CVE-2011-0411)
        self._send(replies.READY_FOR_TLS)
        return StartTls()

    def RSET(self, _: bytes) -> Reply:  # noqa: N802
        """Abort the transaction (RFC 5321 §4.1.1.5)."""
        self._transaction = None
        return replies.OK

    def NOOP(self, _: bytes) -> Reply:  # noqa: N802
        """Reply without taking any action (RFC 5321 §4.1.1.9)."""
        return replies.OK

    def QUIT(self, _: bytes) -> None:  # noqa: N802
        """Close the connection (RFC 5321 §4.1.1.10)."""
        self.close(replies.BYE)

    def VRFY(self, _: bytes) -> Reply:  # noqa: N802
        """Reply without revealing which addresses exist (RFC 5321 §7.3)."""
        return replies.CANNOT_VERIFY

    def HELP(self, _: bytes) -> Reply:  # noqa: N802
        """Reply with a reference to the standard (RFC 5321 §4.1.1.8)."""
        return replies.HELP

    def EXPN(self, _: bytes) -> Reply:  # noqa: N802
        """Refuse the command, because there are no mailing lists."""
        return replies.NOT_IMPLEMENTED

    def AUTH(self, argument: bytes) -> Reply:  # noqa: N802
        """Accept any credentials (RFC 4954), or refuse AUTH: there are no accounts."""
        if self._auth is None:
            return replies.NOT_IMPLEMENTED
        if not self.helo or self._transaction:
            return replies.BAD_SEQUENCE
        return self._auth.begin(argument)


_Verb = Callable[[Conversation, bytes], Reply | Request | None]
_VERBS: dict[bytes, _Verb] = {
    name.encode(): verb for name, verb in vars(Conversation).items() if name.isupper() and name[0] != "_"
}


def shown(line: bytes) -> str:
    """Return the part of a command line that may be stored: the whole line for MAIL and RCPT, otherwise the verb or "".

    The argument of AUTH is secret, and a line that a client sends as its response may be secret too.
    """
    name = line.partition(b" ")[0].upper()
    if name in (b"MAIL", b"RCPT"):
        return line.decode(errors="replace")
    return name.decode() if name in _VERBS else ""


# The arguments of MAIL and RCPT (RFC 5321 §4.1.1.2 and 3): a path and parameters.


def parse_mail(
    argument: bytes, max_message_bytes: int, *, extended: bool, auth: bool = False, lenient: bool = False
) -> MailFrom | Reply:
    """Parse the argument of MAIL, or return a refusal.

    Parameters require EHLO (``extended``); AUTH= requires ``auth``. ``lenient`` also permits UTF-8 without SMTPUTF8,
    and names without a domain.
    """
    plain = _plain_sender(argument)
    if plain is None or plain_domain(plain[3]) is None or (plain[4] is not None and not extended):
        return _parse_any_mail(argument, max_message_bytes, extended=extended, auth=auth, lenient=lenient)
    if plain[4] is None:
        return MailFrom(plain[1].decode())
    size_bytes = int(plain[5])
    if size_bytes > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return MailFrom(plain[1].decode(), size_bytes, plain[4].decode())


def _parse_any_mail(  # noqa: PLR0911 - each line contains one check and its reply
    argument: bytes, max_message_bytes: int, *, extended: bool, auth: bool, lenient: bool
) -> MailFrom | Reply:
    if argument[:5].upper() != b"FROM:":
        return replies.BAD_ARGUMENT
    size_bytes, utf8 = 0, False
    try:
        path, parameters = split_path(argument[5:])
        if parameters:
            declared = _declared(parameters, max_message_bytes, auth=auth)
            if isinstance(declared, Reply):
                return declared
            if not extended:
                return replies.BAD_PARAMETER
            size_bytes, utf8 = declared
        if path and not parse_path(path, utf8=utf8 or lenient, bare=lenient).domain and not lenient:
            return replies.BAD_SENDER
    except addresses.NonAsciiPath:
        return replies.SMTPUTF8_REQUIRED
    except addresses.PathSyntaxError:
        return replies.BAD_SENDER
    return MailFrom(path.decode(), size_bytes, parameters.decode(), utf8)


def parse_rcpt(argument: bytes, *, utf8: bool, lenient: bool = False) -> Recipient | Reply:
    """Parse the argument of RCPT, or return a refusal; ``lenient`` has the same effect as in ``parse_mail``."""
    plain = _plain_recipient(argument)
    if plain is not None and (domain := plain_domain(plain[3])) is not None:
        return Recipient(Mailbox(plain[2].decode(), domain), plain[1].decode())
    if argument[:3].upper() != b"TO:":
        return replies.BAD_ARGUMENT
    try:
        path, parameters = split_path(argument[3:])
        mailbox = parse_recipient(path, utf8=utf8 or lenient, bare=lenient)
    except addresses.NonAsciiPath:
        return replies.SMTPUTF8_REQUIRED
    except addresses.PathSyntaxError:
        return replies.BAD_RECIPIENT
    if parameters:
        return replies.BAD_PARAMETER if _are_parameters(parameters) else replies.BAD_RECIPIENT
    return Recipient(mailbox, path.decode())


def _declared(parameters: bytes, max_message_bytes: int, *, auth: bool) -> tuple[int, bool] | Reply:
    """Return the size and whether SMTPUTF8 was specified, or the reply that refuses these parameters.

    The supported parameters are SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531) and AUTH (RFC 4954 §5).
    """
    given = _given(parameters)
    if given is None:
        return replies.BAD_ARGUMENT
    supported = _PARAMETERS_WITH_AUTH if auth else _PARAMETERS
    if given.keys() - supported or given.get(b"BODY", b"7BIT").upper() not in (b"7BIT", b"8BITMIME"):
        return replies.BAD_PARAMETER
    size = given.get(b"SIZE", b"0")
    if given.get(b"SMTPUTF8") or not _is_number(size) or not _is_xtext(given.get(b"AUTH", b"<>")):
        return replies.BAD_ARGUMENT
    digits = size.lstrip(b"0") or b"0"
    # The length is compared first: int() on thousands of digits is slow.
    if len(digits) > len(str(max_message_bytes)) or int(digits) > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return int(digits), b"SMTPUTF8" in given


def _given(parameters: bytes) -> dict[bytes, bytes] | None:
    """Return parameter values by upper-case name, b"" if there is no value; None if malformed or a name is repeated."""
    if not _are_parameters(parameters):
        return None
    given: dict[bytes, bytes] = {}
    for parameter in parameters.split():
        name, _, value = parameter.partition(b"=")
        if name.upper() in given:
            return None
        given[name.upper()] = value
    return given
