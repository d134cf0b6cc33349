"""The question and the output of commands that delete mail."""

import click
from msgspec import Struct

from tmpmaild.cli import console
from tmpmaild.cli.configured import say
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError


class Result(Struct, frozen=True):
    """The last line of the service's response: whether the mail is erased, and the reason if it could not continue."""

    erased: bool | None
    trouble: str = ""  # an older service does not send it


def say_deleted(config: Config, result: Result, done: str, *, is_one: bool) -> None:
    """Print the result of a command. Raises ``CommandError`` if it could not be completed."""
    if result.trouble:
        text = f"{done}, then: {result.trouble}. It cannot be read any more; each sweep tries again to erase it."
        raise CommandError(text)
    say(f"{done}{_erased(config, result.erased, 'its' if is_one else 'their')}")


def _erased(config: Config, erased: bool | None, whose: str) -> str:  # noqa: FBT001 - None: unknown
    if config.storage.url:
        return f"; {whose} mail is deleted, and stays in files of the database server for a while (docs/scaling.md)"
    if erased:
        return f", {whose} mail erased"
    return f"; {whose} mail is deleted, and erased from the file when no other process reads the database"


def confirm(question: str) -> None:
    """Ask whether to delete everything; abort unless the answer is yes."""
    if not console.can_ask():
        raise click.UsageError("--all needs --yes where nobody can be asked")
    click.confirm(question, abort=True, err=True)
