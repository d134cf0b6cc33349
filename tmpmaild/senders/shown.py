"""Checks whether a message is shown in the form that its signature covers. Relaxed forms ignore some white space.

Anyone who forwards a message with a relaxed signature can add and remove spaces without invalidating the signature. If
that changes the shown text, such as a code, the signature proves nothing. Therefore, the message and its canonical form
are both parsed and compared. This is expensive: 14 ms of CPU time for 2 KB of HTML, 0.16 s for 60 KB, 0.9 s for 1 MB.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from tmpmaild.findings.detecting import TEXT_CHARACTERS, detect
from tmpmaild.mail import extracts, flowed, htmlview, mime, transferencoding
from tmpmaild.mail.structure import Part
from tmpmaild.model import DkimVerdict, Person, Texts, Verbatim
from tmpmaild.senders import canonical
from tmpmaild.senders.dkim import Signature

_JOINED: Final = "flowed lines were joined at spaces that the signature does not cover (c=…/relaxed)"
_CHANGED: Final = "white space that the signature does not cover changes the shown text (c={})"
_SPACE: Final = b" \t\r\n"


def verdicts(raw: bytes, signatures: Iterable[Signature], stored_warnings: Iterable[str]) -> tuple[DkimVerdict, ...]:
    """Return the verdicts on signatures; a verdict is ``policy`` if the signature does not cover the shown text.

    ``stored_warnings`` are the warnings from delivery; they show whether lines of the message were joined.
    """
    was_kept = flowed.LINES_KEPT in stored_warnings
    reasons: dict[canonical.Form, str] = {}
    reading: Reading | None = None
    found = []
    for one in signatures:
        verdict, form = one
        if form is not None and one.is_relaxed and form not in reasons:
            reading = reading or Reading(raw)
            reasons[form] = _reason(reading, form, was_kept=was_kept)
        reason = reasons.get(form, "") if form else ""
        found.append(replace(verdict, result="policy", reason=reason, unsigned=()) if reason else verdict)
    return tuple(found)


class Reading:
    """A message as shown to a reader, without insignificant white space."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.mail = mail = mime.parse(raw, is_checked=True)
        self.body = raw[mail.body.start : mail.body.end].decode() if isinstance(mail.body, Verbatim) else mail.body

    def header(self) -> tuple[object, ...]:
        """Return the header fields that are shown."""
        mail, details = self.mail, extracts.details(self.raw)
        people = [*_people(details.cc), *_people(details.reply_to)]
        fields = [(name.lower(), _spaced(value)) for name, value in mail.headers]
        author = (_spaced(mail.from_address), _spaced(mail.from_name))
        return author, _spaced(mail.subject), people, details.date_ms, details.message_id, fields

    def texts(self) -> tuple[object, ...]:
        """Return the body, the codes and the links."""
        mail, body, html = self.mail, self.body, self.mail.html or ""
        stated = next((value for name, value in mail.headers if name.lower() == "content-type"), "")
        is_of_html = stated.partition(";")[0].strip().lower() == "text/html"  # the storage checks the same condition
        texts = Texts("", body[:TEXT_CHARACTERS], html[:TEXT_CHARACTERS], is_of_html and html != "")
        found = detect(mail.subject, texts)
        links = [(link.href, _spaced(link.text), link.confidence) for link in found.links]
        return _unspaced(body), found.codes, links

    def view(self) -> tuple[object, ...]:
        """Return the view of the HTML."""
        if self.mail.html is None:
            return ()
        view = htmlview.render(self.mail.html, {}, remote_images=False)
        return "".join(view.html.split()), view.remote_images

    def attachments(self) -> Iterator["_Attachment"]:
        """Yield the message's attachments."""
        parts = mime.parts_of(self.raw)
        for one in self.mail.attachments:
            yield _Attachment((one.filename, one.content_type, one.content_id, one.inline), one.sha256, parts[one.part])


class _Attachment(NamedTuple):
    labels: tuple[object, ...]
    sha256: str
    part: Part

    def content(self, raw: bytes) -> bytes:
        """Return the attachment's content without white space."""
        return transferencoding.content(raw, self.part, {}).translate(None, _SPACE)


def _reason(mail: Reading, form: canonical.Form, *, was_kept: bool) -> str:
    """Return the reason why a message is not shown in the form that a signature covers, or ""."""
    if form.body and flowed.LINES_KEPT in mail.mail.warnings and not was_kept:
        return _JOINED
    covered = Reading(canonical.message(mail.raw, form))
    is_alike = (
        mail.header() == covered.header() and _have_same_attachments(mail, covered) and _have_same_texts(mail, covered)
    )
    return "" if is_alike else _CHANGED.format("/".join(["relaxed" if one else "simple" for one in form]))


def _have_same_texts(mail: Reading, covered: Reading) -> bool:
    same_html = mail.mail.html == covered.mail.html
    if same_html and (mail.mail.subject, mail.body) == (covered.mail.subject, covered.body):
        return True  # happens with base64 content; all derived data is also identical
    return mail.texts() == covered.texts() and (same_html or mail.view() == covered.view())


def _have_same_attachments(mail: Reading, covered: Reading) -> bool:
    files, others = list(mail.attachments()), list(covered.attachments())
    if [one.labels for one in files] != [one.labels for one in others]:
        return False
    return all(
        one.sha256 == other.sha256
        or (one.part.encoding != "base64" and one.content(mail.raw) == other.content(covered.raw))
        for one, other in zip(files, others, strict=True)
    )


def _people(people: Iterable[Person]) -> Iterator[tuple[str, str]]:
    return ((_spaced(one.address), _spaced(one.name)) for one in people)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _unspaced(text: str) -> str:
    """Return a text without white space, except for a space between ASCII letters and digits."""
    words = text.split()
    separated = words[:1]
    for before, word in pairwise(words):
        around = before[-1] + word[0]
        separated += [" ", word] if around.isascii() and around.isalnum() else [word]
    return "".join(separated)
