"""The endpoints of feeds: an inbox for programs that know Atom and nothing of this API, and ask again and again."""

import hashlib
from functools import partial

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild import __version__
from tmpmaild.http import atom
from tmpmaild.http.answers import AnswerSlots, JsonResponse, LargeAnswer, is_large
from tmpmaild.http.atom import FeedUrls
from tmpmaild.http.files import CONTENT_SECURITY_POLICY, is_held
from tmpmaild.http.problems import client, token
from tmpmaild.http.schemas import Wire
from tmpmaild.inboxes.access import FeedSecret
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import Listing, Page

_NEWEST = Page(limit=50, bodies_bytes=256 * 1024)
_POWERLESS = {"Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; sandbox"}  # a browser shows XML as a page


class FeedEndpoints:
    """The endpoints over one service. Large answers share ``slots``."""

    def __init__(self, service: InboxService, wire: Wire, slots: AnswerSlots) -> None:
        self._service = service
        self._mail = service.mail
        self._wire = wire
        self._slots = slots

    async def create(self, request: Request) -> Response:
        """Return the path of a feed, with a secret if reading the inbox needs a token."""
        inbox = await self._service.find(request.path_params["address"], token(request))
        feed = self._wire.feed(inbox, self._service.feed_secret(inbox))
        return JsonResponse(msgspec.json.encode(feed), 201, {"Location": feed.url})

    async def show(self, request: Request) -> ASGIApp:
        """Return the feed of an inbox."""
        return await self._feed(request, token(request))

    async def show_by_secret(self, request: Request) -> ASGIApp:
        """Return the feed of an inbox to those who know its secret."""
        return await self._feed(request, FeedSecret(request.path_params["secret"]))

    async def _feed(self, request: Request, key: str | None) -> ASGIApp:
        address, secret = request.path_params["address"], key if isinstance(key, FeedSecret) else None
        listing = await self._mail.list(address, _NEWEST, key)
        urls = self._wire.feed_urls(listing.inbox.address, secret)
        form = partial(atom.document, urls=urls)
        held = _entity_tag(listing, urls)
        if is_held(request.headers, held):
            return Response(status_code=304, headers={"ETag": held, **_POWERLESS})
        if not is_large(listing):
            return _answer(held, form(listing))

        async def again() -> Response:
            large, octets = await self._mail.list_as(address, _NEWEST, key, partial(anyio.to_thread.run_sync, form))
            return _answer(_entity_tag(large, urls), octets)

        return LargeAnswer(self._slots, client(request), again)


def _answer(entity_tag: str, feed: bytes) -> Response:
    return Response(feed, headers={"ETag": entity_tag, **_POWERLESS}, media_type=atom.MEDIA_TYPE)


def _entity_tag(listing: Listing, urls: FeedUrls) -> str:
    """Return the entity tag (RFC 9110 §8.8.3) of a feed without making it: messages never change."""
    known = [__version__, urls.feed, str(listing.inbox.created_at_ms), *[message.id for message in listing.messages]]
    return f'"{hashlib.sha256(" ".join(known).encode()).hexdigest()[:32]}"'
