"""One SMTP connection between its conversation and the handler: requests are answered one after the other.

aiosmtpd's ``SMTP`` is the base, for its Session and Envelope; its stream and its task are never started. The protocol
is in ``conversation.py``, the decisions are in ``handler.py``, what happens to the connection is in ``session.py``.
"""

import asyncio
from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import Any, ClassVar, cast

from aiosmtpd.smtp import SMTP, Session

from tmpmaild.peers import LOCAL
from tmpmaild.smtp import replies
from tmpmaild.smtp.connections import Connections
from tmpmaild.smtp.conversation import MAX_OUTPUT_BYTES
from tmpmaild.smtp.handler import Handler, SmtpEnvelope, our_fault
from tmpmaild.smtp.handshake import shake_hands, terms
from tmpmaild.smtp.pace import Pace
from tmpmaild.smtp.proxyprotocol import Peer
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import Data, DelayedReply, Mail, Recipient, Request, Sender, StartTls

MAX_UNSENT_BYTES = 64 * 1024
MAX_WAITING_BYTES = 64 * 1024
_REPLY_DELAY_SECONDS = 1
HANDSHAKE = "the TLS handshake"


class Exchange(SMTP):
    """Moves requests and answers between the conversation and the handler, and its output to the transport."""

    _transport: asyncio.Transport  # from connection_made on

    def __init__(
        self, connections: Connections, handler: Handler, client: Peer | None, tls_first: SSLContext | None
    ) -> None:
        # The base's constructor builds a stream and searches the handler for hooks: a fifth of a short connection.
        self.loop = connections.loop
        self.event_handler = self._handler = handler
        self.hostname = connections.settings.hostname
        self._connections = connections
        self._conversation = connections.new_conversation()
        self._offered_tls = connections.tls or tls_first
        self._envelope = SmtpEnvelope()
        self._waiting = self._peer_done = self._stopping = False
        self._active_at = connections.loop.time()
        self._unread_since: float | None = None
        self._handshake: asyncio.Task[Reply | None] | None = None
        self._pace = Pace()
        self._client = client
        self._tls_first = tls_first is not None
        self.remote_ip = LOCAL
        self._account = connections.new_account(LOCAL)

    # Between the conversation and the handler.

    def _pump(self) -> None:
        """Run the conversation until it needs input, an answer that takes time, or the client to read."""
        conversation = self._conversation
        try:
            while not self._waiting and self._unread_since is None:
                request = conversation.next_request()
                if request is None:
                    break
                reply = self._ANSWERS[type(request)](self, request)
                if reply is not None:
                    conversation.answer(reply)
        except Exception as error:  # noqa: BLE001 - logged there
            conversation.close(our_fault(error))
        if self._stopping and not self._busy:
            conversation.close(replies.STOPPING)
        if not self._waiting:
            self._settle_account()
            if len(conversation.output) >= MAX_OUTPUT_BYTES:
                self._waiting = True  # until other connections have had their turn
                self.loop.call_soon(self._answered, None)
        elif conversation.waiting_bytes > MAX_WAITING_BYTES:
            self._transport.pause_reading()
        self._flush()

    # One method for each kind of request; None means that the answer comes later.

    def _answer_sender(self, request: Sender) -> Reply:
        self._envelope = SmtpEnvelope()
        self._envelope.mail_from = request.reverse_path
        self._envelope.parameters = request.parameters
        return self._handler.answer_sender(request.reverse_path, self.remote_ip)

    def _answer_recipient(self, request: Recipient) -> Reply | None:
        reply = self._handler.answer_recipient_now(self._envelope, request)
        if reply is None:
            self._wait_for(self._handler.answer_recipient(self._envelope, request))
        return reply

    def _answer_data(self, request: Data) -> Reply | None:
        def accept() -> Reply:
            self._pace.begin(self.loop.time())
            self._envelope.data_at_ms = self._handler.clock()
            return replies.GO_AHEAD if self._account.reserve(request.size_bytes) else replies.SYSTEM_FULL

        if not self._handler.may_refuse_data(self._envelope):
            return accept()
        self._wait_for(self._handler.answer_data(self._envelope, accept))
        return None

    def _answer_mail(self, request: Mail) -> Reply | None:
        if not self._account.hold(len(request.content)):
            return replies.SYSTEM_FULL
        self._envelope.content = request.content
        self._envelope.greeting, self._envelope.auth = request.greeting, request.auth
        assert self.session is not None
        self.session.host_name = self._conversation.helo
        self._wait_for(self._handler.answer_mail(self.session, self._envelope))
        return None

    def _delay_reply(self, request: DelayedReply) -> None:
        self._waiting = True
        self.loop.call_later(_REPLY_DELAY_SECONDS, self._answered, request.reply)

    def _answer_starttls(self, _: StartTls) -> None:
        self._transport.pause_reading()  # before the reply: what the client sends after it is its TLS hello
        self._flush()
        self._handshake = self._wait_for(self._start_tls())

    _ANSWERS: ClassVar[dict[type[Request], Callable[[Any, Any], Reply | None]]] = {
        Sender: _answer_sender,
        Recipient: _answer_recipient,
        Data: _answer_data,
        Mail: _answer_mail,
        DelayedReply: _delay_reply,
        StartTls: _answer_starttls,
    }

    def _wait_for(self, coroutine: Coroutine[Any, Any, Reply | None]) -> asyncio.Task[Reply | None]:
        self._waiting = True
        task = self.loop.create_task(coroutine)
        self._connections.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Reply | None]) -> None:
        self._connections.tasks.discard(task)
        if task.cancelled():
            self._waiting = False
            self.connection_lost(None)
        else:
            error = task.exception()
            self._answered(our_fault(error) if error else task.result())

    def _answered(self, reply: Reply | None) -> None:
        self._waiting = False
        self._envelope.content = None  # a connection may be open for hours after a mail of megabytes
        if self.transport is None:
            self._account.release()
            return
        if reply is not None:
            self._conversation.answer(reply)
        if self._stopping and not self._busy:
            self._conversation.close(replies.STOPPING)
        if self._conversation.closed:
            self._flush()
        self._go_on()
        if self._peer_done and not self._waiting:
            self._transport.close()

    def _go_on(self) -> None:
        if self._waiting or self._conversation.closed:
            return
        self._pump()
        if not self._waiting and self._unread_since is None:
            self._transport.resume_reading()

    def _flush(self) -> None:
        output = self._conversation.output
        if self._conversation.refusals:
            self._connections.report(self.remote_ip, self._conversation.refusals)
            self._conversation.refusals.clear()
        if output:
            if not self._transport.is_closing():
                self._transport.write(bytes(output))
            output.clear()
        if self._conversation.closed:
            self._transport.close()
            if self._unread_since is None:  # a close waits for the client to read its last replies
                self._unread_since = self.loop.time()

    def _settle_account(self) -> None:
        if not self._conversation.receiving_data:
            self._account.release()
        elif not self._account.hold(self._conversation.held_bytes):
            self._conversation.drop_mail(replies.SYSTEM_FULL)

    def _new_session(self) -> Session:
        session = Session(self.loop)
        peer = self._client or self._transport.get_extra_info("peername") or (LOCAL, 0)
        session.peer = cast("Any", peer)  # typed as a str, which it never is
        return session

    async def _start_tls(self) -> None:
        """Do the TLS handshake, and discard everything received in the clear (RFC 3207 §4.2)."""
        context = self._connections.tls or self._offered_tls
        assert context is not None
        if self.transport is None or self._transport.is_closing():  # a handshake would never end on it
            self.connection_lost(None)
            return
        octets = self._conversation.tls_started()  # now: commands may come with the end of the handshake
        hello = octets if self._tls_first else b""  # after STARTTLS it is what was said in the clear
        transport = await shake_hands(self._transport, self, context, hello, self._note_handshake)
        if transport is None:
            self.connection_lost(None)  # asyncio does not call it when a connection ends during the handshake
            return
        self.transport = self._transport = transport
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self.session = self._new_session()
        self.session.ssl = terms(transport)

    def _note_handshake(self, reason: str) -> None:
        self._connections.refused.add(self.remote_ip, HANDSHAKE, reason)

    def _close(self, reply: Reply) -> None:
        self._conversation.close(reply)
        self._flush()

    @property
    def _shaking_hands(self) -> bool:
        return self._handshake is not None and not self._handshake.done()

    @property
    def _busy(self) -> bool:
        return self._waiting or self._conversation.receiving_data
