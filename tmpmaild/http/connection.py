"""One HTTP connection: reads and writes its socket within time limits, and closes it without losing a response.

Constants without a leading underscore are limits that tests reduce.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import h11
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import EventWrapper
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from tmpmaild.http.http1 import Http1, Protocol, Requests

READ_BYTES = 16 * 1024  # the maximum number of bytes per read
SEND_SECONDS = 30
LINGER_SECONDS = 2
FIRST_REQUEST_SECONDS = 0.5
POLL_SECONDS = 1
_SLOW_READER_SECONDS = 300  # time to send the kernel's buffer; after 30 s without progress, the kernel gives up
_UNSENT_BYTES = 64 * 1024
_EARLY_BYTES = 64 * 1024
_LINGER_ZERO = struct.pack("ii", 1, 0)  # struct linger of socket(7): close() sends a RST

_Address = tuple[str, int] | None


def abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection immediately and discard unsent data."""
    # A transport that was closed after sending a full buffer no longer has a loop, but does not report itself as
    # closed.
    with suppress(AttributeError):
        writer.transport.abort()


class HttpConnection(TCPServer):
    """A Hypercorn connection that differs as follows.

    It supports only HTTP/1. When the client disconnects, the connection is freed immediately. A client that does not
    read its response is disconnected. The application need not read a request body, and a client that is still sending
    the body can read the response.

    A client that only closes its sending side cannot be distinguished from a client that disconnects. In both cases,
    Hypercorn sends the application a disconnect event, but still writes the application's response. Only waits and
    streams act on this event.
    """

    _discarding = _is_left_open = False
    _idle_since: float | None = None  # None while the connection serves a request or is closing
    _timer: asyncio.TimerHandle  # one timer for all requests; Hypercorn would start and cancel a task for each request

    async def run(self) -> None:
        """Serve the client until either side closes the connection."""
        self._task = asyncio.current_task()
        self._received_all = asyncio.Event()
        try:
            ends = self.writer.get_extra_info("socket")
            client = parse_socket_addr(ends.family, ends.getpeername())
            server = parse_socket_addr(ends.family, ends.getsockname())
            async with Requests(self.loop) as self._task_group:
                self.protocol = self._http1(client, server)  # type: ignore[assignment]
                self._made_at = self._idle_since = self.loop.time()
                self._close_if_idle()
                try:
                    await self._read_data()
                finally:
                    self._idle_since = None
                    self._timer.cancel()
        except OSError:
            pass  # the client disconnected before its address could be read
        finally:
            await self._close()

    def _http1(self, client: _Address, server: _Address) -> Protocol:
        protocol = Protocol(
            self.app,
            self.config,
            self.context,
            self._task_group,
            ConnectionState(self.state),
            False,  # noqa: FBT003 - a proxy terminates TLS
            client,
            server,
            self.protocol_send,
        )
        protocol.connection = Http1(h11.SERVER)
        protocol.can_read = _MayContinue(partial(self._read_early_data, protocol))
        return protocol

    def _close_if_idle(self) -> None:
        """Close the connection if it has been idle for too long; otherwise, check again later.

        When the server stops, a new connection stays open briefly. Its first request may be in transit or unread, in
        which case closing would reset the connection. Hypercorn closes it after that request.
        """
        now = self.loop.time()
        if self._idle_since is None:
            ends_at = now + self.config.keep_alive_timeout
        elif self.context.terminated.is_set():
            ends_at = self._made_at + FIRST_REQUEST_SECONDS
        else:
            ends_at = self._idle_since + self.config.keep_alive_timeout
        if now < ends_at:
            self._timer = self.loop.call_later(ends_at - now, self._close_if_idle)
        elif self._is_being_read() and now < ends_at + _SLOW_READER_SECONDS:
            self._timer = self.loop.call_later(POLL_SECONDS, self._close_if_idle)
        else:
            self.close_idle()

    @property
    def idle_since(self) -> float | None:
        """The loop time at which the connection became idle; None while it is not idle."""
        return self._idle_since

    def close_idle(self) -> None:
        """Close the idle connection."""
        self._timer.cancel()
        self._idle_since = None
        self._task_group.spawn(self._initiate_server_close)

    def stop(self) -> None:
        """Close the connection if it is idle; ``terminated`` has been set."""
        if self._idle_since is not None:
            self._timer.cancel()
            self._close_if_idle()

    async def _read_data(self) -> None:
        try:
            while data := await self._receive():
                if not self._discarding:
                    await self.protocol.handle(RawData(data))
                del data  # thousands of clients may be waiting here, each having sent most of a header
        except _ClientGoneError:
            pass
        finally:
            self._received_all.set()
        await self.protocol.handle(Closed())

    async def _read_early_data(self, protocol: H11Protocol, may_continue: asyncio.Event) -> None:
        """Wait until a pipelined request, received before the previous response was complete, may be handled.

        In the meantime, continue reading, because only a read detects a disconnect, and buffer the data that arrives.
        """
        waiting = asyncio.ensure_future(may_continue.wait())
        early = b""
        try:
            while not may_continue.is_set():
                reading = asyncio.ensure_future(self._receive())
                await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
                data = await _result(reading)
                if data == b"" or len(early) > _EARLY_BYTES:
                    raise _ClientGoneError
                early += data or b""
        finally:
            waiting.cancel()
        if early:
            protocol.connection.receive_data(early)

    async def _receive(self) -> bytes:
        try:
            return await self.reader.read(READ_BYTES)
        except OSError:
            return b""

    async def protocol_send(self, event: Event) -> None:
        """Handle an event of the protocol: send data, close, or record whether the connection is idle."""
        if isinstance(event, RawData):
            await self._send(event.data)
        elif isinstance(event, Updated) and not (event.idle and self._received_all.is_set()):
            self._idle_since = self.loop.time() if event.idle else None
        else:
            await self._close()

    async def _send(self, data: bytes) -> None:
        # A request may have arrived while its idle connection was being closed to make room. asyncio warns about
        # writing to a closed connection, and raises an error for writing after write_eof().
        if self.writer.is_closing() or self._discarding or not data:
            return
        self.writer.write(data)
        if self.writer.transport.get_write_buffer_size() <= _UNSENT_BYTES:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.writer.drain()
        except OSError:  # TimeoutError too
            self._cut()

    def _cut(self) -> None:
        self._reset()
        if self._task is not None and not self._is_own_task():
            self._task.cancel()

    def _is_own_task(self) -> bool:
        return asyncio.current_task() is self._task

    async def _initiate_server_close(self) -> None:
        await self.protocol.handle(Closed())
        await self._close()

    async def _close(self) -> None:
        """Send the buffered data, then close; if the response is incomplete, discard its buffered data.

        The connection of a slow reader stays open until the client has read most of the response. If it were closed
        earlier, data in the kernel's buffers would not count towards any client's limit.
        """
        if self._is_cut_off():
            self._reset()
        if self._is_being_read() and await self._leave_open():
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._linger()
                self.writer.close()
                await self.writer.wait_closed()
        except OSError:  # TimeoutError too
            self._cut()

    async def _linger(self) -> None:
        # RFC 9112 §9.6: closing the connection with unread data resets it, and the response may be lost.
        if self._discarding or self._received_all.is_set() or not self._may_be_sending() or self.writer.is_closing():
            return
        self._discarding = True
        with suppress(OSError):  # TimeoutError too
            self.writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                if self._is_own_task():
                    while await self._receive():
                        pass
                else:
                    await self._received_all.wait()

    async def _leave_open(self) -> bool:
        """Close the sending side and wait for the client to read; return whether the connection is closed elsewhere."""
        was_left_open, self._is_left_open, self._discarding = self._is_left_open, True, True
        if not was_left_open:
            self.writer.write_eof()
        if not self._is_own_task() and self._received_all.is_set():
            return True  # ``run`` is about to return and will close the connection
        if not self._is_own_task() and not was_left_open:
            self._idle_since = self.loop.time() - self.config.keep_alive_timeout
            self._close_if_idle()
            return True
        ends_at = self.loop.time() + (_SLOW_READER_SECONDS if self._is_own_task() else 0)
        while self._is_being_read() and self.loop.time() < ends_at:
            await asyncio.sleep(POLL_SECONDS)
        if self._is_being_read():
            self._reset()
        return False

    def has_unsent(self, more_than: int = 0) -> bool:
        """Return whether more than this number of bytes are unsent here or unacknowledged in the kernel."""
        if self.writer.is_closing():
            return False
        if self.writer.transport.get_write_buffer_size() > more_than:
            return True
        raw = self.writer.get_extra_info("socket")
        try:
            (unsent_bytes,) = struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))  # tcp(7)
        except OSError:
            return False
        return bool(unsent_bytes > more_than)

    def _is_being_read(self) -> bool:
        return self.has_unsent(_UNSENT_BYTES)

    def _is_cut_off(self) -> bool:
        protocol = getattr(self, "protocol", None)
        return protocol is not None and protocol.connection.our_state is h11.SEND_BODY

    def _reset(self) -> None:
        """Close with a RST, so that the kernel drops unsent data, which may contain expired mail."""
        if not self.writer.is_closing():
            raw = self.writer.get_extra_info("socket")
            with suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        abort(self.writer)

    def _may_be_sending(self) -> bool:
        """Return whether the client may still be sending a body or a refused request."""
        protocol = getattr(self, "protocol", None)
        return protocol is not None and protocol.connection.their_state in {h11.SEND_BODY, h11.ERROR}


async def _result(reading: asyncio.Future[bytes]) -> bytes | None:
    """Return the data that was read; if the read has not finished, cancel it and return None."""
    if reading.done():
        return reading.result()
    reading.cancel()
    await asyncio.wait({reading})
    return None


class _ClientGoneError(Exception):
    """Raised if the client has disconnected, or has sent too much data before its response was complete."""


class _MayContinue(EventWrapper):
    """An event that is set when the protocol may continue with the next request; waiting for it calls ``wait``."""

    def __init__(self, wait: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        super().__init__()
        self._wait = wait

    async def wait(self) -> None:
        """Wait until the event is set."""
        await self._wait(self._event)
