"""All codes and links of one message, as they are shown: from both of its texts, with bounds."""

from collections.abc import Iterable, Iterator

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext
from tmpmaild.model import Findings, Link, Texts

TEXT_CHARACTERS = 128 * 1024
"""Of the beginning of each text, which is read."""
_LINKS_CHARACTERS = 32 * 1024  # of one message: a list may hold a hundred


def detect(subject: str, texts: Texts) -> Findings:
    """Return the codes and links of a message."""
    page = htmltext.read(texts.html)  # once, for codes and links
    found = codes.find(subject, texts.body)
    if not found and not texts.is_of_html:  # the text part may only say that the mail is to be read as HTML
        text = page.text()
        found = () if text in ("", texts.body) else codes.find(subject, text)
    return Findings(found, tuple(_bounded(links.find(texts.body, texts.html, page))))


def _bounded(found: Iterable[Link]) -> Iterator[Link]:
    room = _LINKS_CHARACTERS
    for link in found:
        room -= len(link.href) + len(link.text)
        if room < 0:
            return
        yield link
