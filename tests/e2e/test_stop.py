"""The daemon shuts down cleanly, regardless of what its connected clients are doing."""

import signal
import socket
import time

import pytest

from patience import PATIENCE_SECONDS


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    return client, client.makefile("rb")


def ask(daemon, target):
    client, lines = connect(daemon.http_port)
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return client, lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_the_connections_of_all_clients_properly(start, number):
    daemon = start()
    idle, idle_lines = connect(daemon.smtp_port)
    assert idle_lines.readline().startswith(b"220 ")
    silent_http, _ = connect(daemon.http_port)
    kept, kept_lines = connect(daemon.http_port)
    kept.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    assert kept_lines.readline().startswith(b"HTTP/1.1 404")
    address = daemon.create()
    following, events = ask(daemon, f"/api/v1/addresses/{address}/events")
    while events.readline() != b"retry: 10000\n":
        pass
    waiting, answer = ask(daemon, f"/api/v1/addresses/{address}/messages?wait=50")
    time.sleep(0.2)  # the test cannot observe that a request is waiting
    assert daemon.stop(number) == 0
    assert idle_lines.read() == b"421 4.3.2 Service is stopping\r\n"
    assert events.read().endswith(b"\r\n0\r\n\r\n")
    assert answer.readline().startswith(b"HTTP/1.1 503")
    assert b'"code":"stopping"' in answer.read()
    for client in (idle, silent_http, kept, following, waiting):
        client.close()
    assert daemon.errors() == ""


def test_a_message_in_progress_gets_its_reply(start):
    daemon = start()
    address = daemon.create()
    client, lines = connect(daemon.smtp_port)
    lines.readline()
    client.sendall(b"HELO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<%b>\r\nDATA\r\n" % address.encode())
    while not lines.readline().startswith(b"354"):
        pass
    client.sendall(b"Subject: late\r\n\r\n")
    daemon.process.send_signal(signal.SIGTERM)
    # After the listener has closed, the daemon only waits for this message.
    while _accepts(daemon.smtp_port):
        pass
    client.sendall(b"body\r\n.\r\n")
    assert lines.readline().startswith(b"250 2.0.0 Ok: stored as msg_")
    assert lines.readline() == b"421 4.3.2 Service is stopping\r\n"
    assert daemon.process.wait(PATIENCE_SECONDS) == 0
    client.close()
    again = start(daemon.folder)
    assert [message["subject"] for message in again.messages(address)] == ["late"]


def _accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
    except ConnectionError:
        return False
    return True


def test_a_second_signal_changes_nothing(start):
    daemon = start()
    client, _ = connect(daemon.smtp_port)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(PATIENCE_SECONDS) == 0
    assert daemon.errors() == ""
    client.close()
