"""Detects the codes and links in the text part and the HTML of a message, within limits."""

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext
from tmpmaild.model import Findings, Link, Texts

TEXT_CHARACTERS = 128 * 1024
"""The number of characters at the start of each text that are searched for codes and links."""
MAX_LINKS_CHARACTERS = 32 * 1024
"""The maximum total size of a message's links; a list may contain a hundred messages."""


def detect(subject: str, texts: Texts) -> Findings:
    """Return the codes and links of a message."""
    page = htmltext.read(texts.html)  # shared by the searches for codes and links
    found = codes.find(subject, texts.body)
    if not found and not texts.is_of_html:  # the text part may only refer the reader to the HTML
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
