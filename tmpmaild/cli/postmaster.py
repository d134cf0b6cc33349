"""The operator's inbox as text for a console. The content is untrusted, so no control characters are printed."""

from pathlib import Path

import click

from tmpmaild.cli import configured, console, control
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, load
from tmpmaild.cli.console import cut, shown, width
from tmpmaild.cli.deleting import Result, confirm, say_deleted
from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError
from tmpmaild.mail import tracefields
from tmpmaild.model import Attachment, Message, counted, rfc3339
from tmpmaild.storage import engines
from tmpmaild.storage.engines import OperatorMail

NO_MAIL = "no mail for postmaster or abuse\n"

_HEADINGS = ("ID", "RECEIVED", "SIZE", "FROM", "TO", "SUBJECT")
_ADDRESS_COLUMNS = 40
_SUBJECT_COLUMNS = 80


def listing(mail: OperatorMail) -> str:
    """Return all messages as a table, newest first. Raises ``DatabaseError``."""
    messages = mail.messages()
    if not messages:
        return NO_MAIL
    rows = [_HEADINGS, *map(_row, messages)]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return "".join(_line(row, widths) for row in rows)


def _row(message: Message) -> tuple[str, ...]:
    return (
        message.id,
        rfc3339(message.received_at_ms),
        str(message.size_bytes),
        cut(shown(message.from_address), _ADDRESS_COLUMNS),
        cut(shown(message.recipient), _ADDRESS_COLUMNS),
        cut(shown(message.subject), _SUBJECT_COLUMNS),
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell + " " * (columns - width(cell)) for cell, columns in zip(row, widths, strict=True)]
    return "  ".join(cells).rstrip() + "\n"


def readable(mail: OperatorMail, message_id: str) -> str:
    """Return a message as readable text. Raises ``DatabaseError``, or ``StartError`` if the message does not exist."""
    message = mail.message(message_id)
    if message is None:
        raise _no_such_mail()
    sender = f"{message.from_name} <{message.from_address}>" if message.from_name else message.from_address
    lines = [
        f"From:     {shown(sender)}",
        f"To:       {shown(message.recipient)}",
        f"Date:     {rfc3339(message.received_at_ms)}",
        f"Subject:  {shown(message.subject)}",
        *(f"Attached: {shown(_attachment(one))}" for one in message.attachments),
        "",
        shown(message.body, keep="\n\t").rstrip("\n"),
    ]
    return "\n".join(lines) + "\n"


def source(mail: OperatorMail, message_id: str, hostname: str) -> bytes:
    """Return a message as received, preceded by our trace fields. Raises the errors of ``readable``."""
    found = mail.source(message_id)
    if found is None or found.source is None:
        raise _no_such_mail()
    return tracefields.trace_fields(found, hostname) + found.source


def _attachment(attachment: Attachment) -> str:
    return f"{attachment.filename or 'unnamed'} ({attachment.content_type}, {counted(attachment.size_bytes, 'byte')})"


def _no_such_mail() -> StartError:
    return StartError("the operator's inbox has no such message; tmpmaild postmaster lists its messages")


@click.command("postmaster")
@click.argument("message_id", metavar="[ID]", required=False)
@click.option(
    "--raw",
    is_flag=True,
    help="Print the message as received, with its control characters. If in doubt, redirect the output to a file.",
)
@click.option("--delete", is_flag=True, help="Delete the message with this ID; with --all, delete every message.")
@click.option("--all", "is_all", is_flag=True, help="With --delete: delete all mail to postmaster and abuse.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@config_option
@clear_errors
def read_postmaster(
    message_id: str | None, config_path: Path | None, *, raw: bool, delete: bool, is_all: bool, yes: bool
) -> None:
    """List the mail to postmaster and abuse, or show or delete a message.

    Messages can be listed and shown even if the service is not running. Control characters are shown as U+FFFD, except
    with --raw. --delete needs the running service, which also erases the message from the disk.
    """
    if delete:
        _delete_postmaster(message_id, configured.read(config_path), is_all=is_all, yes=yes)
        return
    if is_all or yes:
        raise click.UsageError("--all and --yes need --delete")
    if raw and message_id is None:
        raise click.UsageError("--raw needs the ID of a message")
    config = load(config_path)
    mail = engines.operator_mail(engines.settings_of(config))
    if raw and message_id is not None:
        output = source(mail, message_id, config.host_name)
    else:
        text = listing(mail) if message_id is None else readable(mail, message_id)
        output = text.encode(console.encoding(), "replace")
    with console.output(EXIT_FAILED):
        console.expect_output()
        click.echo(output, nl=False)


class _Deleted(Result, frozen=True, kw_only=True):
    deleted: int


def _delete_postmaster(message_id: str | None, config: Config, *, is_all: bool, yes: bool) -> None:
    if (message_id is None) != is_all:
        raise click.UsageError("--delete needs the ID of a message, or --all")
    if is_all and not yes:
        confirm("Delete all mail to postmaster and abuse?")
    done = control.last(config, "postmaster-delete", {"message_id": message_id, "all": is_all}, _Deleted)
    say_deleted(config, done, counted(done.deleted, "message") + " deleted", is_one=done.deleted == 1)
