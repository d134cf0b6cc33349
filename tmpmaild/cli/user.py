"""What people and tests do: create addresses, read their mail, send one. ``mailcommands.py`` has the client."""

import os
import signal
import smtplib
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec
from urllib.parse import urlsplit

import click

from tmpmaild import __version__
from tmpmaild.cli import configured, console
from tmpmaild.cli.configured import clear_errors, config_option
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.config.validators import Endpoint, parse_endpoint
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import reachable

P = ParamSpec("P")

_USAGE = 2
_NO_OUTPUT = 4
_CTRL_C = 128 + signal.SIGINT
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
_SILENT_SECONDS = 1  # RFC 5321 §3.1: the server speaks first, so one that is silent so long may speak something else
_REPLY_SECONDS = 60

_server = click.option(
    "--server", metavar="URL", help="Where the service is. Default: $TMPMAILD_URL, else http://127.0.0.1:8025."
)
_token = click.option(
    "--token", envvar="TMPMAILD_TOKEN", help="The token of the address, if it is private. Default: $TMPMAILD_TOKEN."
)
_address = click.argument("address", callback=configured.expect_address)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")


def _needing(module: str, command: Callable[P, int]) -> Callable[P, None]:
    """Exit with the code that a command returns; if what a module needs is not installed, print what to install."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            import_module(module)
            code = command(*args, **kwargs)
        except ImportError as error:
            click.echo(f"tmpmaild: {error}", err=True)
            code = _USAGE
        except KeyboardInterrupt:
            code = _CTRL_C
        sys.exit(code)

    return wrapped


_with_client = partial(_needing, "tmpmaild.client")  # brings httpx2
_with_mcp = partial(_needing, "tmpmaild.mcp_server")


@click.command()
@click.option("--name", "local_part", metavar="NAME", help="The part before the @. Default: a random one.")
@click.option("--domain", help="One of the service's domains. Default: its first.")
@click.option("--private", is_flag=True, help="Require the token for reading; it is then shown.")
@click.option(
    "--lifetime",
    "expires_in_seconds",
    metavar="TIME",
    type=configured.Duration(),
    help="How long the address lives: seconds, or with a unit, as 10m. Default and maximum are the service's.",
)
@click.option("--fault", "faults", metavar="'AT REPLY'", multiple=True, help="As 'rcpt 451 4.7.1 Greylisted', once.")
@click.option("--webhook", metavar="URL", help="Call it when a mail comes; its secret is then shown.")
@click.option("--keep", is_flag=True, help="Do not delete the address on exit.")
@_json
@_server
@_with_client
def new(server: str | None, *, keep: bool, as_json: bool, **wanted: Any) -> int:
    """Create an address, print it, and show its mail as it comes.

    It runs until the address expires. Ctrl-C stops it and deletes the address, unless --keep is given. If the output is
    not a terminal, its first line is the bare address.
    """
    from tmpmaild.cli import mailcommands  # noqa: PLC0415

    return mailcommands.new(wanted, server, keep=keep, as_json=as_json)


@click.command()
@_address
@_token
@_json
@_server
@_with_client
def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show the mail of ADDRESS, old and new, until the address expires."""
    from tmpmaild.cli import mailcommands  # noqa: PLC0415

    return mailcommands.watch(address, token, server, as_json=as_json)


@click.command()
@_address
@click.option("--run", "command", metavar="COMMAND", help="A command for the shell, started once for each event.")
@click.option(
    "--event",
    "events",
    type=click.Choice(["message", "verdict", "expired"]),
    multiple=True,
    default=["message"],
    show_default=True,
    help="What to tell: a mail came, it is known who sent it, the address ended; repeatable.",
)
@click.option(
    "--has", type=click.Choice(["code", "link", "attachment"]), multiple=True, help="Only mail with such; repeatable."
)
@click.option("--after", metavar="ID", help="Only mail that came after the one with this id.")
@click.option("--once", is_flag=True, help="Stop after the first event, with the exit code of the command.")
@_token
@_server
@_with_client
def listen(address: str, token: str | None, server: str | None, **options: Any) -> int:
    """Run a command for each mail of ADDRESS, old and new, until the address expires.

    On its standard input the command has one JSON document, the one that a webhook would be told. The next is started
    when it has ended; if it fails, that is said. Without --run each document is a line of the output.
    """
    from tmpmaild.cli import mailcommands  # noqa: PLC0415

    return mailcommands.listen(address, token, server, mailcommands.ListenOptions(**options))


@click.command()
@_address
@click.option("--subject", metavar="TEXT", help="Only a mail with this in its subject, in any case.")
@click.option("--from", "sender", metavar="TEXT", help="Only a mail with this in its sender's address or name.")
@click.option("--text", metavar="TEXT", help="Only a mail with this in its subject, sender or text.")
@click.option(
    "--has",
    type=click.Choice(["code", "link", "attachment", "verdict"]),
    multiple=True,
    help="Only a mail with such; repeatable.",
)
@click.option("--verdict", is_flag=True, help="Only a mail of which it is known who sent it (authenticated in --json).")
@click.option("--after", metavar="ID", help="Only a mail that came after the one with this id.")
@click.option("--code", is_flag=True, help="Print the code of the first mail that has one.")
@click.option("--link", is_flag=True, help="Print the link to follow in the first mail that has one.")
@click.option("--json", "as_json", is_flag=True, help="Print the mail as one line of JSON, its id included.")
@click.option(
    "--timeout",
    "timeout_seconds",
    metavar="TIME",
    type=configured.Duration(),
    default="60s",
    show_default=True,
    help="How long to wait: seconds, or with a unit, as 30s, 5m or 1h.",
)
@_token
@_server
@_with_client
def wait(
    address: str,
    *,
    code: bool,
    link: bool,
    as_json: bool,
    timeout_seconds: float,
    token: str | None,
    server: str | None,
    **wanted: Any,
) -> int:
    """Wait for a mail to ADDRESS and print its text, or its code or link alone.

    A mail that is there already counts; the oldest that matches is taken. Exit codes: 0 found, 1 nothing in time, 2
    wrong usage, 3 no such address or it expired, 4 the service cannot be reached or refuses, 130 ctrl-C.
    """
    from tmpmaild.cli import mailcommands  # noqa: PLC0415

    chosen = [name for name, is_given in (("code", code), ("link", link), ("json", as_json)) if is_given]
    if len(chosen) > 1:
        raise click.UsageError("--code, --link and --json exclude each other")
    output = chosen[0] if chosen else "text"
    return mailcommands.wait(address, token, server, wanted, output=output, timeout_seconds=timeout_seconds)


@click.command()
@click.option("--url", "--server", help="Where the service is. Default: $TMPMAILD_URL, else http://127.0.0.1:8025.")
@_with_mcp
def mcp(url: str | None) -> int:
    """Serve MCP on standard input and output: tools with which an agent creates inboxes and reads their mail.

    An agent starts this command by its configuration. It reads only inboxes that it has created, and deletes them when
    its input ends.
    """
    from tmpmaild import mcp_server  # noqa: PLC0415
    from tmpmaild.cli import exits  # noqa: PLC0415
    from tmpmaild.client import AsyncClient  # noqa: PLC0415

    if sys.stdin is None:
        raise click.UsageError("there is no standard input: an agent starts this command, by its configuration")

    def work() -> int:
        with exits.arguments():
            client = AsyncClient(url)
        mcp_server.serve(client, __version__)
        return exits.DONE

    return exits.code_of(work)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options.

    \b
    bash: tmpmaild completion bash > ~/.local/share/bash-completion/completions/tmpmaild
    zsh:  tmpmaild completion zsh > a folder of $fpath, as _tmpmaild
    fish: tmpmaild completion fish > ~/.config/fish/completions/tmpmaild.fish
    """  # noqa: D301 - click reads \b
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "tmpmaild", "_TMPMAILD_COMPLETE").source()
    with console.output(_NO_OUTPUT):
        click.echo(script)


@click.command()
@click.argument("address", callback=configured.expect_address)
@click.argument("file", type=configured.Input("rb"), required=False)
@click.option(
    "--server",
    metavar="HOST:PORT",
    callback=configured.expect_host_and_port,
    help="Where to send. Default: the first of smtp.listen; needed if $TMPMAILD_URL names another service.",
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
    """Send a mail to ADDRESS at a running tmpmaild over SMTP.

    FILE is the mail (- for standard input); without it a short sample is sent.
    """
    url = os.environ.get("TMPMAILD_URL", "")
    target = server or default_server(configfile.load(config_path, os.environ), url)
    octets = _octets(file) if file else _SAMPLE.format(address=address).encode()
    deliver(octets, sender, address, target)
    configured.say(f"sent to {address}")


def _octets(file: BinaryIO) -> bytes:
    try:
        return file.read()
    except OSError as error:
        raise StartError(f"{file.name}: cannot be read: {error.strerror or error}") from error


def default_server(config: Config, url: str) -> str:
    """Return where the service of a configuration takes mail.

    ``url`` is what ``$TMPMAILD_URL`` holds, "" if nothing. Raises UsageError if that is another service, whose SMTP may
    be anywhere.
    """
    if url and not _is_served_by(config, url):
        raise click.UsageError(
            f"$TMPMAILD_URL is {url}, which is not the service of this configuration: "
            "say where it takes mail with --server HOST:PORT"
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


def deliver(octets: bytes, sender: str, address: str, target: str, greeting_seconds: float = _GREETING_SECONDS) -> None:
    """Send a mail to HOST:PORT. Raises StartError with what went wrong."""
    try:
        with closing(_greeted(target, greeting_seconds)) as client:
            _converse(client, sender, address, octets)
    except smtplib.SMTPRecipientsRefused as error:
        ((code, text),) = error.recipients.values()
        raise StartError(f"{target} did not take the mail: {_reply(code, text)}") from error
    except smtplib.SMTPResponseException as error:
        raise StartError(f"{target} did not take the mail: {_reply(error.smtp_code, error.smtp_error)}") from error
    except UnicodeEncodeError as error:
        raise StartError(f"{target} does not accept addresses with characters outside of ASCII") from error
    except (OSError, smtplib.SMTPException) as error:
        raise StartError(f"{target}: {_reason(error)}; if mail is taken elsewhere, use --server HOST:PORT") from error


def _greeted(target: str, seconds: float) -> smtplib.SMTP:
    """Connect and wait for the greeting. Raises StartError as soon as it is known that no mail server is there."""
    server = parse_endpoint(target)
    try:
        return _connected(server, min(seconds, _SILENT_SECONDS))
    except smtplib.SMTPServerDisconnected as error:
        if not isinstance(error.__context__, TimeoutError):
            raise
        if spoken := _spoken_by(server, min(seconds, _SILENT_SECONDS)):
            raise StartError(f"{target} speaks {spoken}, not SMTP: use --server HOST:PORT") from error
    except TimeoutError:
        pass
    console.complain(f"{target} has not greeted yet; waiting for {seconds:g} s")
    return _connected(server, seconds)


def _connected(server: Endpoint, seconds: float) -> smtplib.SMTP:
    # A given name saves a DNS query for the machine's full name.
    client = smtplib.SMTP(local_hostname="localhost", timeout=seconds)
    with ExitStack() as stack:
        stack.callback(client.close)
        code, text = client.connect(server.host, server.port)
        if code != _READY:
            raise smtplib.SMTPConnectError(code, text)
        stack.pop_all()
    return client


def _spoken_by(server: Endpoint, seconds: float) -> str:
    """Return what a silent server speaks, as its answer to an HTTP request tells; "" if that tells nothing."""
    with suppress(OSError), socket.create_connection((server.host, server.port), timeout=seconds) as probe:
        probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = probe.recv(64)
        if answer.startswith(b"HTTP/"):
            return "HTTP"
        if answer.startswith(b"\x15\x03"):  # an alert (RFC 8446 §5.1)
            return "TLS from the first octet"
    return ""


def _converse(client: smtplib.SMTP, sender: str, address: str, octets: bytes) -> None:
    assert client.sock is not None
    client.sock.settimeout(_REPLY_SECONDS)
    client.ehlo_or_helo_if_needed()
    client.sendmail(sender, [address], octets, [] if (sender + address).isascii() else ["SMTPUTF8"])
    with suppress(smtplib.SMTPException, OSError):  # the mail is taken
        client.quit()


def _reply(code: int, text: bytes | str) -> str:
    """Return a reply of the server as one line."""
    shown = " ".join((text.decode(errors="replace") if isinstance(text, bytes) else text).split())
    return f"{code} {shown}" if code > 0 else "it does not speak SMTP"


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError() | smtplib.SMTPServerDisconnected(__context__=TimeoutError()):
            return "no answer of a mail server in time"
        case smtplib.SMTPServerDisconnected():
            return "the connection was closed"
        case socket.gaierror():
            return (error.strerror or str(error)).lower()
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
    return str(error).rstrip(".").lower()


COMMANDS = (new, watch, wait, listen, send, mcp, completion)
