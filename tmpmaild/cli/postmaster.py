"""The operator's inbox as text for a console. Its content is untrusted: no control character is printed."""

from tmpmaild.cli.console import cut, shown, width
from tmpmaild.errors import StartError
from tmpmaild.mail import tracefields
from tmpmaild.model import Attachment, Message, counted, rfc3339
from tmpmaild.storage.engines import OperatorMail

NO_MAIL = "no mail for postmaster or abuse\n"

_HEADINGS = ("ID", "RECEIVED", "SIZE", "FROM", "TO", "SUBJECT")
_ADDRESS_COLUMNS = 40
_SUBJECT_COLUMNS = 80


def listing(mail: OperatorMail) -> str:
    """Return all mail as a table, newest first. Raises ``DatabaseError``."""
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
    """Return one mail as a person reads it. Raises ``DatabaseError``, ``StartError`` when there is none."""
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
    """Return one mail as it came, below our trace fields. Raises as ``readable``."""
    found = mail.source(message_id)
    if found is None or found.source is None:
        raise _no_such_mail()
    return tracefields.trace_fields(found, hostname) + found.source


def _attachment(attachment: Attachment) -> str:
    return f"{attachment.filename or 'unnamed'} ({attachment.content_type}, {counted(attachment.size_bytes, 'byte')})"


def _no_such_mail() -> StartError:
    return StartError("the operator's inbox holds no such mail; tmpmaild postmaster lists what there is")
