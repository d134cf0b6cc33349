"""The operator's commands: each one reads the configuration, reports mistakes in it, and calls another module.

The commands to a running service are in ``operator.py``, those for its users in ``user.py``.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio
import click

from tmpmaild import __version__
from tmpmaild.cli import configured, console, operator, postmaster, user
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, load, say
from tmpmaild.cli.doctor.command import doctor
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError, StartError
from tmpmaild.host.logs import is_journal, logging_to_stderr
from tmpmaild.host.sockets import reachable
from tmpmaild.storage.engines import operator_mail, settings_of, upgrade
from tmpmaild.storage.sqlite.database import temporary

log = logging.getLogger(__name__)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="tmpmaild %(version)s")
def main() -> None:
    """Disposable e-mail addresses: created over HTTP, filled over SMTP, gone after an hour."""


@main.command()
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input ends: its writer is gone.")
@click.option(
    "--temporary",
    "is_temporary",
    is_flag=True,
    help="Delete the database at the end, and its folder if that is empty then. Refused if it is there already.",
)
@config_option
@clear_errors
def serve(config_path: Path | None, *, stop_with_stdin: bool, is_temporary: bool) -> None:
    """Run the service until SIGTERM or ctrl-C.

    With no configuration at all: HTTP on 127.0.0.1:8025, SMTP on 127.0.0.1:1025, the domain mail.example.com, and
    tmpmaild.db in the current folder.
    """
    config = load(config_path)
    from tmpmaild import daemon  # noqa: PLC0415 - takes longer to load than all other commands to run

    if sys.stderr is not None:  # the stacks of a crash, and of a loop that systemd's watchdog finds stuck (SIGABRT)
        faulthandler.enable()
    if stop_with_stdin:
        threading.Thread(target=_stop_with_stdin, daemon=True).start()
    database = _temporary(config) if is_temporary else nullcontext()
    with logging_to_stderr(config.log.level, config.log.format), database:
        for line in configfile.variables_without_effect(os.environ):
            log.warning("%s", line)
        read_again = partial(configfile.load, config_path, os.environ)
        anyio.run(daemon.run, config, _announcer(config), read_again, backend_options={"use_uvloop": _has_uvloop()})


def _temporary(config: Config) -> AbstractContextManager[None]:
    """Return the context of a database that is made for this run. Raises ``CommandError``."""
    if config.storage.url:
        raise CommandError("--temporary is for a database in a file, and storage.url is set")
    return temporary(Path(config.storage.path))


def _stop_with_stdin() -> None:
    """Wait for the end of standard input, which the system closes however the program at its other end was ended."""
    try:
        while os.read(0, 1024):
            pass
    except OSError:
        pass  # there is none
    os.kill(os.getpid(), signal.SIGTERM)


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - not on every platform
    except ImportError:
        return False
    return True


def _announcer(config: Config) -> Callable[[list[str], list[str], list[str]], None]:
    def announce(http: list[str], smtp: list[str], smtps: list[str]) -> None:
        if config.log.format == "json" or is_journal(1):
            return  # the log says it
        here = f"http://{reachable(http[0])}"
        api = f"{here}/api/v1/addresses"
        server = "" if smtp[0] in Config().smtp.listen else f" --server {reachable(smtp[0])}"
        lines = [
            f"tmpmaild {__version__} serves {', '.join(config.domains)}",
            f"  HTTP on {', '.join(http)}",
            f"  SMTP on {', '.join(smtp)}",
        ]
        lines += [f"  SMTPS on {', '.join(smtps)}"] if smtps else []
        if not http[0].startswith("unix:"):
            lines += [
                f"Open {config.http.public_url or here}/ in a browser, or try it in another terminal:",
                f"  address=$(curl -sX POST {api} | grep -o '[^\"]*@[^\"]*')",
                f'  {_this_program()} send{server} "$address"',
                f'  curl -s "{api}/$address/messages"',
            ]
        click.echo("\n".join(lines))

    return announce


def _this_program() -> str:
    return f"{sys.executable} -m tmpmaild" if sys.argv[0].endswith("__main__.py") else sys.argv[0]


@main.command("check-config")
@config_option
@clear_errors
def check_config(config_path: Path | None) -> None:
    """Read the configuration and list every mistake in it.

    Variables of the environment that look like ours and set nothing are named, too.
    """
    source = configfile.find(config_path, os.environ)
    load(config_path)
    for line in configfile.variables_without_effect(os.environ):
        console.complain(line)
    say(f"{source or 'defaults'}: ok")


@main.command()
@config_option
@clear_errors
def migrate(config_path: Path | None) -> None:
    """Bring the database to the newest schema. ``serve`` does so too; use this to do it earlier."""
    config = load(config_path)
    settings = settings_of(config)
    applied = upgrade(settings)
    for name in applied:
        say(f"applied {name}")
    say(f"{settings.name}: {'migrated' if applied else 'up to date'}")


@main.command("postmaster")
@click.argument("message_id", metavar="[ID]", required=False)
@click.option(
    "--raw", is_flag=True, help="The mail as received, with its control characters. Redirect it to a file if in doubt."
)
@config_option
@clear_errors
def read_postmaster(message_id: str | None, config_path: Path | None, *, raw: bool) -> None:
    """List the mail to postmaster and abuse, or show the one with ID.

    Works whether the service runs or not. Control characters are shown as U+FFFD, except with --raw.
    """
    if raw and message_id is None:
        raise click.UsageError("--raw needs the ID of a mail")
    config = load(config_path)
    mail = operator_mail(settings_of(config))
    if raw and message_id is not None:
        octets = postmaster.source(mail, message_id, config.host_name)
    else:
        text = postmaster.listing(mail) if message_id is None else postmaster.readable(mail, message_id)
        octets = text.encode(console.encoding(), "replace")
    with console.output(EXIT_FAILED):
        console.expect_output()
        click.echo(octets, nl=False)


@main.command()
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
    target = server or _default_server(config_path)
    user.send(_octets(file) if file else user.sample(address), sender, address, target)
    say(f"sent to {address}")


def _default_server(config_path: Path | None) -> str:
    try:
        return user.default_server(configfile.load(config_path, os.environ), os.environ.get("TMPMAILD_URL", ""))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _octets(file: BinaryIO) -> bytes:
    try:
        return file.read()
    except OSError as error:
        raise StartError(f"{file.name}: cannot be read: {error.strerror or error}") from error


for _command in (*operator.COMMANDS, doctor, *user.COMMANDS):
    main.add_command(_command)
