"""The SMTP conversation as a state machine without I/O: octets in, replies and requests out (RFC 5321 §4).

It has no socket, no clock and no await. Call ``receive`` with what the client sent, ``next_request`` until it returns
None, then send ``output``. A request is what only the session can answer; until ``answer`` is called nothing more is
read, and commands that the client has pipelined wait in order (RFC 2920). The verbs are in ``verbs.py``.
"""

from tmpmaild.smtp import otherprotocols, replies
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig
from tmpmaild.smtp.lines import MAX_LINE_BYTES, LineTooLong, LineWithoutEnd
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import END_OF_MAIL, Data, DelayedReply, Mail, Recipient, Request, Sender
from tmpmaild.smtp.verbs import Verbs, shown

MAX_OUTPUT_BYTES = 4 * 1024
_SLOW_FROM_ERRORS = 10
_MAX_ERRORS = 20
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
    def offers(self) -> str:
        """Whether AUTH and TLS were offered, for people."""
        auth = "AUTH" if self._auth.offered else "no AUTH"
        return f"it was offered {auth} and {'STARTTLS' if self._offers_tls else 'no STARTTLS'}"

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
        self._say(reply, "" if reply.is_positive else str(request or ""))
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
            self._react(auth.refuse_long_line(), b"")
            return True
        except LineWithoutEnd:
            self.close(replies.LINE_WITHOUT_END)
            return False
        if line is None:
            return False
        if auth.under_way:
            self._react(auth.respond(line), b"AUTH")
        else:
            self._react(self._command(line), line)
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
            self._say(result, END_OF_MAIL)

    def _react(self, result: Reply | Request | None, line: bytes) -> None:
        if result is None:
            return
        if not isinstance(result, Reply):
            self._request = result
        elif result.is_mistake:
            self._refuse(result, shown(line))
        else:
            self._say(result, "" if result.is_positive else shown(line))

    def _refuse(self, reply: Reply, command: str) -> None:
        """Count a mistake: after many the replies are delayed, after more the connection is closed."""
        self._errors += 1
        if self._errors >= _MAX_ERRORS:
            self.close(replies.TOO_MANY_ERRORS)
        elif self._errors >= _SLOW_FROM_ERRORS:
            self._request = DelayedReply(reply)
        else:
            self._say(reply, command)
