"""Responses while the storage is being opened; ``tests/e2e`` covers an unavailable database server."""

import socket

from tmpmaild.http.health import serving_health


async def test_connections_during_a_restart_are_left_for_the_daemon_itself():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving_health([listener]):
            client = socket.create_connection(listener.getsockname())
            client.sendall(b"GET /readyz HTTP/1.1\r\n")
        with client, listener.accept()[0] as accepted:
            assert accepted.recv(100) == b"GET /readyz HTTP/1.1\r\n"
