"""A page of an inbox as an Atom feed (RFC 4287). All of a mail is text here, never markup."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tmpmaild import __version__
from tmpmaild.http.pages import Html, tag
from tmpmaild.model import Listing, Message, rfc3339

MEDIA_TYPE: Final = "application/atom+xml"
_LINE_CHARACTERS = 1000
_MOST_CODES = 3
_MOST_LINKS = 10
_LINKS_CHARACTERS = 4096  # of one message; a link is there as a whole or not at all
_not_xml = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 §2.2, and CR, which it changes
_mailbox = re.compile(r"[\x21-\x7e]+@[A-Za-z0-9.-]+").fullmatch


class FeedUrls(Struct, frozen=True):
    """Where a feed is, where people see the same inbox, and below what its messages are."""

    feed: str
    inbox: str
    messages: str


def document(listing: Listing, urls: FeedUrls) -> bytes:
    """Return the messages of a page as a feed; the same messages make the same octets."""
    inbox = listing.inbox
    local_part, _, domain = inbox.address.rpartition("@")
    changed_at_ms = max([inbox.created_at_ms, *(message.received_at_ms for message in listing.messages)])
    feed = tag(
        "feed",
        _element("id", _tag_uri(domain, inbox.created_at_ms, local_part.encode().hex())),
        _element("title", f"Mail for {inbox.address}"),
        _element("updated", rfc3339(changed_at_ms)),
        tag("link", rel="self", type=MEDIA_TYPE, href=urls.feed),
        tag("link", rel="alternate", type="text/html", href=urls.inbox),
        tag("generator", "tmpmaild", version=__version__),
        *[_entry(message, domain, f"{urls.messages}/{message.id}") for message in listing.messages],
        xmlns="http://www.w3.org/2005/Atom",
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{feed}\n'.encode()


def _entry(message: Message, domain: str, url: str) -> Html:
    received_at = rfc3339(message.received_at_ms)
    return tag(
        "entry",
        _element("id", _tag_uri(domain, message.received_at_ms, message.id)),
        _element("title", _line(message.subject) or "(no subject)"),
        _element("updated", received_at),
        _element("published", received_at),
        tag("author", *_author(message)),
        tag("link", rel="alternate", href=url),
        tag("content", _text("\n".join(_content(message))), type="text"),
    )


def _author(message: Message) -> Iterator[Html]:
    address = _line(message.from_address)
    yield _element("name", _line(message.from_name) or address or "unknown sender")
    if _mailbox(address):  # RFC 4287 §3.2.3
        yield _element("email", address)


def _content(message: Message) -> Iterator[str]:
    found = [f"Code: {code.value}" for code in message.findings.codes[:_MOST_CODES]]
    found += [f"Link: {href}" for href in _links(message)]
    if found:
        yield from (*found, "")
    yield message.body
    if message.truncated:
        yield "[…]"


def _links(message: Message) -> Iterator[str]:
    room = _LINKS_CHARACTERS
    for link in message.findings.links[:_MOST_LINKS]:
        if len(link.href) <= room:
            room -= len(link.href)
            yield link.href


def _tag_uri(domain: str, time_ms: int, name: str) -> str:
    """Return a name that nobody else gives (RFC 4151); other servers may draw the same message ids."""
    return f"tag:{domain},{rfc3339(time_ms)[:10]}:{name}"


def _element(name: str, text: str) -> Html:
    return tag(name, _text(text))


def _line(text: str) -> str:
    """Return the beginning of a text; "" if it shows nothing."""
    line = _text(text[:_LINE_CHARACTERS])
    return line if line.strip() else ""


def _text(text: str) -> str:
    return _not_xml.sub("", text)
