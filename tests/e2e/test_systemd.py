"""Features that the unit files rely on: passed sockets, the watchdog, and the exit codes."""

import os
import signal
import socket
from contextlib import closing

import pytest

from patience import PATIENCE_SECONDS


@pytest.fixture
def listeners():
    with socket.create_server(("127.0.0.1", 0)) as smtp, socket.create_server(("127.0.0.1", 0)) as http:
        yield {"smtp": smtp, "http": http}


def ports(listeners):
    return {name: listener.getsockname()[1] for name, listener in listeners.items()}


def test_a_restart_refuses_no_connection(start, listeners):
    """The configured addresses cannot be bound, so the daemon must use the passed sockets."""
    nowhere = {"TMPMAILD_SMTP__LISTEN": "203.0.113.1:25", "TMPMAILD_HTTP__LISTEN": "203.0.113.1:80"}
    daemon = start(listeners=listeners, **nowhere)
    assert {"smtp": daemon.smtp_port, "http": daemon.http_port} == ports(listeners)
    address = daemon.create()
    assert daemon.stop() == 0
    with closing(socket.create_connection(("127.0.0.1", daemon.smtp_port), timeout=PATIENCE_SECONDS)) as waiting:
        daemon.start()
        assert waiting.recv(1000).startswith(b"220 ")
    daemon.deliver_raw(address, b"Subject: after\r\n\r\nthe restart\r\n")
    assert [mail["subject"] for mail in daemon.messages(address)] == ["after"]
    assert "listening for smtp, http on sockets passed by systemd" in daemon.log()


@pytest.mark.cold
def test_one_socket_may_be_passed_without_the_other(start, listeners):
    daemon = start(listeners={"smtp": listeners["smtp"]})
    assert daemon.smtp_port == ports(listeners)["smtp"]
    assert daemon.create()


def test_a_unix_socket_created_by_systemd_is_kept(start, tmp_path):
    with closing(socket.socket(socket.AF_UNIX)) as metrics:
        metrics.bind(f"{tmp_path}/metrics.sock")
        metrics.listen()
        daemon = start(listeners={"metrics": metrics})
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.settimeout(PATIENCE_SECONDS)
            client.connect(f"{tmp_path}/metrics.sock")
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert daemon.stop() == 0
        assert (tmp_path / "metrics.sock").is_socket()


def test_the_watchdog_is_notified_once_the_daemon_is_ready_and_an_abort_logs_the_stacks(start, tmp_path):
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        supervisor.settimeout(PATIENCE_SECONDS)
        daemon = start(NOTIFY_SOCKET=f"{tmp_path}/notify", WATCHDOG_USEC="200000")
        heard = []
        while heard[-3:] != [b"WATCHDOG=1"] * 3:
            heard.append(supervisor.recv(100))
        assert b"READY=1" in heard
        assert daemon.stop(signal.SIGABRT) == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in daemon.errors()
    assert "in serve" in daemon.errors()


def test_a_mistake_in_the_configuration_has_a_separate_exit_code(command, tmp_path):
    (tmp_path / "tmpmaild.toml").write_text('[smtp]\nmax_connections = "many"\n')
    assert command("serve").returncode == os.EX_CONFIG == 78
    assert command("check-config").returncode == os.EX_CONFIG
