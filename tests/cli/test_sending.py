"""``tmpmaild send``: where a mail goes, and what is said when it does not get there."""

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


def test_a_mail_of_ones_own_is_sent_as_it_is(call, smtp, inbox, tmp_path):
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
def test_without_a_server_the_mail_goes_to_that_of_the_configuration(url):
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
def test_a_url_of_another_service_never_has_mail_go_to_ours(url):
    with pytest.raises(UsageError, match="--server HOST:PORT"):
        sending.default_server(OURS, url)


def test_a_url_of_another_service_is_wrong_usage_that_names_the_option(call):
    done = call("send", "a@mail.example.com", TMPMAILD_URL="http://tmpmaild:8025")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "$TMPMAILD_URL is http://tmpmaild:8025, " in done.stderr
    assert "specify where it accepts mail with --server HOST:PORT" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_one_line(call, smtp):
    done = call("send", "a@mail.example.com", "/proc/self/mem", "--server", smtp)
    assert (done.exit_code, done.stderr) == (1, "tmpmaild: /proc/self/mem: cannot be read: Input/output error\n")


@pytest.mark.parametrize("address", ["nobody@mail.example.com", "ü@mail.example.com"])
def test_a_refusal_is_told_in_the_words_of_the_server(call, smtp, address):
    done = call("send", address, "--server", smtp)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: {smtp} did not accept the message: 550 5.1.1 No such address here\n"


def test_nobody_there_is_told_with_the_option_for_another_place(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    done = call("send", "a@mail.example.com", "--server", place)
    assert done.exit_code == 1
    assert (
        done.stderr == f"tmpmaild: {place}: connection refused; if mail is accepted elsewhere, use --server HOST:PORT\n"
    )


@pytest.mark.parametrize("place", ["nowhere", "127.0.0.1:0", "127.0.0.1:port"])
def test_what_is_no_place_is_wrong_usage(call, place):
    done = call("send", "a@mail.example.com", "--server", place)
    assert (done.exit_code, "HOST:PORT is expected, like 127.0.0.1:1025" in done.stderr) == (2, True)


def test_the_http_port_is_told_from_a_mail_server(call, daemon):
    place = f"127.0.0.1:{daemon.http_port}"
    done = call("send", "a@mail.example.com", "--server", place)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: {place} speaks HTTP, not SMTP: use --server HOST:PORT\n"


def test_a_port_that_waits_for_tls_is_soon_told_from_a_mail_server(answering):
    with (
        answering(None, b"\x15\x03\x03\x00\x02\x02\x46") as place,
        pytest.raises(StartError, match="speaks TLS from the first octet, not SMTP"),
    ):
        sending.deliver(b"", "", "a@x.test", place)


@pytest.fixture
def answering():
    """Return a context of a server that says this to one connection after the other; None is silence until it ends."""

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


def test_a_server_that_does_not_greet_is_not_waited_for_long(hanging):
    place = f"127.0.0.1:{hanging.getsockname()[1]}"
    with pytest.raises(StartError, match="no answer of a mail server in time"):
        sending.deliver(b"", "", "a@x.test", place, greeting_seconds=0.1)


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it does not speak SMTP"),
        (b"554 No\r\n", "554 No"),
        (b"220 x\r\n221 y\r\n250 x\r\n", "does not accept addresses with characters outside of ASCII"),
        (b"", "the connection was closed"),
    ],
)
def test_a_server_that_is_none_for_this_is_told(answering, greeting, told):
    with answering(greeting) as place, pytest.raises(StartError, match=told):
        sending.deliver(b"", "", "ü@x.test", place)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(option):
    done = CliRunner().invoke(main, [option])
    assert (done.exit_code, done.stdout) == (0, f"tmpmaild {__version__}\n")


@pytest.mark.parametrize("command", [["check-config"], ["completion", "bash"]])
def test_an_output_that_cannot_be_written_is_one_line(redirected, command):
    done = redirected("> /dev/full", *command)
    assert done.returncode == (4 if "completion" in command else 1)
    assert done.stderr == "tmpmaild: cannot write: No space left on device\n"


def test_ctrl_c_ends_the_sending_without_a_word(run, hanging):
    place = f"127.0.0.1:{hanging.getsockname()[1]}"
    # The signal may come before smtplib has kept the socket that it has connected: then Python warns of it.
    sending = run("send", "a@mail.example.com", "--server", place, PYTHONWARNINGS="ignore")
    connection, _ = hanging.accept()
    with connection:
        time.sleep(0.2)  # nothing shows from outside that the client has its socket and reads
        assert sending.interrupt() == 130
    assert (sending.seen, sending.errors()) == ("", "")
