"""Under attack the daemon's memory stays small and honest mail gets its 250. How fast, ``make proof WHAT=attack`` measures."""

import re
import select
import smtplib
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

MIB = 1024 * 1024
MAX_MEMORY_MIB = 200
MAIL_BYTES = 9_900_000
EHLOS = b"EHLO x\r\n" * (20 * MIB // 8)
GENEROUS_SECONDS = 60


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    """Return a daemon that lets one client do all that a thousand could; it has its own modules in its memory."""
    return start_in(tmp_path_factory.mktemp("attacked"), is_warm=False)


@pytest.fixture
def attacked(daemon):
    """Return the daemon, whose memory is measured anew."""
    with suppress(OSError):  # where that is not allowed, all tests together stay below the limit
        Path(f"/proc/{daemon.process.pid}/clear_refs").write_text("5")
    return daemon


def assert_mail_is_taken(daemon, address):
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="localhost", timeout=GENEROUS_SECONDS) as honest:
        assert honest.sendmail("a@example.com", [address], "Subject: honest\r\n\r\nmail\r\n") == {}


def assert_memory_stayed_small(daemon):
    # VmHWM is the most it has had in this test: nobody needs to look at the right moment.
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024 < MAX_MEMORY_MIB
    assert daemon.errors() == ""


def connect(daemon, _, stack):
    """Return a greeted connection and the file of its replies, both closed with the stack."""
    client = socket.create_connection(("127.0.0.1", daemon.smtp_port), timeout=GENEROUS_SECONDS)
    replies = client.makefile("rb")
    stack.callback(client.close)
    stack.callback(replies.close)
    client.sendall(b"HELO attacker.example\r\n")
    assert replies.readline().startswith(b"220")
    assert replies.readline().startswith(b"250")
    return client, replies


def begin_mail(daemon, address, stack):
    client, replies = connect(daemon, address, stack)
    client.sendall(b"MAIL FROM:<a@example.com>\r\nRCPT TO:<%b>\r\nDATA\r\n" % address.encode())
    assert [replies.readline()[:3] for _ in range(3)] == [b"250", b"250", b"354"]
    return client, replies


@pytest.mark.proof
def test_mails_of_empty_lines_from_ten_at_once(attacked):
    address = attacked.create()
    answers = []

    def send():
        with ExitStack() as stack:
            client, replies = begin_mail(attacked, address, stack)
            client.sendall(b"\r\n" * (MAIL_BYTES // 2) + b".\r\n")
            answers.append(replies.readline()[:9])

    attackers = [threading.Thread(target=send) for _ in range(10)]
    for attacker in attackers:
        attacker.start()
    while any(attacker.is_alive() for attacker in attackers):
        assert_mail_is_taken(attacked, address)
    assert len(answers) == 10
    assert set(answers) <= {b"250 2.0.0", b"452 4.3.2"}
    assert b"250 2.0.0" in answers
    assert_memory_stayed_small(attacked)


def test_thirty_mails_that_are_held_unfinished_and_undeclared(attacked):
    address = attacked.create()
    filling = (b"x" * 70 + b"\r\n") * (6 * MIB // 72)  # thirty of these and the daemon are more than there may be
    with ExitStack() as stack:
        for _ in range(30):
            client, _ = begin_mail(attacked, address, stack)
            client.sendall(filling)
        assert_mail_is_taken(attacked, address)
        assert_memory_stayed_small(attacked)


@pytest.mark.proof
def test_five_who_pipeline_without_reading_replies(attacked):
    address = attacked.create()
    with ExitStack() as stack:
        unsent = {connect(attacked, address, stack)[0]: memoryview(EHLOS) for _ in range(5)}
        # At some point the daemon reads no more. That it answers a mail gives it the time to come to that point.
        while sum(advance(client, unsent) for client in unsent):
            assert_mail_is_taken(attacked, address)
        assert_memory_stayed_small(attacked)


def advance(client, unsent):
    """Send what can be sent at once; return how much that was."""
    before = len(unsent[client])
    while unsent[client] and select.select([], [client], [], 0)[1]:
        unsent[client] = unsent[client][client.send(unsent[client]) :]
    return before - len(unsent[client])


@pytest.mark.proof
@pytest.mark.parametrize("begin", [begin_mail, connect], ids=["data", "command"])
def test_three_lines_that_do_not_end(attacked, begin):
    address = attacked.create()
    with ExitStack() as stack:
        clients = [begin(attacked, address, stack) for _ in range(3)]
        for mebibytes in (20, 40):
            for client, _ in clients:
                with suppress(ConnectionError):  # at some point the daemon hangs up
                    for _ in range(mebibytes):
                        client.sendall(b"x" * MIB)
            assert_mail_is_taken(attacked, address)
        assert [replies.readline()[:9] for _, replies in clients] == [b"421 4.7.0"] * 3
        assert_memory_stayed_small(attacked)
