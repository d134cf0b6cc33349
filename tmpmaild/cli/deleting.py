"""The confirmation prompt and the output of commands that delete mail."""

import click
from msgspec import Struct

from tmpmaild.cli import console
from tmpmaild.cli.configured import say
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError


class Result(Struct, frozen=True):
    """The last line of the service's response: whether the mail was erased, and the reason if it was not."""

    erased: bool | None
    trouble: str = ""  # older services do not send this field


def say_deleted(config: Config, result: Result, done: str, *, is_one: bool) -> None:
    """Print the result of a command. Raises ``CommandError`` if the command could not be completed."""
    if result.trouble:
        text = f"{done}, then: {result.trouble}. The mail can no longer be read; every sweep tries again to erase it."
        raise CommandError(text)
    say(f"{done}{_erased(config, result.erased, 'its' if is_one else 'their')}")


def _erased(config: Config, erased: bool | None, whose: str) -> str:  # noqa: FBT001 - None: unknown
    if config.storage.url:
        return f"; {whose} mail is deleted, but remains in the database server's files for a while (docs/scaling.md)"
    if erased:
        return f", {whose} mail erased"
    return f"; {whose} mail is deleted, and will be erased from the file when no other process is reading the database"


def confirm(question: str) -> None:
    """Ask for confirmation before deleting everything; abort unless the user confirms."""
    if not console.can_prompt():
        raise click.UsageError("without a terminal to ask for confirmation, --all needs --yes")
    click.confirm(question, abort=True, err=True)
