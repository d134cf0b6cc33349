"""The number of listening copies of a socket, the size of their kernel buffers, and an address that is in use."""

import re
import socket
from contextlib import closing

import pytest

from tmpmaild.errors import StartError
from tmpmaild.listening import listeners


def test_eight_sockets_listen_on_the_same_address_with_small_buffers():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        copies = listeners(bound)
        assert len({one.fileno() for one in copies}) == 8
        assert {one.getsockname() for one in copies} == {bound.getsockname()}
        assert bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 64 * 1024  # Linux doubles the size
        for one in copies[1:]:
            one.close()


def test_of_two_sockets_that_are_bound_to_one_address_only_the_first_listens():
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        for one in (first, second):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        second.bind(first.getsockname())
        copies = listeners(first)
        place = re.escape("{}:{}".format(*first.getsockname()))
        with pytest.raises(StartError, match=f"^cannot listen on {place}: Address already in use$"):
            listeners(second)
        for one in copies[1:]:
            one.close()
