"""Whether a message is shown as what its signature covers: without the white space that a relaxed one leaves open.

Anyone who has such a message may add and take spaces, and the signature still holds. Where that changes what is shown,
such as a code, it proves nothing. So both are read, the message and its canonical form, and compared. Reading them
takes long: 14 ms of CPU for 2 KB of HTML, 0.16 s for 60 KB, 0.9 s for 1 MB.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from tmpmaild.findings.detecting import TEXT_CHARACTERS, detect
from tmpmaild.mail import extracts, htmlview, mime
from tmpmaild.mail.structure import Part
from tmpmaild.model import DkimVerdict, Person, Texts, Verbatim
from tmpmaild.senders import canonical
from tmpmaild.senders.dkim import Signature

_JOINED: Final = "flowed lines were joined at spaces that the signature does not cover (c=…/relaxed)"
_CHANGED: Final = "white space that the signature does not cover changes what is shown (c={})"
_SPACE: Final = b" \t\r\n"


def settle(raw: bytes, signatures: Iterable[Signature], stored_warnings: Iterable[str]) -> tuple[DkimVerdict, ...]:
    """Return the verdicts of signatures; one that does not prove what is shown is ``policy``.

    ``stored_warnings`` are those of the delivery: they state whether its lines were joined.
    """
    was_kept = mime.LINES_KEPT in stored_warnings
    reasons: dict[canonical.Form, str] = {}
    mail: _Read | None = None
    verdicts = []
    for one in signatures:
        verdict, form = one
        if form is not None and one.is_relaxed and form not in reasons:
            mail = mail or _Read(raw)
            reasons[form] = _reason(mail, form, was_kept=was_kept)
        reason = reasons.get(form, "") if form else ""
        verdicts.append(replace(verdict, result="policy", reason=reason, unsigned=()) if reason else verdict)
    return tuple(verdicts)


class _Read:
    """A message as a reader is shown it; white space that is no part of what it says is left out."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.mail = mail = mime.parse(raw, is_checked=True)
        self.body = raw[mail.body.start : mail.body.end].decode() if isinstance(mail.body, Verbatim) else mail.body

    def header(self) -> tuple[object, ...]:
        """Return who and what the header states."""
        mail, details = self.mail, extracts.details(self.raw)
        people = [*_people(details.cc), *_people(details.reply_to)]
        fields = [(name.lower(), _spaced(value)) for name, value in mail.headers]
        author = (_spaced(mail.from_address), _spaced(mail.from_name))
        return author, _spaced(mail.subject), people, details.date_ms, details.message_id, fields

    def texts(self) -> tuple[object, ...]:
        """Return the body, the codes and the links."""
        mail, body, html = self.mail, self.body, self.mail.html or ""
        stated = next((value for name, value in mail.headers if name.lower() == "content-type"), "")
        is_of_html = stated.partition(";")[0].strip().lower() == "text/html"  # as it is stored
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

    def attachments(self) -> Iterator["_File"]:
        """Yield the attachments."""
        parts = mime.parts_of(self.raw)
        for one in self.mail.attachments:
            yield _File((one.filename, one.content_type, one.content_id, one.inline), one.sha256, parts[one.part])


class _File(NamedTuple):
    labels: tuple[object, ...]
    sha256: str
    part: Part

    def content(self, raw: bytes) -> bytes:
        """Return the content without white space."""
        return mime.content(raw, self.part, {}).translate(None, _SPACE)


def _reason(mail: _Read, form: canonical.Form, *, was_kept: bool) -> str:
    """Return why a message is not shown as a signature of this form covers it, "" if it is."""
    if form.body and mime.LINES_KEPT in mail.mail.warnings and not was_kept:
        return _JOINED
    covered = _Read(canonical.message(mail.raw, form))
    is_alike = mail.header() == covered.header() and _have_same_files(mail, covered) and _have_same_texts(mail, covered)
    return "" if is_alike else _CHANGED.format("/".join(["relaxed" if one else "simple" for one in form]))


def _have_same_texts(mail: _Read, covered: _Read) -> bool:
    same_html = mail.mail.html == covered.mail.html
    if same_html and (mail.mail.subject, mail.body) == (covered.mail.subject, covered.body):
        return True  # such as in base64: what is made from them need not be made
    return mail.texts() == covered.texts() and (same_html or mail.view() == covered.view())


def _have_same_files(mail: _Read, covered: _Read) -> bool:
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
    """Return a text without white space, but for a space where it separates letters and digits of ASCII."""
    words = text.split()
    pairs = pairwise(words)
    separated = [word + " " * (_is_plain(word[-1]) and _is_plain(following[0])) for word, following in pairs]
    return "".join([*separated, *words[-1:]])


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isalnum()
