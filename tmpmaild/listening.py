"""Settings for listening on a bound socket, for SMTP and HTTP: the receive buffer and the number of listeners."""

import socket

BACKLOG = 1024
# The size of the kernel's receive buffer for a connection. uvloop reads from a socket that is full up to 32 times in a
# row before it serves the next one; sockets take turns if the whole buffer fits into one read.
_RECEIVE_BUFFER_BYTES = 64 * 1024
# uvloop accepts one connection per iteration from each listener; with only one, a client would wait long in a crowd.
_LISTENERS = 8


def listeners(bound: socket.socket) -> list[socket.socket]:
    """Return the socket and duplicates of it; the caller listens on each."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return [bound, *(bound.dup() for _ in range(_LISTENERS - 1))]
