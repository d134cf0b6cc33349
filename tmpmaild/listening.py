"""How SMTP and HTTP listen on a socket that is bound: what the kernel may hold, and how often it is listened on."""

import socket

BACKLOG = 1024
# What the kernel may hold of what a client has sent. uvloop reads a full socket up to 32 times in a row before it looks
# at the next one; what fits one read is taken in turns.
_RECEIVE_BUFFER_BYTES = 64 * 1024
# uvloop accepts one connection per iteration from each listener; with one, a client would wait long behind a crowd.
_LISTENERS = 8


def listeners(bound: socket.socket) -> list[socket.socket]:
    """Return the socket and copies of it: each is to be listened on."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return [bound, *(bound.dup() for _ in range(_LISTENERS - 1))]
