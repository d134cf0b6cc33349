"""All codes and links of one message, as they are shown: from its text part and its HTML, within bounds."""

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext
from tmpmaild.model import Findings, Link, Texts

TEXT_CHARACTERS = 128 * 1024
"""The beginning of each text, in which codes and links are searched for."""
MAX_LINKS_CHARACTERS = 32 * 1024
"""The limit for the links of one message together, of which a list may have a hundred."""


def detect(subject: str, texts: Texts) -> Findings:
    """Return the codes and links of a message."""
    page = htmltext.read(texts.html)  # once, for codes and links
    found = codes.find(subject, texts.body)
    if not found and not texts.is_of_html:  # the text part may only say that the message is to be read as HTML
        text = page.text()
        found = () if text in ("", texts.body) else codes.find(subject, text)
    return Findings(found, _bounded(links.find(texts.body, texts.html, page)))


def _bounded(found: tuple[Link, ...]) -> tuple[Link, ...]:
    room = MAX_LINKS_CHARACTERS
    for count, link in enumerate(found):
        room -= len(link.href) + len(link.text)
        if room < 0:
            return found[:count]
    return found
