"""Commands for users and tests: create addresses, read and send mail.

The client library is loaded only when a command runs.
"""

import signal
import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import ParamSpec

import click
from msgspec import convert

from tmpmaild import __version__
from tmpmaild.cli import configured, console, sending

P = ParamSpec("P")
_USAGE = 2
_NO_OUTPUT = 4
_CTRL_C = 128 + signal.SIGINT
_server = click.option(
    "--server", metavar="URL", help="URL of the service. Default: $TMPMAILD_URL, or else http://127.0.0.1:8025."
)
_token = click.option(
    "--token", envvar="TMPMAILD_TOKEN", help="The token of the address, if it is private. Default: $TMPMAILD_TOKEN."
)
_address = click.argument("address", callback=configured.expect_address)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs.")


def _needing(module: str, command: Callable[P, int]) -> Callable[P, None]:
    """Exit with the code that a command returns; if a Python package is missing, print how to install it."""

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


_with_client = partial(_needing, "tmpmaild.client")  # needs httpx2
_with_mcp = partial(_needing, "tmpmaild.mcp_server")


@click.command()
@click.option("--name", "local_part", metavar="NAME", help="The part before the @. Default: random.")
@click.option("--domain", help="One of the service's domains. Default: the first.")
@click.option("--private", is_flag=True, help="Require a token for reading the inbox, and show the token.")
@click.option(
    "--lifetime",
    "expires_in_seconds",
    metavar="TIME",
    type=configured.Duration(),
    help="Lifetime of the address, in seconds or with a unit, such as 10m. The service sets a default and a maximum.",
)
@click.option(
    "--fault",
    "faults",
    metavar="'AT REPLY'",
    multiple=True,
    help="A fault, such as 'rcpt 451 4.7.1 Greylisted'; it occurs once.",
)
@click.option(
    "--webhook", metavar="URL", help="Call this URL for each message, and show the secret that signs the calls."
)
@click.option("--keep", is_flag=True, help="Do not delete the address on exit.")
@_json
@_server
@_with_client
def new(server: str | None, *, keep: bool, as_json: bool, **options: object) -> int:
    """Create an address, print it, and show its messages as they arrive.

    The command runs until the address expires. Ctrl-C stops it and deletes the address, unless --keep is given. If the
    output is not a terminal, its first line is the bare address.
    """
    from tmpmaild.cli import watching  # noqa: PLC0415

    return watching.new(convert(options, watching.NewOptions), server, keep=keep, as_json=as_json)


@click.command()
@_address
@_token
@_json
@_server
@_with_client
def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show the messages of ADDRESS, old and new, until the address expires."""
    from tmpmaild.cli import watching  # noqa: PLC0415

    return watching.watch(address, token, server, as_json=as_json)


@click.command()
@_address
@click.option("--run", "command", metavar="COMMAND", help="A shell command to run for each event.")
@click.option(
    "--event",
    "events",
    type=click.Choice(["message", "verdict", "expired"]),
    multiple=True,
    default=["message"],
    show_default=True,
    help="The events to report: message received, sender checked, or address expired; repeatable.",
)
@click.option(
    "--has",
    type=click.Choice(["code", "link", "attachment"]),
    multiple=True,
    help="Only messages with this feature; repeatable.",
)
@click.option("--after", metavar="ID", help="Only messages newer than the message with this ID.")
@click.option("--once", is_flag=True, help="Stop after the first event, with the exit code of the command.")
@_token
@_server
@_with_client
def listen(address: str, token: str | None, server: str | None, **options: object) -> int:
    """Run a command for each message of ADDRESS, old and new, until the address expires.

    The command receives one JSON document on standard input: the document that a webhook would receive. Commands run
    one at a time, and failures are reported. Without --run, each document is printed as one line.
    """
    from tmpmaild.cli import listening  # noqa: PLC0415

    return listening.listen(address, token, server, convert(options, listening.ListenOptions))


@click.command()
@_address
@click.option("--subject", metavar="TEXT", help="Only a message whose subject contains TEXT; case is ignored.")
@click.option("--from", "sender", metavar="TEXT", help="Only a message whose sender address or name contains TEXT.")
@click.option("--text", metavar="TEXT", help="Only a message whose subject, sender or text contains TEXT.")
@click.option(
    "--has",
    type=click.Choice(["code", "link", "attachment", "verdict"]),
    multiple=True,
    help="Only a message with this feature; repeatable.",
)
@click.option("--verdict", is_flag=True, help="Only a message whose sender has been checked (authenticated in --json).")
@click.option("--after", metavar="ID", help="Only a message newer than the message with this ID.")
@click.option("--code", is_flag=True, help="Print the code of the first message that contains a code.")
@click.option("--link", is_flag=True, help="Print the action link of the first message that contains such a link.")
@click.option("--json", "as_json", is_flag=True, help="Print the message as one line of JSON, with its id.")
@click.option(
    "--timeout",
    "timeout_seconds",
    metavar="TIME",
    type=configured.Duration(),
    default="60s",
    show_default=True,
    help="How long to wait, in seconds or with a unit, such as 30s, 5m or 1h.",
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
    **options: object,
) -> int:
    """Wait for a message to ADDRESS and print its text, or only its code or link.

    This includes messages that have already arrived; the oldest match is printed. Exit codes: 0 found, 1 no match in
    time, 2 wrong usage, 3 the address does not exist or has expired, 4 the service cannot be reached or refuses, 130
    ctrl-C.
    """
    from tmpmaild.cli import waiting  # noqa: PLC0415

    chosen = [name for name, is_given in (("code", code), ("link", link), ("json", as_json)) if is_given]
    if len(chosen) > 1:
        raise click.UsageError("--code, --link and --json are mutually exclusive")
    output = chosen[0] if chosen else "text"
    wanted = convert(options, waiting.WaitOptions)
    return waiting.wait(address, token, server, wanted, output=output, timeout_seconds=timeout_seconds)


@click.command()
@click.option("--url", "--server", help="URL of the service. Default: $TMPMAILD_URL, or else http://127.0.0.1:8025.")
@_with_mcp
def mcp(url: str | None) -> int:
    """Serve MCP on standard input and output: tools for an agent to create inboxes and read their messages.

    Agents start this command from their configuration. The command reads only inboxes that it has created, and deletes
    them when its input ends.
    """
    from tmpmaild import mcp_server  # noqa: PLC0415
    from tmpmaild.cli import exits  # noqa: PLC0415
    from tmpmaild.client import AsyncClient  # noqa: PLC0415

    if sys.stdin is None:
        raise click.UsageError("there is no standard input: agents start this command from their configuration")

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
    zsh:  tmpmaild completion zsh > a folder in $fpath, as _tmpmaild
    fish: tmpmaild completion fish > ~/.config/fish/completions/tmpmaild.fish
    """  # noqa: D301 - \b makes click keep the line breaks
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "tmpmaild", "_TMPMAILD_COMPLETE").source()
    with console.output(_NO_OUTPUT):
        click.echo(script)


COMMANDS = (new, watch, wait, listen, sending.send, mcp, completion)
