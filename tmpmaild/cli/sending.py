"""The command ``send``: sends a message over SMTP."""

import os
import smtplib
import socket
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import click

from tmpmaild.cli import configured, console
from tmpmaild.cli.configured import clear_errors, config_option
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.config.validators import Endpoint, parse_endpoint
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import reachable

_SAMPLE = """\
From: Alice <alice@example.com>\r
To: {address}\r
Subject: Hello from tmpmaild\r
\r
It works. Your code is 481 516.\r
"""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_READY = 220  # RFC 5321 §4.3.2
_GREETING_SECONDS = 10
_SILENT_SECONDS = 1  # RFC 5321 §3.1: the server speaks first; a silent server may use a different protocol
_REPLY_SECONDS = 60


@click.command()
@click.argument("address", callback=configured.expect_address)
@click.argument("file", type=configured.Input("rb"), required=False)
@click.option(
    "--server",
    metavar="HOST:PORT",
    callback=configured.expect_host_and_port,
    help="SMTP server. Default: the first address in smtp.listen; required if $TMPMAILD_URL is a different service.",
)
@click.option(
    "--sender",
    default="alice@example.com",
    show_default=True,
    callback=configured.expect_sender,
    help="Envelope sender; may be empty.",
)
@config_option
@clear_errors
def send(address: str, file: BinaryIO | None, server: str | None, sender: str, config_path: Path | None) -> None:
    """Send a message to ADDRESS at a running tmpmaild over SMTP.

    FILE is the message (- for standard input); without it, a short sample is sent.
    """
    url = os.environ.get("TMPMAILD_URL", "")
    target = server or default_server(configfile.load(config_path, os.environ), url)
    message = _read(file) if file else _SAMPLE.format(address=address).encode()
    deliver(message, sender, address, target)
    configured.say(f"sent to {address}")


def _read(file: BinaryIO) -> bytes:
    try:
        return file.read()
    except OSError as error:
        raise StartError(f"{file.name}: cannot be read: {error.strerror or error}") from error


def default_server(config: Config, url: str) -> str:
    """Return the address at which the configured service accepts mail.

    ``url`` is the value of ``$TMPMAILD_URL``, or "". Raises UsageError if this URL belongs to a different service,
    whose SMTP address is unknown.
    """
    if url and not _is_served_by(config, url):
        raise click.UsageError(
            f"$TMPMAILD_URL is {url}, which is not the service configured here: "
            "specify where it accepts mail with --server HOST:PORT"
        )
    return reachable(config.smtp.listen[0])


def _is_served_by(config: Config, url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return False
    if config.http.public_url and parts.netloc.lower() == urlsplit(config.http.public_url).netloc:
        return True
    listening = [parse_endpoint(reachable(one)) for one in config.http.listen if not one.startswith("unix:")]
    return any(port == one.port and _is_same_host(parts.hostname or "", one) for one in listening)


def _is_same_host(host: str, listening: Endpoint) -> bool:
    return host == listening.host or (host in _LOCAL_NAMES and listening.host in _LOCAL_NAMES)


def deliver(
    message: bytes, sender: str, address: str, target: str, greeting_seconds: float = _GREETING_SECONDS
) -> None:
    """Send a message to HOST:PORT. Raises StartError with the reason if sending fails."""
    try:
        with closing(_greeted(target, greeting_seconds)) as client:
            _converse(client, sender, address, message)
    except smtplib.SMTPRecipientsRefused as error:
        ((code, text),) = error.recipients.values()
        raise StartError(f"{target} did not accept the message: {_reply(code, text)}") from error
    except smtplib.SMTPResponseException as error:
        raise StartError(f"{target} did not accept the message: {_reply(error.smtp_code, error.smtp_error)}") from error
    except UnicodeEncodeError as error:
        raise StartError(f"{target} does not accept addresses with non-ASCII characters") from error
    except (OSError, smtplib.SMTPException) as error:
        raise StartError(
            f"{target}: {_reason(error)}; if mail is accepted elsewhere, use --server HOST:PORT"
        ) from error


def _greeted(target: str, seconds: float) -> smtplib.SMTP:
    """Connect and wait for the greeting. Raises StartError as soon as it is clear that this is not a mail server."""
    server = parse_endpoint(target)
    try:
        return _connected(server, min(seconds, _SILENT_SECONDS))
    except smtplib.SMTPServerDisconnected as error:
        if not isinstance(error.__context__, TimeoutError):
            raise
        if spoken := _protocol_of(server, min(seconds, _SILENT_SECONDS)):
            raise StartError(f"{target} speaks {spoken}, not SMTP: use --server HOST:PORT") from error
    except TimeoutError:
        pass
    console.print_to_stderr(f"{target} has not sent a greeting yet; waiting for {seconds:g} s")
    return _connected(server, seconds)


def _connected(server: Endpoint, seconds: float) -> smtplib.SMTP:
    # Passing a name saves a DNS query for the full host name.
    client = smtplib.SMTP(local_hostname="localhost", timeout=seconds)
    with ExitStack() as stack:
        stack.callback(client.close)
        code, text = client.connect(server.host, server.port)
        if code != _READY:
            raise smtplib.SMTPConnectError(code, text)
        stack.pop_all()
    return client


def _protocol_of(server: Endpoint, seconds: float) -> str:
    """Return the protocol of a silent server, judging by its response to an HTTP request; "" if unknown."""
    with suppress(OSError), socket.create_connection((server.host, server.port), timeout=seconds) as probe:
        probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = probe.recv(64)
        if answer.startswith(b"HTTP/"):
            return "HTTP"
        if answer.startswith(b"\x15\x03"):  # a TLS alert (RFC 8446 §5.1)
            return "implicit TLS"
    return ""


def _converse(client: smtplib.SMTP, sender: str, address: str, message: bytes) -> None:
    assert client.sock is not None
    client.sock.settimeout(_REPLY_SECONDS)
    client.ehlo_or_helo_if_needed()
    client.sendmail(sender, [address], message, [] if (sender + address).isascii() else ["SMTPUTF8"])
    with suppress(smtplib.SMTPException, OSError):  # the message is already accepted
        client.quit()


def _reply(code: int, text: bytes | str) -> str:
    """Return a server reply as one line."""
    shown = " ".join((text.decode(errors="replace") if isinstance(text, bytes) else text).split())
    return f"{code} {shown}" if code > 0 else "it does not speak SMTP"


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError() | smtplib.SMTPServerDisconnected(__context__=TimeoutError()):
            return "no mail server responded in time"
        case smtplib.SMTPServerDisconnected():
            return "the connection was closed"
        case socket.gaierror():
            return (error.strerror or str(error)).lower()
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
    return str(error).rstrip(".").lower()
