"""What the report of a failed test shows of its inboxes: a section of text; attachments for pytest-html and Allure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import httpx2
import pytest

from tmpmaild.client import Client, Inbox, Mail
from tmpmaild.client.errors import beginning, heading, printable
from tmpmaild.pytest_plugin.inboxes import Clients

_MAX_MAILS = 10
_MAX_REFUSALS = 20
_MAX_LINK_CHARACTERS = 2000
_MAX_ATTACHED_BYTES = 1_048_576


class Attachment(NamedTuple):
    """A file for a report; ``extension`` says what it is: txt, html or eml."""

    name: str
    extension: str
    content: bytes


def extend(report: pytest.TestReport, inboxes: Sequence[Inbox], clients: Clients, config: pytest.Config) -> None:
    """Add the mails of a failed test to its report; where they cannot be read, it says so instead."""
    if ending := clients.service.ended():
        report.sections.append(("tmpmaild", ending))
        return
    report.sections += [*map(_section, inboxes), *_refused(inboxes, clients.plain)]
    wants_html = config.getoption("htmlpath", None)
    wants_allure = config.getoption("allure_report_dir", None)
    if wants_html or wants_allure:
        attachments = [one for inbox in inboxes for one in _attachments(inbox, clients.http)]
        if wants_html:
            _attach_to_html(report, attachments)
        if wants_allure:
            _attach_to_allure(attachments)


def _section(inbox: Inbox) -> tuple[str, str]:
    """Return title and text of a section."""
    try:
        newest = inbox.messages(limit=_MAX_MAILS + 1)
        text = "\n".join(_listing(newest)) or "none came"
    except Exception as error:  # noqa: BLE001 - the failure of the test is what matters
        text = f"they cannot be read: {printable(str(error))}"
    return f"tmpmaild: mails of {printable(inbox.address)}", text


def _refused(inboxes: Sequence[Inbox], client: Client) -> Iterator[tuple[str, str]]:
    """Yield a section of what the mail server refused since the first inbox was created, if it did and it tells."""
    begun = min(filter(None, (one._remote.created_at for one in inboxes)), default=None)  # noqa: SLF001 - one package
    try:
        refusals = [one for one in client.refusals() if begun is None or one.at >= begun]
    except Exception:  # noqa: BLE001 - most services keep none
        return
    lines = [f"{one.at:%X}  {one.client}  {printable(one.command)}  {printable(one.reason)}" for one in refusals]
    if lines:
        yield "tmpmaild: what the mail server refused meanwhile", "\n".join(lines[-_MAX_REFUSALS:])


def _listing(newest: Sequence[Mail]) -> Iterator[str]:
    if len(newest) > _MAX_MAILS:
        yield f"(older ones are left out; these are the {_MAX_MAILS} newest)"
    for mail in reversed(newest[:_MAX_MAILS]):
        yield heading(mail)
        if mail.code:
            yield f"  code: {printable(mail.code)}"
        if mail.link:
            yield f"  link: {printable(mail.link, _MAX_LINK_CHARACTERS)}"
        yield from beginning(mail.text)


def _attachments(inbox: Inbox, http: httpx2.Client) -> Iterator[Attachment]:
    """Yield the files of the newest mails, oldest first: text, sanitised HTML, source. Large mails have only a text."""
    try:
        for number, mail in enumerate(reversed(inbox.messages(limit=_MAX_MAILS)), 1):
            name = f"{inbox.address} mail {number}"
            yield Attachment(f"{name} text", "txt", f"{heading(mail)}\n\n{mail.text}".encode(errors="replace"))
            if mail.size_bytes > _MAX_ATTACHED_BYTES:
                continue
            if mail.has_html:
                yield Attachment(f"{name} HTML", "html", http.get(mail.view_url()).raise_for_status().content)
            yield Attachment(f"{name} source", "eml", mail.raw())
    except Exception as error:  # noqa: BLE001 - likewise
        yield Attachment(f"{inbox.address} error", "txt", f"its mail cannot be read: {error}".encode(errors="replace"))


_MEDIA_TYPES = {"txt": "text/plain", "html": "text/html", "eml": "message/rfc822"}


def _attach_to_html(report: pytest.TestReport, attachments: Sequence[Attachment]) -> None:
    """Add files to the report of pytest-html: its format "text" is a link to a file of any type."""
    extras = [
        {
            "name": one.name,
            "format_type": "text",
            "content": one.content.decode(errors="replace"),
            "mime_type": _MEDIA_TYPES[one.extension],
            "extension": one.extension,
        }
        for one in attachments
    ]
    report.extras = [*getattr(report, "extras", []), *extras]  # type: ignore[attr-defined]  # pytest-html reads it


def _attach_to_allure(attachments: Sequence[Attachment]) -> None:
    import allure  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - it is there if its option is

    for one in attachments:
        kind = _MEDIA_TYPES[one.extension]
        allure.attach(one.content, name=one.name, attachment_type=kind, extension=one.extension)
