"""Sockets specified in the configuration."""

import contextlib
import errno
import os
import socket
import stat

import pytest

from tmpmaild.config.settings import Config, Http, Metrics, Smtp
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import bind, bind_all, name


def test_a_free_port_is_reported_with_its_number():
    (listener,) = bind_all(["127.0.0.1:0"])
    with listener:
        assert name(listener) == f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_unix_socket_of_an_earlier_run_is_replaced_but_no_other_file(tmp_path):
    path = tmp_path / "http.sock"
    for _ in range(2):
        (listener,) = bind_all([f"unix:{path}"])
        listener.close()
    assert name_of(path) == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    path = tmp_path / "precious"
    path.write_text("x")
    with pytest.raises(StartError, match="precious"):
        bind_all([f"unix:{path}"])
    assert path.read_text() == "x"


def name_of(path):
    (listener,) = bind_all([f"unix:{path}"])
    with listener:
        return name(listener)


def test_either_all_sockets_are_bound_or_none():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = socket.create_server(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        with pytest.raises(StartError, match=f"127.0.0.1:{port}: Address already in use"):
            bind_all([f"127.0.0.1:{other}", f"127.0.0.1:{port}"])
        with contextlib.closing(bind_all([f"127.0.0.1:{other}"])[0]):
            pass


@pytest.fixture
def resolve(monkeypatch):
    """Resolve ``mail.test`` to these addresses."""
    really = socket.getaddrinfo

    def set_addresses(*addresses):
        def getaddrinfo(host, port, **options):
            hosts = addresses if host == "mail.test" else [host]
            return [found for one in hosts for found in really(one, port, **options)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return set_addresses


def bound(text):
    with contextlib.ExitStack() as closing:
        return [closing.enter_context(listener).getsockname()[0] for listener in bind_all([text])]


def test_a_name_is_bound_once_at_each_of_its_local_addresses_and_refused_without_any(resolve):
    resolve("127.0.0.1", "127.0.0.2", "203.0.113.1", "127.0.0.1")
    assert bound("mail.test:0") == ["127.0.0.1", "127.0.0.2"]
    resolve("203.0.113.1", "203.0.113.2")
    with pytest.raises(StartError, match=r"mail\.test:0: Cannot assign requested address"):
        bind_all(["mail.test:0"])


def test_a_used_address_of_a_name_is_refused_and_the_others_are_released(resolve):
    resolve("127.0.0.1", "127.0.0.2")
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"mail\.test:{port}: Address already in use"):
            bind_all([f"mail.test:{port}"])
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.fixture
def no_ipv6(monkeypatch):
    """Disable IPv6, as on a kernel booted with ``ipv6.disable=1``."""
    really = socket.socket

    def make(family=-1, *arguments, **options):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return really(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", make)


@pytest.mark.usefixtures("no_ipv6")
def test_without_ipv6_the_ipv6_wildcard_may_be_missing_next_to_the_ipv4_wildcard(caplog):
    (listener,) = bind_all(["[::]:0", "0.0.0.0:0"])
    with listener:
        assert listener.family == socket.AF_INET
    (record,) = caplog.records
    assert (
        record.getMessage()
        == "not listening on [::]:0, because this machine has no IPv6: Address family not supported by protocol"
    )


@pytest.mark.usefixtures("no_ipv6")
@pytest.mark.parametrize(
    "texts", [["[::]:0"], ["[::]:0", "127.0.0.1:0"], ["[::]:0", "0.0.0.0:1"], ["[::1]:0", "0.0.0.0:0"]]
)
def test_without_ipv6_any_other_ipv6_address_is_refused(texts, caplog):
    with pytest.raises(StartError, match="Address family not supported"):
        bind_all(texts)
    assert not caplog.records


@pytest.mark.parametrize(
    ("key", "section"),
    [
        ("http.listen", {"http": Http(listen=("192.0.2.1:0",))}),
        ("smtp.listen", {"smtp": Smtp(listen=("192.0.2.1:0",))}),
        ("smtp.tls_listen", {"smtp": Smtp(listen=("127.0.0.1:0",), tls_listen=("192.0.2.1:0",))}),
        ("metrics.listen", {"metrics": Metrics(listen="192.0.2.1:0")}),
    ],
)
def test_the_key_of_an_address_that_cannot_be_bound_is_named(key, section):
    on_free_ports = {"http": Http(listen=("127.0.0.1:0",)), "smtp": Smtp(listen=("127.0.0.1:0",))}
    with pytest.raises(StartError) as refused:
        bind(Config(**on_free_ports | section))
    reason = "Cannot assign requested address; this machine does not have this address"
    assert str(refused.value) == f"{key}: cannot listen on 192.0.2.1:0: {reason}"


def test_a_port_that_only_root_may_use_is_explained(monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(
        StartError, match=r"127\.0\.0\.1:25: Permission denied; a port below 1024 requires root or CAP_NET"
    ):
        bind_all(["127.0.0.1:25"])
    with pytest.raises(StartError, match=r"unix:/none/x\.sock: Permission denied$"):
        bind_all(["unix:/none/x.sock"])
