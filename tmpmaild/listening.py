"""Settings for listening on a bound socket, for SMTP and HTTP: the receive buffer and the number of listeners."""

import socket

from tmpmaild.errors import CannotListen

BACKLOG = 1024
# The size of the kernel's receive buffer for a connection. uvloop reads from a full socket up to 32 times in a row
# before it serves the next socket. Sockets are served in turn if the whole buffer fits into a single read.
_RECEIVE_BUFFER_BYTES = 64 * 1024
# uvloop accepts one connection per iteration from each listener. With a single listener, many clients would wait a long
# time.
_LISTENERS = 8


def listeners(bound: socket.socket) -> list[socket.socket]:
    """Listen on a bound socket; return it and its duplicates, from each of which the caller accepts connections.

    Raises ``CannotListen`` if another process listens on the same address. Two processes that start at the same time
    can both bind an address, because SO_REUSEADDR is set, and uvloop does not report that listening failed.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        place = "{}:{}".format(*bound.getsockname()[:2])
        raise CannotListen(f"cannot listen on {place}: {error.strerror or error}") from error
    return [bound, *(bound.dup() for _ in range(_LISTENERS - 1))]
