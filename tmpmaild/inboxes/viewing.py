"""One message as an HTML page: a secret URL that allows loading it, and the page, rendered on demand.

A web page cannot send a token with the request for a frame. So a client that may read a message gets a secret URL that
shows only this message, for one minute. ``mail/htmlview.py`` decides which content is safe to show.
"""

import asyncio
from random import Random

from msgspec import Struct, json

from tmpmaild.errors import MessageNotFound
from tmpmaild.inboxes.access import Access, new_secret, present
from tmpmaild.inboxes.caches import Caches
from tmpmaild.mail import contentids, extracts, htmlview, mime, viewpage
from tmpmaild.mail.htmlview import View
from tmpmaild.model import Inbox, Message, Texts, rfc3339
from tmpmaild.scheduling.turns import FairScheduler, Turn
from tmpmaild.storage.base import Permit, Storage

LIFETIME_MS = 60_000
_TEXT_CHARACTERS = 2 * 1024 * 1024
_MAX_PAGES = 4
_MAX_PAGE_CHARACTERS = 8 * 1024 * 1024  # all pages together
_PAGE_SECONDS = 5


class Grant(Struct, frozen=True):
    """Permission to load one message as a page with the secret in its URL, with or without ``remote_images``."""

    address: str
    message_id: str
    remote_images: bool
    expires_at_ms: int


_decode_grant = json.Decoder(Grant).decode


class Viewer:
    """Creates grants, and renders the pages that they permit. Secrets are drawn from ``random``."""

    def __init__(
        self,
        storage: Storage,
        access: Access,
        caches: Caches,
        scheduler: FairScheduler,
        *,
        random: Random,
    ) -> None:
        self._storage = storage
        self._access = access
        self._caches = caches
        self._clock = storage.clock
        self._random = random
        self._scheduler = scheduler
        self._pages: dict[str, View] = {}  # by secret: rendered to count images, and usually requested at once

    async def permit(
        self, address: str, message_id: str, token: str | None = None, *, remote_images: bool
    ) -> tuple[str, Grant, int]:
        """Return a secret, its grant for one minute, and the number of remote images in the message.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, ``MessageNotFound``.
        """
        canonical = self._access.canonical_address(address, token)
        since, now_ms = self._caches.last_invalidation, self._clock()
        may_read = self._access.permit(token, now_ms)
        inbox, message = await self._message(canonical, message_id, may_read)
        secret, grant = new_secret(self._random), Grant(str(canonical), message_id, remote_images, now_ms + LIFETIME_MS)
        view = await self._page(grant, inbox, message, may_read)
        await self._access.confirm(inbox, message_id, since)
        await self._storage.put_permission(secret, json.encode(grant), grant.expires_at_ms)
        self._remember(secret, view)
        return secret, grant, view.remote_images

    async def find(self, secret: str) -> tuple[Inbox, Grant, int]:
        """Return the inbox and the grant that belong to a secret, and the size of the granted message in bytes.

        Raises ``MessageNotFound``, also if the inbox has expired or the secret is unknown; ``AddressNotFound``.
        """
        kept = await self._storage.get_permission(secret)
        if kept is None:
            raise MessageNotFound("no such view, or no longer")
        grant = _decode_grant(kept)
        self._check(grant)
        since = self._caches.last_invalidation
        inbox, message = await self._message(grant.address, grant.message_id, self._permit_living)
        inbox = await self._access.confirm(inbox, grant.message_id, since)
        return inbox, grant, message.size_bytes

    async def open(self, secret: str, grant: Grant) -> View:
        """Return the page of a grant. Raises the errors of ``find``, and ``AddressExpired``."""
        since = self._caches.last_invalidation
        inbox, message = await self._message(grant.address, grant.message_id, self._permit_living)
        view = self._pages.pop(secret, None)
        if view is None:
            view = await self._page(grant, inbox, message, self._permit_living)
        await self._access.confirm(inbox, grant.message_id, since)
        self._check(grant)
        return view

    def _remember(self, secret: str, view: View) -> None:
        """Keep a page briefly, for the request that usually follows at once."""
        characters = len(view.html) + sum(len(page.html) for page in self._pages.values())
        if len(self._pages) < _MAX_PAGES and characters <= _MAX_PAGE_CHARACTERS:
            self._pages[secret] = view
            asyncio.get_running_loop().call_later(_PAGE_SECONDS, self._pages.pop, secret, None)

    async def _page(self, grant: Grant, inbox: Inbox, message: Message, permit: Permit) -> View:
        # Everything in one turn: requests that wait for their turn use no memory.
        async with self._scheduler.turn(message.size_bytes) as turn:
            texts = await self._storage.read_texts(inbox.id, [message.id], _TEXT_CHARACTERS)
            if not texts:
                raise MessageNotFound("it has been deleted since")
            images = await self._images(turn, grant, texts[0].html, permit) if texts[0].html else {}
            view = await turn.run(_render, texts[0], images, grant.remote_images)
        return View(viewpage.titled(view.html, _title(message), _time(message)), view.remote_images)

    def _check(self, grant: Grant) -> None:
        if grant.expires_at_ms <= self._clock():
            raise MessageNotFound("no longer to be looked at")

    def _permit_living(self, inbox: Inbox) -> None:
        if inbox.expires_at_ms <= self._clock():
            raise MessageNotFound("its inbox has expired")

    async def _message(self, address: str, message_id: str, permit: Permit) -> tuple[Inbox, Message]:
        found = await self._storage.read_message(address, self._clock(), permit, message_id=message_id, up_to_bytes=0)
        inbox, full = present(found)
        return inbox, full.message

    async def _images(self, turn: Turn, grant: Grant, html: str, permit: Permit) -> dict[str, str]:
        wanted = await turn.run(contentids.referred_to, html)
        if not wanted:
            return {}
        found = await self._storage.read_message(
            grant.address, self._clock(), permit, message_id=grant.message_id, source=True
        )
        _, full = present(found)
        assert full.source is not None
        return await turn.run(extracts.images, full.source, wanted, mime.MAX_INLINE_BYTES)


def _title(message: Message) -> str:
    """Return a message's title, for the browser tab and the top of a printed page."""
    return " · ".join(filter(None, (message.subject, message.from_name or message.from_address)))


def _time(message: Message) -> str:
    date, _, time = rfc3339(message.received_at_ms).partition("T")
    return f"{date} {time[:5]} UTC"


def _render(texts: Texts, images: dict[str, str], remote_images: bool) -> View:  # noqa: FBT001 - for a thread
    if not texts.html:
        return htmlview.render_text(texts.body)
    return htmlview.render(texts.html, images, remote_images=remote_images)
