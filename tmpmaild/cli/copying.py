"""The commands ``backup`` and ``restore``, and the commands for copying a PostgreSQL database."""

import shlex
from pathlib import Path

import click

from tmpmaild.cli import control
from tmpmaild.cli.configured import (
    say,
    with_config,
    with_service,
)
from tmpmaild.config import databaseurl
from tmpmaild.config.databaseurl import DatabaseUrl
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.host.process import drop_to_owner, make_state_folder
from tmpmaild.model import counted


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_service
def backup(file: Path, config: Config) -> None:
    """Write a copy of the whole database to FILE, which must not exist yet.

    The service continues to accept mail during the copy. FILE contains all messages, even after they expire in the
    service: delete it when it is no longer needed. If storage.url is set, this prints the PostgreSQL command that makes
    the copy.
    """
    if config.storage.url:
        raise CommandError(_dump(databaseurl.parse(config.storage.url), file))
    size_bytes = control.backup(config, file)
    say(f"{file}: {counted(size_bytes, 'byte')}")


def _dump(url: DatabaseUrl, file: Path) -> str:
    """Return the command that makes a copy; it never contains the password."""
    command = shlex.join(["pg_dump", "--format=custom", f"--file={file}", *_server(url), url.database])
    return f"the mail is in PostgreSQL; copy it with:\n{command}"


def _server(url: DatabaseUrl) -> list[str]:
    """Return the connection options for PostgreSQL's programs."""
    options = [f"--host={','.join(url.hosts)}", f"--port={','.join(map(str, url.ports))}"]
    return options + ([f"--username={url.user}"] if url.user else [])


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_config
def restore(file: Path, config: Config) -> None:
    """Restore the copy FILE, made by backup, in place of an empty database.

    This is refused while the service runs. The command also creates the service's folder in /var/lib, as systemd would.
    FILE is kept: delete it when it is no longer needed. If storage.url is set, this prints the PostgreSQL command that
    restores a copy.
    """
    if config.storage.url:
        raise CommandError(_undump(databaseurl.parse(config.storage.url), file))
    path = Path(config.storage.path).absolute()
    make_state_folder(path.parent)
    drop_to_owner(path)
    from tmpmaild.storage.sqlite.restoring import restore as put_in_place  # noqa: PLC0415 - only this command needs it

    found = put_in_place(file.absolute(), path)
    say(f"{path}: restored, with {found}; start the service: systemctl start tmpmaild")


def _undump(url: DatabaseUrl, file: Path) -> str:
    command = ["pg_restore", "--exit-on-error", "--no-owner", *_server(url), f"--dbname={url.database}", str(file)]
    return (
        "the mail is in PostgreSQL; restore the copy into an empty database, while no daemon runs, with:\n"
        + shlex.join(command)
    )
