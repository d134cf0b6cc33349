"""The sockets that the configuration names."""

import contextlib
import socket
import stat

import pytest

from tmpmaild.errors import StartError
from tmpmaild.listen import bind_all, name


def test_any_free_port_is_told_by_its_number():
    (listener,) = bind_all(["127.0.0.1:0"])
    with listener:
        assert name(listener) == f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_unix_socket_replaces_what_an_earlier_run_left(tmp_path):
    path = tmp_path / "http.sock"
    for _ in range(2):
        (listener,) = bind_all([f"unix:{path}"])
        listener.close()
    assert name_of(path) == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def name_of(path):
    (listener,) = bind_all([f"unix:{path}"])
    with listener:
        return name(listener)


def test_a_file_that_is_no_socket_is_not_removed(tmp_path):
    path = tmp_path / "precious"
    path.write_text("x")
    with pytest.raises(StartError, match="precious"):
        bind_all([f"unix:{path}"])
    assert path.read_text() == "x"


def test_all_are_bound_or_none():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = socket.create_server(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        with pytest.raises(StartError, match=f"127.0.0.1:{port}: Address already in use"):
            bind_all([f"127.0.0.1:{other}", f"127.0.0.1:{port}"])
        with contextlib.closing(bind_all([f"127.0.0.1:{other}"])[0]):
            pass
