"""One SMTP connection: passes bytes to the conversation, its requests to the handler, its replies to the transport.

The protocol is in ``conversation.py``, the decisions are in ``handler.py``. This module also has the time limits: how
long a client may be idle, how long it may leave replies unread, and how slowly a message may arrive. The base class is
aiosmtpd's ``SMTP``, for its Session and Envelope; its stream and its task are never started.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, cast

from aiosmtpd.smtp import SMTP, Session

from tmpmaild.clients import LOCAL
from tmpmaild.smtp import handshake, replies
from tmpmaild.smtp.connections import ClientAddress, Connections
from tmpmaild.smtp.conversation import MAX_OUTPUT_BYTES, Conversation
from tmpmaild.smtp.handler import Handler, SmtpEnvelope, our_fault
from tmpmaild.smtp.memory import MemoryAccount
from tmpmaild.smtp.replies import Data, DelayedReply, EndOfMail, MailFrom, Recipient, Reply, Request, StartTls

_MAX_BUFFERED_BYTES = 64 * 1024  # of unsent replies, and of unread input
_REPLY_DELAY_SECONDS = 1
_IDLE_SECONDS = 300
# When all connections are taken; within a transaction a client may be waiting for the sender whose mail it forwards.
_IDLE_AMONG_MANY_SECONDS = 2
_IDLE_IN_TRANSACTION_SECONDS = 20
_LAST_WORD_SECONDS = 1
_NOTED_SECONDS = 0.1  # commands in quick succession are recorded once
_UNREAD_SECONDS = 30
_RESERVED_SECONDS = 30  # for the declared size; after that only what has arrived counts
_RATE_SECONDS = 300
_MIN_BYTES_PER_SECOND = 500  # as Postfix's smtpd_min_data_rate

_NO_SENDER = SmtpEnvelope(MailFrom(""), None, LOCAL)

log = logging.getLogger(__name__)


class SmtpConnection(SMTP):
    """The protocol object of one connection. Its client is the client that a proxy has named, or the peer.

    With ``tls_first``, a certificate, nothing is sent before the TLS handshake (RFC 8314 §3.3).
    ``unread_since`` is the loop time since which the client has left replies unread, or None.
    """

    _transport: asyncio.Transport  # from connection_made on
    _address: ClientAddress
    _rate: "DataRate"  # of the incoming message

    def __init__(
        self,
        connections: Connections,
        handler: Handler,
        client: ClientAddress | None,
        tls_first: ssl.SSLContext | None,
    ) -> None:
        # The base's constructor builds a stream and searches the handler for hooks: a fifth of a short connection.
        self.loop = connections.loop
        self._handler = handler
        self._connections = connections
        self._number = next(connections.numbers)
        settings = connections.settings
        self.conversation = Conversation(
            settings.hostname,
            max_message_bytes=settings.max_message_bytes,
            max_recipients=settings.max_recipients,
            max_unknown_recipients=settings.max_unknown_recipients,
            offers_tls=connections.tls is not None,
            offers_auth=settings.auth == "any",
        )
        self._offered_tls = connections.tls or tls_first
        self._active_at = connections.loop.time()
        self._client = client
        self._tls_first = tls_first is not None
        self.remote_ip = LOCAL
        self._waiting = self._peer_done = self._stopping = False
        self.unread_since: float | None = None
        self._handshake: asyncio.Task[Reply | None] | None = None
        self._envelope = _NO_SENDER

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, or refuse the connection."""
        self.transport = self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_MAX_BUFFERED_BYTES)
        self.session = self._new_session()
        self.remote_ip = self._address[0]
        self._account = MemoryAccount(self._connections.memory, self._connections.client(self.remote_ip))
        refusal = self._connections.admit(self)
        if refusal:
            self.conversation.output.clear()
            self.conversation.close(refusal)
            if self._tls_first:  # such a client does not understand it
                self.conversation.output.clear()
        elif self._tls_first:
            self._transport.pause_reading()
            self._handshake = self._wait_for(self._start_tls())
            return
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Add bytes, and process them unless an answer is pending."""
        # An incomplete command is not activity: otherwise one byte at a time could keep a connection open for days.
        conversation, seconds = self.conversation, self.loop.time() - self._active_at
        if seconds > _NOTED_SECONDS and (b"\n" in data or conversation.data is not None):
            self._active_at = self._connections.touch(self)
        conversation.input.append(data)
        if not self._waiting:
            self._pump()
            if conversation.data is not None and conversation.data.too_big and not conversation.closed:
                self._transport.pause_reading()  # a discarded message is read in turns, so that it cannot starve others
                self.loop.call_later(self._connections.seconds_to_drain(), self._go_on)
        elif conversation.input.waiting_bytes > _MAX_BUFFERED_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection open for the reply to a message that is being stored; no more data will be received."""
        self._peer_done = True
        self._envelope.end_wait(replies.TIMEOUT)
        return self._waiting and not self.conversation.tls

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; a message that was handed over is still stored."""
        del error
        if self.transport is None:
            return
        self.transport = None
        self._envelope.end_wait(replies.TIMEOUT)
        self.conversation.closed = True
        if not self._waiting:
            self._account.release()
        self._connections.forget(self)
        refused, encrypted = self._connections.refused, bool(self.session and self.session.ssl)
        if refused.wanted and (missed := self.conversation.departure(encrypted=encrypted)):
            refused.add(self.remote_ip, *missed)

    def pause_writing(self) -> None:
        """Stop reading commands from a client that does not read its replies."""
        self.unread_since = self.loop.time()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Process the input that has arrived in the meantime."""
        if not self.conversation.closed:
            self.unread_since = None
            self._go_on()

    # What the server calls.

    def stop(self) -> None:
        """Close the connection, after the reply to a message that is being received or stored."""
        self._stopping = True
        self._envelope.end_wait(replies.STOPPING)
        if self._handshake and not self._handshake.done():  # no reply is due, and a handshake may never end
            self.abort()
        elif not self._busy:
            self._close(replies.STOPPING)

    def abort(self) -> None:
        """Close the connection at once; send 421 unless a reply is due (RFC 5321 §3.8)."""
        if not self._waiting:
            self._close(replies.STOPPING)
        self._transport.abort()
        if self._handshake:
            self._handshake.cancel()

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow or does not read, at loop time ``now``."""
        data = self.conversation.data
        trickles = data is not None and not self._waiting and self._rate.is_too_slow(now, data.received_bytes)
        if self.unread_since is not None and now - self.unread_since > _UNREAD_SECONDS:
            self._transport.abort()
        elif trickles or (not self._waiting and now - self._active_at > _IDLE_SECONDS):
            self._close(replies.TIMEOUT)
        elif data is not None and now - self._rate.since > _RESERVED_SECONDS:
            self._account.keep(data.held_bytes)

    def give_way(self, now: float) -> bool:
        """Close the connection if the client is idle and nothing is in progress; return whether it was closed."""
        if self._handshake and not self._handshake.done() and now - self._active_at >= _IDLE_AMONG_MANY_SECONDS:
            self.abort()
            return True
        limit_seconds = _IDLE_IN_TRANSACTION_SECONDS if self.conversation.in_transaction else _IDLE_AMONG_MANY_SECONDS
        if self._busy or self.conversation.closed or now - self._active_at < limit_seconds:
            return False
        self._close(replies.IDLE)
        self.loop.call_later(_LAST_WORD_SECONDS, self._transport.abort)  # a new connection has already taken its place
        return True

    # Between the conversation and the handler.

    def _pump(self) -> None:
        """Run the conversation until it needs input or an answer that takes time, or until the client must read."""
        conversation = self.conversation
        try:
            if self.unread_since is None:
                while (request := conversation.next_request()) is not None:
                    reply = self._ANSWERS[type(request)](self, request)
                    if reply is None:
                        break
                    conversation.answer(reply)
        except Exception as error:  # noqa: BLE001 - logged there
            conversation.close(our_fault(error))
        if self._stopping and not self._busy:
            conversation.close(replies.STOPPING)
        if not self._waiting:
            if self._account.in_use or conversation.data is not None:
                self._settle_account()
            if len(conversation.output) >= MAX_OUTPUT_BYTES:
                self._waiting = True  # until other connections have had their turn
                self.loop.call_soon(self._answered, None)
        elif conversation.input.waiting_bytes > _MAX_BUFFERED_BYTES:
            self._transport.pause_reading()
        self._flush()

    # One method for each kind of request; None means that the reply follows later.

    def _answer_sender(self, request: MailFrom) -> Reply:
        self._envelope = SmtpEnvelope(request, self._connections.client(self.remote_ip), self.remote_ip)
        return self._handler.answer_sender(self._envelope)

    def _answer_recipient(self, request: Recipient) -> Reply | None:
        reply = self._handler.answer_recipient_now(self._envelope, request)
        if reply is None:
            self._wait_for(self._handler.answer_recipient(self._envelope, request))
        return reply

    def _answer_data(self, request: Data) -> Reply | None:
        if not self._handler.may_refuse_data(self._envelope):
            return self._accept_data(request)
        self._wait_for(self._handler.answer_data(self._envelope, partial(self._accept_data, request)))
        return None

    def _accept_data(self, request: Data) -> Reply:
        self._rate = DataRate(self._active_at)
        self._envelope.data_at_ms = self._handler.clock()
        return replies.GO_AHEAD if self._account.reserve(request.size_bytes) else replies.MEMORY_FULL

    def _answer_mail(self, request: EndOfMail) -> Reply | None:
        if not self._account.hold(len(request.content)):
            self._connections.metrics.count_mail(replies.MEMORY_FULL)
            return replies.MEMORY_FULL
        self._envelope.content = request.content
        self._envelope.greeting, self._envelope.auth = request.greeting, request.auth
        assert self.session is not None
        self.session.host_name = self.conversation.helo
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
        MailFrom: _answer_sender,
        Recipient: _answer_recipient,
        Data: _answer_data,
        EndOfMail: _answer_mail,
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
        self._envelope.content = None  # a connection may stay open for hours after a message of megabytes
        if self.transport is None:
            self._account.release()
            return
        conversation = self.conversation
        if reply is not None:
            conversation.answer(reply)
        if self._stopping and not self._busy:
            conversation.close(replies.STOPPING)
        if conversation.closed:
            self._flush()
        self._go_on()
        if self._peer_done and not self._waiting:
            self._transport.close()

    def _go_on(self) -> None:
        if not (self._waiting or self.conversation.closed):
            self._pump()
            if not self._waiting and self.unread_since is None:
                self._transport.resume_reading()

    def _flush(self) -> None:
        conversation = self.conversation
        output = conversation.output
        if conversation.refusals:
            self._connections.report(self.remote_ip, self._number, conversation.refusals)
            conversation.refusals.clear()
        for reply in conversation.discarded:
            self._connections.metrics.count_mail(reply)
        conversation.discarded.clear()
        if output:
            if not self._transport.is_closing():
                self._transport.write(bytes(output))
            output.clear()
        if conversation.closed:
            self._transport.close()
            if self.unread_since is None:  # a close waits for the client to read its last replies
                self.unread_since = self.loop.time()

    def _settle_account(self) -> None:
        data = self.conversation.data
        if data is None:
            self._account.release()
        elif not self._account.hold(data.held_bytes):
            self.conversation.drop_mail(replies.MEMORY_FULL)

    def _new_session(self) -> Session:
        session = Session(self.loop)
        self._address = self._client or self._transport.get_extra_info("peername") or (LOCAL, 0)
        session.peer = self._address  # type: ignore[assignment] # aiosmtpd declares a string
        return session

    async def _start_tls(self) -> None:
        """Perform the TLS handshake, and discard everything received in clear text (RFC 3207 §4.2)."""
        transport = self._transport
        if self.transport is None or transport.is_closing():  # a handshake on it would never end
            self.connection_lost(None)
            return
        octets = self.conversation.tls_started()  # now: commands may come with the end of the handshake
        encrypted = await self._shake_hands(octets if self._tls_first else b"")
        if encrypted is None:
            if not transport.is_closing():  # otherwise it is closing after an alert
                transport.abort()
            self.connection_lost(None)  # asyncio does not call it when a connection ends during the handshake
            return
        self.transport = self._transport = encrypted
        encrypted.set_write_buffer_limits(high=_MAX_BUFFERED_BYTES)
        self.session = self._new_session()
        cipher, version, _ = encrypted.get_extra_info("cipher")
        self.session.ssl = {"version": version, "cipher": cipher}

    async def _shake_hands(self, begun: bytes) -> asyncio.Transport | None:
        """Return the encrypted transport, or None if the handshake fails. ``begun`` is the part already received."""
        context = self._connections.tls or self._offered_tls
        assert context is not None
        try:
            return await handshake.perform(self._transport, self, context, begun)
        except (OSError, ssl.SSLError) as error:
            log.debug("TLS handshake failed: %s", error)
            self._connections.refused.add(self.remote_ip, replies.HANDSHAKE, handshake.reason(error))
            return None

    def _close(self, reply: Reply) -> None:
        self.conversation.close(reply)
        self._flush()

    @property
    def _busy(self) -> bool:
        return self._waiting or self.conversation.data is not None


class DataRate:
    """Measures how fast one message arrives. ``since`` is the loop time of the last measurement."""

    __slots__ = ("_bytes", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self._bytes = 0

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """Return whether the message has recently arrived too slowly; measures only once every few minutes."""
        seconds = now - self.since
        if seconds <= _RATE_SECONDS:
            return False
        # Since the last time, not since DATA: otherwise a message that starts fast could be stretched over a day.
        more_bytes = received_bytes - self._bytes
        self.since, self._bytes = now, received_bytes
        return more_bytes < seconds * _MIN_BYTES_PER_SECOND
