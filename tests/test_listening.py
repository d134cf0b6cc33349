"""How often a socket is listened on, and what the kernel may hold."""

import socket

from tmpmaild.listening import listeners


def test_a_socket_is_listened_on_eight_times_at_one_place_and_little_is_held():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        copies = listeners(bound)
        assert len({one.fileno() for one in copies}) == 8
        assert {one.getsockname() for one in copies} == {bound.getsockname()}
        assert bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 64 * 1024  # as Linux counts it
        for one in copies[1:]:
            one.close()
