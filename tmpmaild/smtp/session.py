"""One SMTP connection: passes bytes to the conversation, its requests to the handler, and replies to the transport.

``conversation.py`` contains the protocol, and ``handler.py`` makes the decisions. This module also contains the time
limits: how long a client may be idle, how long it may leave replies unread, and how slowly a message may arrive. The
base class is aiosmtpd's ``SMTP``, which provides Session and Envelope; its stream and task are never started.
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

_MAX_BUFFERED_BYTES = 64 * 1024  # the limit on unsent replies and on unread input
_REPLY_DELAY_SECONDS = 1
_IDLE_SECONDS = 300
# These shorter limits apply once the maximum number of connections is reached. Within a transaction, a client may be
# waiting for the sender whose mail it forwards.
_IDLE_AMONG_MANY_SECONDS = 2
_IDLE_IN_TRANSACTION_SECONDS = 20
_CLOSE_SECONDS = 1
_ACTIVITY_INTERVAL_SECONDS = 0.1  # several commands in quick succession are recorded only once
_UNREAD_SECONDS = 30
_RESERVED_SECONDS = 30  # how long memory is reserved for the declared size
_RATE_SECONDS = 300
_MIN_BYTES_PER_SECOND = 500  # the default value of Postfix's smtpd_min_data_rate

_NO_SENDER = SmtpEnvelope(MailFrom(""), None, LOCAL)

log = logging.getLogger(__name__)


class SmtpConnection(SMTP):
    """The protocol object for one connection. The client is the peer, unless a proxy has specified a different client.

    If ``tls_first`` is not None, nothing is sent before the TLS handshake (RFC 8314 §3.3). ``unread_since``
    is the loop time at which the client stopped reading replies; None if it is reading them.
    """

    _transport: asyncio.Transport  # set in connection_made
    _address: ClientAddress
    _rate: "DataRate"  # the transfer rate of the incoming message

    def __init__(
        self,
        connections: Connections,
        handler: Handler,
        client: ClientAddress | None,
        tls_first: ssl.SSLContext | None,
    ) -> None:
        # The base class constructor builds a stream and searches the handler for hooks, which takes a fifth of a short
        # connection's time.
        self.loop = connections.loop
        self._handler = handler
        self._connections = connections
        self._number = next(connections.numbers)
        settings = connections.settings
        self.conversation = Conversation(
            settings.hostname,
            max_message_bytes=settings.max_message_bytes,
            max_recipients=settings.max_recipients,
            lenient=settings.lenient,
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

    # Methods that the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, or refuse the connection."""
        self.transport = self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_MAX_BUFFERED_BYTES)
        self.session = self._new_session()
        self.remote_ip = self._address[0]
        self._account = MemoryAccount(self._connections.memory, self._connections.client(self.remote_ip))
        refusal = self._connections.admit(self)
        if refusal:
            self.conversation.output.clear()
            self.conversation.close(refusal)
            if self._tls_first:  # a client that expects TLS does not understand the reply
                self.conversation.output.clear()
        elif self._tls_first:
            self._transport.pause_reading()
            self._handshake = self._wait_for(self._start_tls())
            return
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Add bytes, and process them unless a reply is pending."""
        # An incomplete command does not count as activity: otherwise a client that sends one byte at a time could keep
        # a connection open for days.
        conversation, seconds = self.conversation, self.loop.time() - self._active_at
        if seconds > _ACTIVITY_INTERVAL_SECONDS and (b"\n" in data or conversation.data is not None):
            self._active_at = self._connections.touch(self)
        conversation.input.append(data)
        if not self._waiting:
            self._pump()
            if conversation.data is not None and conversation.data.too_big and not conversation.closed:
                self._transport.pause_reading()  # discarded data is read in turns, so it cannot starve other clients
                self.loop.call_later(self._connections.seconds_to_drain(), self._continue)
        elif conversation.input.waiting_bytes > _MAX_BUFFERED_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection open for the reply to a message that is being stored; no more data will be received."""
        self._peer_done = True
        self._envelope.end_wait(replies.TIMEOUT)
        return self._waiting and not self.conversation.tls

    def connection_lost(self, error: Exception | None) -> None:
        """Clean up after the connection; a message that was already passed to storage is still stored."""
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
        """Resume, and process the input that has arrived in the meantime."""
        if not self.conversation.closed:
            self.unread_since = None
            self._continue()

    # Methods that the server calls.

    def stop(self) -> None:
        """Close the connection, but reply first to a message that is being received or stored."""
        self._stopping = True
        self._envelope.end_wait(replies.STOPPING)
        if self._handshake and not self._handshake.done():  # no reply is due, and a handshake may never finish
            self.abort()
        elif not self._busy:
            self._close(replies.STOPPING)

    def abort(self) -> None:
        """Close the connection immediately; send 421 unless a reply is due (RFC 5321 §3.8)."""
        if not self._waiting:
            self._close(replies.STOPPING)
        self._transport.abort()
        if self._handshake:
            self._handshake.cancel()

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow, or not reading replies, at loop time ``now``."""
        data = self.conversation.data
        trickles = data is not None and not self._waiting and self._rate.is_too_slow(now, data.received_bytes)
        if self.unread_since is not None and now - self.unread_since > _UNREAD_SECONDS:
            self._transport.abort()
        elif trickles or (not self._waiting and now - self._active_at > _IDLE_SECONDS):
            self._close(replies.TIMEOUT)
        elif data is not None and now - self._rate.since > _RESERVED_SECONDS:
            self._account.keep(data.held_bytes)

    def close_if_idle(self, now: float) -> bool:
        """Close the connection if the client is idle and nothing is in progress; return whether it was closed."""
        if self._handshake and not self._handshake.done() and now - self._active_at >= _IDLE_AMONG_MANY_SECONDS:
            self.abort()
            return True
        limit_seconds = _IDLE_IN_TRANSACTION_SECONDS if self.conversation.in_transaction else _IDLE_AMONG_MANY_SECONDS
        if self._busy or self.conversation.closed or now - self._active_at < limit_seconds:
            return False
        self._close(replies.IDLE)
        self.loop.call_later(_CLOSE_SECONDS, self._transport.abort)  # a new connection is already open
        return True

    # Methods that connect the conversation with the handler.

    def _pump(self) -> None:
        """Run the conversation until it must wait for input, for a reply, or for the client to read its replies."""
        conversation = self.conversation
        try:
            if self.unread_since is None:
                while (request := conversation.next_request()) is not None:
                    reply = self._HANDLERS[type(request)](self, request)
                    if reply is None:
                        break
                    conversation.resolve(reply)
        except Exception as error:  # noqa: BLE001 - logged there
            conversation.close(our_fault(error))
        if self._stopping and not self._busy:
            conversation.close(replies.STOPPING)
        if not self._waiting:
            if self._account.in_use or conversation.data is not None:
                self._settle_account()
            if len(conversation.output) >= MAX_OUTPUT_BYTES:
                self._waiting = True  # resume after serving other connections
                self.loop.call_soon(self._resume, None)
        elif conversation.input.waiting_bytes > _MAX_BUFFERED_BYTES:
            self._transport.pause_reading()
        self._flush()

    # One method for each kind of request; None means that the reply follows later.

    def _reply_to_sender(self, request: MailFrom) -> Reply:
        self._envelope = SmtpEnvelope(request, self._connections.client(self.remote_ip), self.remote_ip)
        return self._handler.reply_to_sender(self._envelope)

    def _reply_to_recipient(self, request: Recipient) -> Reply | None:
        reply = self._handler.reply_to_recipient_now(self._envelope, request)
        if reply is None:
            self._wait_for(self._handler.reply_to_recipient(self._envelope, request))
        return reply

    def _reply_to_data(self, request: Data) -> Reply | None:
        if not self._handler.may_refuse_data(self._envelope):
            return self._accept_data(request)
        self._wait_for(self._handler.reply_to_data(self._envelope, partial(self._accept_data, request)))
        return None

    def _accept_data(self, request: Data) -> Reply:
        self._rate = DataRate(self._active_at)
        self._envelope.data_at_ms = self._handler.clock()
        return replies.GO_AHEAD if self._account.reserve(request.size_bytes) else replies.MEMORY_FULL

    def _reply_to_message(self, request: EndOfMail) -> Reply | None:
        if not self._account.hold(len(request.content)):
            self._connections.metrics.count_mail(replies.MEMORY_FULL)
            return replies.MEMORY_FULL
        self._envelope.content = request.content
        self._envelope.greeting, self._envelope.auth = request.greeting, request.auth
        assert self.session is not None
        self.session.host_name = self.conversation.helo
        self._wait_for(self._handler.reply_to_message(self.session, self._envelope))
        return None

    def _delay_reply(self, request: DelayedReply) -> None:
        self._waiting = True
        self.loop.call_later(_REPLY_DELAY_SECONDS, self._resume, request.reply)

    def _prepare_tls(self, _: StartTls) -> None:
        self._transport.pause_reading()  # paused before the reply, because a ClientHello follows it
        self._flush()
        self._handshake = self._wait_for(self._start_tls())

    _HANDLERS: ClassVar[dict[type[Request], Callable[[Any, Any], Reply | None]]] = {
        MailFrom: _reply_to_sender,
        Recipient: _reply_to_recipient,
        Data: _reply_to_data,
        EndOfMail: _reply_to_message,
        DelayedReply: _delay_reply,
        StartTls: _prepare_tls,
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
            self._resume(our_fault(error) if error else task.result())

    def _resume(self, reply: Reply | None) -> None:
        self._waiting = False
        self._envelope.content = None  # a connection may stay open for hours after a large message
        if self.transport is None:
            self._account.release()
            return
        conversation = self.conversation
        if reply is not None:
            conversation.resolve(reply)
        if self._stopping and not self._busy:
            conversation.close(replies.STOPPING)
        if conversation.closed:
            self._flush()
        self._continue()
        if self._peer_done and not self._waiting:
            self._transport.close()

    def _continue(self) -> None:
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
            if self.unread_since is None:  # the transport closes after the client has read the final replies
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
        if self.transport is None or transport.is_closing():  # a handshake on a closed transport would never finish
            self.connection_lost(None)
            return
        early = self.conversation.tls_started()  # called first, because commands may follow the handshake immediately
        encrypted = await self._perform_handshake(early if self._tls_first else b"")
        if encrypted is None:
            if not transport.is_closing():  # if it is closing, an alert has been sent
                transport.abort()
            self.connection_lost(None)  # asyncio does not call this when a handshake is interrupted
            return
        self.transport = self._transport = encrypted
        encrypted.set_write_buffer_limits(high=_MAX_BUFFERED_BYTES)
        self.session = self._new_session()
        cipher, version, _ = encrypted.get_extra_info("cipher")
        self.session.ssl = {"version": version, "cipher": cipher}

    async def _perform_handshake(self, early: bytes) -> asyncio.Transport | None:
        """Return the encrypted transport, or None if the handshake fails.

        ``early`` is the start of the client's ClientHello.
        """
        context = self._connections.tls or self._offered_tls
        assert context is not None
        try:
            return await handshake.perform(self._transport, self, context, early)
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
    """Measures the transfer rate of one message. ``since`` is the loop time of the last measurement."""

    __slots__ = ("_bytes", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self._bytes = 0

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """Return whether the message has recently been too slow; the rate is measured only once every few minutes."""
        seconds = now - self.since
        if seconds <= _RATE_SECONDS:
            return False
        # The rate is measured since the previous check, not since DATA: otherwise a client that starts fast could
        # spread a message over a whole day.
        more_bytes = received_bytes - self._bytes
        self.since, self._bytes = now, received_bytes
        return more_bytes < seconds * _MIN_BYTES_PER_SECOND
