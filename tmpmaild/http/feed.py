"""Atom feeds of an inbox (RFC 4287), for programs that poll and do not support this API.

In a feed, message content is always text, never markup.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild import __version__
from tmpmaild.http.files import CONTENT_SECURITY_POLICY
from tmpmaild.http.openapi import ADDRESS, TEXT, Operation, Returns
from tmpmaild.http.pages import Html, is_not_modified, tag
from tmpmaild.http.requests import client, token
from tmpmaild.http.responses import ENCODING, IN_LOOP_BYTES, CutOff, JsonResponse, LargeResponse, ResponseSlots
from tmpmaild.http.schemas import FeedItem, Serializer
from tmpmaild.inboxes.access import FeedSecret
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import Listing, Message, Page, rfc3339

MEDIA_TYPE: Final = "application/atom+xml"

_FEED = f"{ADDRESS}/feed"
_ATOM = Returns(200, "The feed.", media_types=(MEDIA_TYPE,), schema=TEXT, headers=("ETag",))
_NEWEST = Page(limit=50, bodies_bytes=256 * 1024)
_SANDBOXED = {"Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; sandbox"}  # browsers display XML as a page
_LINE_CHARACTERS = 1000
_MAX_CODES = 3
_MAX_LINKS = 10
_LINKS_CHARACTERS = 4096  # the limit per message; links are never truncated
_not_xml = re.compile(
    "[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # characters that XML 1.0 §2.2 forbids, and CR, which parsers convert
_mailbox = re.compile(r"[\x21-\x7e]+@[A-Za-z0-9.-]+").fullmatch


class FeedEndpoints:
    """Endpoints for feeds. Large responses share ``slots``."""

    def __init__(self, service: InboxService, serializer: Serializer, slots: ResponseSlots) -> None:
        self._service = service
        self._mail = service.mail
        self._follower = service.follower
        self._serializer = serializer
        self._slots = slots

    @Operation(f"POST {_FEED}", "createFeed", Returns(201, "The path of the feed.", FeedItem, headers=("Location",)))
    async def create(self, request: Request) -> Response:
        """Get a path to read an address as a feed.

        For feed readers, which cannot send a token. For a private address, the path contains a secret that grants
        access to this feed only and expires with the address.
        """
        inbox = await self._service.access.find(request.path_params["address"], token(request))
        feed = self._serializer.feed(inbox, self._service.access.feed_secret(inbox))
        return JsonResponse(feed, 201, {"Location": feed.url})

    @Operation(f"GET {_FEED}", "readFeed", _ATOM, headers=("If-None-Match",), problems=("busy",))
    async def show(self, request: Request) -> ASGIApp:
        """Read an address as a feed.

        Atom (RFC 4287): the newest 50 messages, each as text that is preceded by its codes and links.
        """
        return await self._feed(request, token(request))

    @Operation(
        f"GET {_FEED}/{{secret}}",
        "readSecretFeed",
        _ATOM,
        security="none",
        headers=("If-None-Match",),
        problems=("busy",),
    )
    async def show_by_secret(self, request: Request) -> ASGIApp:
        """Read an address as a feed by its secret path.

        Returns the same feed, at the path that `createFeed` returned; no token is needed.
        """
        return await self._feed(request, FeedSecret(request.path_params["secret"]))

    async def _feed(self, request: Request, key: str | None) -> ASGIApp:
        address, secret = request.path_params["address"], key if isinstance(key, FeedSecret) else None
        listing = await self._mail.list(address, _NEWEST, key)
        urls = _urls(self._serializer, listing.inbox.address, secret)
        form = partial(document, urls=urls)
        entity_tag = _entity_tag(listing, urls)
        if is_not_modified(request.headers, entity_tag):
            return Response(status_code=304, headers={"ETag": entity_tag, **_SANDBOXED})
        if listing.characters <= IN_LOOP_BYTES:
            return _response(entity_tag, form(listing))

        async def in_turn(large: Listing) -> bytes:
            return await self._service.scheduler.run(form, large, work_bytes=large.characters // ENCODING)

        async def again() -> Response:
            large, feed = await self._mail.list_as(address, _NEWEST, key, in_turn)
            return _response(_entity_tag(large, urls), feed)

        return CutOff(LargeResponse(self._slots, client(request), again), self._follower.watch(listing.inbox))


def _urls(serializer: Serializer, address: str, secret: str | None) -> "FeedUrls":
    """Return the URLs for a feed; without an origin, they are paths."""
    origin, base_path = serializer.origin, serializer.base_path
    return FeedUrls(
        feed=f"{origin}{serializer.feed_path(address, secret)}",
        inbox=f"{origin}{base_path}/#{quote(address, safe='@')}",
        messages=f"{origin}{serializer.address_path(address)}/messages",
    )


def _response(entity_tag: str, feed: bytes) -> Response:
    return Response(feed, headers={"ETag": entity_tag, **_SANDBOXED}, media_type=MEDIA_TYPE)


def _entity_tag(listing: Listing, urls: "FeedUrls") -> str:
    """Return the entity tag (RFC 9110 §8.8.3) of a feed without generating the feed, since messages never change."""
    known = [__version__, urls.feed, str(listing.inbox.created_at_ms), *[message.id for message in listing.messages]]
    return f'"{hashlib.sha256(" ".join(known).encode()).hexdigest()[:32]}"'


class FeedUrls(Struct, frozen=True):
    """The URLs of a feed, of the web page of its inbox, and of its messages."""

    feed: str
    inbox: str
    messages: str


def document(listing: Listing, urls: FeedUrls) -> bytes:
    """Return a page of messages as a feed; the same messages always produce the same bytes."""
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
    found = [f"Code: {code.value}" for code in message.findings.codes[:_MAX_CODES]]
    found += [f"Link: {href}" for href in _links(message)]
    if found:
        yield from (*found, "")
    yield message.body
    if message.truncated:
        yield "[…]"


def _links(message: Message) -> Iterator[str]:
    left_characters = _LINKS_CHARACTERS
    for link in message.findings.links[:_MAX_LINKS]:
        if len(link.href) <= left_characters:
            left_characters -= len(link.href)
            yield link.href


def _tag_uri(domain: str, time_ms: int, name: str) -> str:
    """Return a globally unique name (RFC 4151), because other servers may generate the same message ids."""
    return f"tag:{domain},{rfc3339(time_ms)[:10]}:{name}"


def _element(name: str, text: str) -> Html:
    return tag(name, _text(text))


def _line(text: str) -> str:
    """Return the beginning of a text, or "" if the text contains only white space."""
    line = _text(text[:_LINE_CHARACTERS])
    return line if line.strip() else ""


def _text(text: str) -> str:
    return _not_xml.sub("", text)
