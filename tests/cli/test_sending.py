"""``tmpmaild send``: the server it sends to, and its errors when the message is not delivered."""

import socket
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from click import UsageError
from click.testing import CliRunner

from tmpmaild import __version__
from tmpmaild.cli import sending
from tmpmaild.cli.main import main
from tmpmaild.config.settings import Config, Http, Smtp
from tmpmaild.errors import StartError

OURS = Config(
    http=Http(listen=("0.0.0.0:8025",), public_url="https://mail.example/tmp"), smtp=Smtp(listen=("[::]:25",))
)


@pytest.fixture
def smtp(daemon):
    return f"127.0.0.1:{daemon.smtp_port}"


def test_a_given_message_is_sent_unchanged(call, smtp, inbox, tmp_path):
    file = tmp_path / "mail.eml"
    file.write_bytes(b"Subject: mine\r\n\r\n.dots\r\n")
    done = call("send", inbox.address, file, "--server", smtp)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"sent to {inbox.address}\n", "")
    (mail,) = inbox.messages()
    assert (mail.subject, mail.text) == ("mine", ".dots\n")


def test_a_bounce_has_no_sender(call, smtp, inbox):
    assert call("send", inbox.address, "--sender", "", "--server", smtp).exit_code == 0
    assert inbox.messages()[0].details().envelope.sender == ""


@pytest.mark.parametrize(
    "url", ["", "http://localhost:8025", "http://127.0.0.1:8025/", "http://[::1]:8025", "https://MAIL.example/tmp"]
)
def test_without_a_server_option_the_configured_server_is_used(url):
    assert sending.default_server(OURS, url) == "[::1]:25"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8026",
        "http://tmpmaild:8025",
        "https://localhost",
        "http://a:port",
        "localhost:8025",
        "http://[",
    ],
)
def test_with_the_url_of_another_service_no_mail_is_sent_to_our_service(url):
    with pytest.raises(UsageError, match="--server HOST:PORT"):
        sending.default_server(OURS, url)


def test_a_url_of_another_service_is_wrong_usage_that_names_the_option(call):
    done = call("send", "a@mail.example.com", TMPMAILD_URL="http://tmpmaild:8025")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "$TMPMAILD_URL is http://tmpmaild:8025, " in done.stderr
    assert "specify where it accepts mail with --server HOST:PORT" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="requires a file that can be opened but not read")
def test_a_file_that_cannot_be_read_is_reported_in_one_line(call, smtp):
    done = call("send", "a@mail.example.com", "/proc/self/mem", "--server", smtp)
    assert (done.exit_code, done.stderr) == (1, "tmpmaild: /proc/self/mem: cannot be read: Input/output error\n")


@pytest.mark.parametrize("address", ["nobody@mail.example.com", "ü@mail.example.com"])
def test_a_refusal_is_reported_in_the_words_of_the_server(call, smtp, address):
    done = call("send", address, "--server", smtp)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: {smtp} did not accept the message: 550 5.1.1 No such address here\n"


def test_an_unreachable_server_is_reported_with_the_option_that_selects_a_different_server(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    done = call("send", "a@mail.example.com", "--server", place)
    assert done.exit_code == 1
    assert (
        done.stderr == f"tmpmaild: {place}: connection refused; if mail is accepted elsewhere, use --server HOST:PORT\n"
    )


@pytest.mark.parametrize("place", ["nowhere", "127.0.0.1:0", "127.0.0.1:port"])
def test_an_invalid_server_address_is_wrong_usage(call, place):
    done = call("send", "a@mail.example.com", "--server", place)
    assert (done.exit_code, "expected HOST:PORT, such as 127.0.0.1:1025" in done.stderr) == (2, True)


def test_the_http_port_is_distinguished_from_a_mail_server(call, daemon):
    place = f"127.0.0.1:{daemon.http_port}"
    done = call("send", "a@mail.example.com", "--server", place)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: {place} speaks HTTP, not SMTP: use --server HOST:PORT\n"


def test_a_port_that_waits_for_tls_is_soon_distinguished_from_a_mail_server(answering):
    with (
        answering(None, b"\x15\x03\x03\x00\x02\x02\x46") as place,
        pytest.raises(StartError, match="speaks implicit TLS, not SMTP"),
    ):
        sending.deliver(b"", "", "a@x.test", place)


@pytest.fixture
def answering():
    """Return a context manager for a server that sends the next of these replies on each connection.

    For None, the server sends nothing.
    """

    def answer(server, said):
        for octets in said:
            connection, _ = server.accept()
            with connection:
                if octets is not None:
                    connection.sendall(octets)
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

    @contextmanager
    def answering(*said):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer, args=(server, said))
            thread.start()
            yield f"127.0.0.1:{server.getsockname()[1]}"
            thread.join()

    return answering


def test_the_command_does_not_wait_long_for_a_server_that_sends_no_greeting(hanging):
    place = f"127.0.0.1:{hanging.getsockname()[1]}"
    with pytest.raises(StartError, match="no mail server responded in time"):
        sending.deliver(b"", "", "a@x.test", place, greeting_seconds=0.1)


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it does not speak SMTP"),
        (b"554 No\r\n", "554 No"),
        (b"220 x\r\n221 y\r\n250 x\r\n", "does not accept addresses with non-ASCII characters"),
        (b"", "the connection was closed"),
    ],
)
def test_an_unsuitable_server_is_reported(answering, greeting, told):
    with answering(greeting) as place, pytest.raises(StartError, match=told):
        sending.deliver(b"", "", "ü@x.test", place)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(option):
    done = CliRunner().invoke(main, [option])
    assert (done.exit_code, done.stdout) == (0, f"tmpmaild {__version__}\n")


@pytest.mark.parametrize("command", [["check-config"], ["completion", "bash"]])
def test_an_unwritable_output_is_reported_in_one_line(redirected, command):
    done = redirected("> /dev/full", *command)
    assert done.returncode == (4 if "completion" in command else 1)
    assert done.stderr == "tmpmaild: cannot write: No space left on device\n"


def test_ctrl_c_stops_sending_without_output(run, hanging):
    place = f"127.0.0.1:{hanging.getsockname()[1]}"
    # If the signal arrives before smtplib has stored its connected socket, Python warns about the socket.
    sending = run("send", "a@mail.example.com", "--server", place, PYTHONWARNINGS="ignore")
    connection, _ = hanging.accept()
    with connection:
        time.sleep(0.2)  # the test cannot observe when the client starts reading
        assert sending.interrupt() == 130
    assert (sending.seen, sending.errors()) == ("", "")
