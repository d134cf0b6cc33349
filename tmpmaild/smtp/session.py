"""What happens to an SMTP connection: octets come in, the client or the server ends it, or it takes too long.

How its requests are answered is in ``exchange.py``.
"""

import asyncio
from typing import cast

from tmpmaild.smtp import replies
from tmpmaild.smtp.exchange import HANDSHAKE, MAX_UNSENT_BYTES, MAX_WAITING_BYTES, Exchange

_IDLE_SECONDS = 300
# When places run out; in a transaction a client may be waiting for the one whose mail it forwards.
_IDLE_AMONG_MANY_SECONDS = 2
_IDLE_IN_TRANSACTION_SECONDS = 20
_LAST_WORD_SECONDS = 1
_UNREAD_SECONDS = 30
_RESERVED_SECONDS = 30  # how long memory for the declared size is reserved; after that only what has come counts


class SmtpSession(Exchange):
    """The protocol object of one connection, of the client that a proxy has named or of the peer.

    With ``tls_first``, a certificate, nothing is said before the TLS handshake (RFC 8314 §3.3).
    """

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, or refuse the connection."""
        self.transport = transport
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self.session = self._new_session()
        self.remote_ip = cast("tuple[str, int]", self.session.peer)[0]
        self._account = self._connections.new_account(self.remote_ip)
        refusal = self._connections.admit(self)
        if refusal:
            self._conversation.output.clear()
            self._conversation.close(refusal)
            if self._tls_first:  # such a client does not understand it
                self._conversation.output.clear()
        elif self._tls_first:
            self._transport.pause_reading()
            self._handshake = self._wait_for(self._start_tls())
            return
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take octets; read them unless an answer is being waited for."""
        # An incomplete command is not activity: otherwise one octet at a time could keep a connection open for days.
        if b"\n" in data or self._conversation.receiving_data:
            self._active_at = self.loop.time()
            self._connections.touch(self)
        self._conversation.receive(data)
        if not self._waiting:
            self._pump()
            if self._conversation.draining and not self._conversation.closed:
                self._pause_drain()
        elif self._conversation.waiting_bytes > MAX_WAITING_BYTES:
            self._transport.pause_reading()

    def _pause_drain(self) -> None:
        """Pause until it is this session's turn: discarded mail is read in turns, so that it cannot starve others."""
        self._transport.pause_reading()
        self.loop.call_later(self._connections.seconds_to_drain(), self._go_on)

    def eof_received(self) -> bool:
        """Keep the connection open until a mail that is being stored is answered; nothing more will be received."""
        self._peer_done = True
        self._envelope.delay.end(replies.TIMEOUT)
        return self._waiting and not self._conversation.tls

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; a mail that was handed over is stored all the same."""
        del error
        if self.transport is None:
            return
        self.transport = None
        self._envelope.delay.end(replies.TIMEOUT)
        self._conversation.closed = True
        if not self._waiting:
            self._account.release()
        self._connections.forget(self)
        if self._connections.refused.wanted:
            self._note_departure()

    def _note_departure(self) -> None:
        """Note a connection that brought no mail although nothing was refused: the client may have missed something."""
        conversation, note = self._conversation, self._connections.refused.add
        if self.session and self.session.ssl and not conversation.helo:  # some clients judge a certificate only then
            note(self.remote_ip, HANDSHAKE, "the client left after it; does it trust the certificate?")
        elif conversation.helo and self._envelope.mail_from is None:
            note(self.remote_ip, "EHLO", f"the client left without a mail; {conversation.offers}")
        elif conversation.in_transaction and self._envelope.destinations:
            note(self.remote_ip, "DATA", "the client left before its mail was whole")

    def pause_writing(self) -> None:
        """Read no more commands from a client that does not read its replies."""
        self._unread_since = self.loop.time()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read what has come in the meantime."""
        if not self._conversation.closed:
            self._unread_since = None
            self._go_on()

    # What the server calls.

    def stop(self) -> None:
        """Close the connection, after the answer to a mail that is being received or stored."""
        self._stopping = True
        self._envelope.delay.end(replies.STOPPING)
        if self._shaking_hands:  # no answer is due, and a handshake may never end
            self.abort()
        elif not self._busy:
            self._close(replies.STOPPING)

    def abort(self) -> None:
        """Close the connection at once; send 421 if no answer is due (RFC 5321 §3.8)."""
        if not self._waiting:
            self._close(replies.STOPPING)
        self._transport.abort()
        if self._handshake:
            self._handshake.cancel()

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow or does not read, at loop time ``now``."""
        if self._unread_since is not None and now - self._unread_since > _UNREAD_SECONDS:
            self._transport.abort()
        elif not self._waiting and (now - self._active_at > _IDLE_SECONDS or self._trickles(now)):
            self._close(replies.TIMEOUT)
        elif self._conversation.receiving_data and now - self._pace.since > _RESERVED_SECONDS:
            self._account.keep(self._conversation.held_bytes)

    def give_way(self, now: float) -> bool:
        """Close the connection if the client has nothing under way and is idle; return whether it does so."""
        if self._shaking_hands and now - self._active_at >= _IDLE_AMONG_MANY_SECONDS:
            self.abort()
            return True
        limit_seconds = _IDLE_IN_TRANSACTION_SECONDS if self._conversation.in_transaction else _IDLE_AMONG_MANY_SECONDS
        if self._busy or self._conversation.closed or now - self._active_at < limit_seconds:
            return False
        self._close(replies.IDLE)
        self.loop.call_later(_LAST_WORD_SECONDS, self._transport.abort)  # its place is another's already
        return True

    def _trickles(self, now: float) -> bool:
        conversation = self._conversation
        return conversation.receiving_data and self._pace.is_too_slow(now, conversation.received_bytes)
