"""The SMTP conversation as a state machine without I/O: octets in, replies and requests out (RFC 5321 §4).

It has no socket, no clock and no await. Call ``receive`` with what the client sent, ``next_request`` until it returns
None, then send ``output``. A request is what only the session can answer; until ``answer`` is called nothing more is
read, and commands that the client has pipelined wait in order (RFC 2920). The verbs are in ``verbs.py``.
"""

from tmpmaild.smtp import replies
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig
from tmpmaild.smtp.lines import (
    MAX_LINE_BYTES,
    OTHER_PROTOCOL,
    OTHER_PROTOCOL_AT_FIRST,
    SUSPECT,
    SUSPECT_AT_FIRST,
    LineTooLong,
    LineWithoutEnd,
)
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import END_OF_MAIL, HANDSHAKE, Data, DelayedReply, Mail, Recipient, Request, Sender
from tmpmaild.smtp.verbs import Verbs, shown

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
