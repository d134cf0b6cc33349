"""Under attack, memory usage stays small and honest messages are accepted.

``make proof WHAT=attack`` runs the other attacks.
"""

import socket
from contextlib import ExitStack

from patience import PATIENCE_SECONDS

MIB = 1024 * 1024
MAX_MEMORY_MIB = 200


def begin_mail(daemon, address, stack):
    """Return a connection on which the server waits for the message; ``stack`` closes the connection."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.smtp_port), timeout=PATIENCE_SECONDS))
    replies = stack.enter_context(client.makefile("rb"))
    client.sendall(b"HELO attacker.example\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<%b>\r\nDATA\r\n" % address.encode())
    assert [replies.readline()[:3] for _ in range(5)] == [b"220", b"250", b"250", b"250", b"354"]
    return client


def test_thirty_unfinished_messages_without_a_declared_size(tmp_path, start_in):
    # No limit per client; a cold start, so that only the daemon's memory is measured.
    daemon = start_in(tmp_path, is_warm=False)
    address = daemon.create()
    filling = (b"x" * 70 + b"\r\n") * (6 * MIB // 72)  # thirty of these messages would exceed the daemon's limit
    with ExitStack() as stack:
        for _ in range(30):
            begin_mail(daemon, address, stack).sendall(filling)
        with daemon.smtp(timeout=PATIENCE_SECONDS) as honest:
            assert honest.sendmail("a@example.com", [address], "Subject: honest\r\n\r\nmail\r\n") == {}
        assert daemon.memory_mib("VmHWM") < MAX_MEMORY_MIB
    assert daemon.errors() == ""
