"""Looking at one message as HTML: a permission in form of a secret URL, and the page, made when somebody looks.

A page that shows mail in a frame cannot send a token along with the frame's request; so whoever may read a message is
given a secret that shows this one message for a minute. What is safe to show is decided in ``htmlview.py``.
"""

from collections import OrderedDict
from collections.abc import Callable

import anyio
import anyio.to_thread
from msgspec import Struct

from tmpmaild import extracts, htmlview
from tmpmaild.access import Access
from tmpmaild.errors import MessageNotFound
from tmpmaild.htmlview import View
from tmpmaild.model import Inbox
from tmpmaild.storage.base import Storage

LIFETIME_MS = 60_000
_MAX_GRANTS = 10_000
_TEXT_CHARACTERS = 2 * 1024 * 1024
_IMAGES_BYTES = 5 * 1024 * 1024


class Grant(Struct, frozen=True):
    """Permits to look at one message. ``secret`` says so in a URL; ``remote_images`` may be loaded."""

    secret: str
    address: str
    message_id: str
    remote_images: bool
    expires_at_ms: int


class Viewer:
    """Gives out permissions, and the pages they are for.

    ``clock`` gives Unix milliseconds, ``new_secret`` 128 random bits as they stand in a URL.
    """

    def __init__(
        self, storage: Storage, access: Access, *, clock: Callable[[], int], new_secret: Callable[[], str]
    ) -> None:
        self._storage = storage
        self._access = access
        self._clock = clock
        self._new_secret = new_secret
        self._grants: OrderedDict[str, Grant] = OrderedDict()
        self._renderers = anyio.CapacityLimiter(1)

    async def permit(
        self, address: str, message_id: str, token: str | None = None, *, remote_images: bool
    ) -> tuple[Grant, int]:
        """Permit to look at a message for a minute; the number is of the remote images in it.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``, ``MessageNotFound``.
        """
        folded = self._access.fold(address, token)
        view = await self._render(
            folded,
            message_id,
            lambda inbox, now_ms: self._access.admit(inbox, token, now_ms),
            with_images=False,
            remote_images=remote_images,
        )
        now_ms = self._clock()
        self.forget_expired()
        if len(self._grants) >= _MAX_GRANTS:
            self._grants.popitem(last=False)
        grant = Grant(self._new_secret(), folded, message_id, remote_images, now_ms + LIFETIME_MS)
        self._grants[grant.secret] = grant
        return grant, view.remote_images

    async def look(self, secret: str) -> tuple[Grant, View]:
        """Return the page that a secret permits to look at. Raises as ``permit``; to an unknown secret no message."""
        grant = self._grants.get(secret)
        if grant is None or grant.expires_at_ms <= self._clock():
            raise MessageNotFound("no such view, or no longer")
        view = await self._render(
            grant.address, grant.message_id, self._access.living, with_images=True, remote_images=grant.remote_images
        )
        return grant, view

    def forget_expired(self) -> None:
        """Drop the permissions that are over."""
        now_ms = self._clock()  # it may have been set back, so they do not stand in order
        for secret in [secret for secret, grant in self._grants.items() if grant.expires_at_ms <= now_ms]:
            del self._grants[secret]

    async def _render(
        self,
        address: str,
        message_id: str,
        admit: Callable[[Inbox | None, int], Inbox],
        *,
        with_images: bool,
        remote_images: bool,
    ) -> View:
        now_ms = self._clock()
        found = await self._storage.read_message(address, message_id, now_ms, 0)
        inbox, full = found or (None, None)
        inbox = admit(inbox, now_ms)
        texts = await self._storage.read_texts(inbox.id, [message_id], _TEXT_CHARACTERS) if full else ()
        if not texts:
            raise MessageNotFound("no such message in this inbox")
        html = texts[0].html
        images = await self._images(address, message_id, html) if with_images else {}
        async with self._renderers:
            return await anyio.to_thread.run_sync(_render, texts[0].body, html, images, remote_images)

    async def _images(self, address: str, message_id: str, html: str) -> dict[str, str]:
        wanted = htmlview.content_ids(html)
        found = await self._storage.read_source(address, message_id, self._clock()) if wanted else None
        source = found and found[1]
        if not source or source.raw is None:
            return {}
        return await anyio.to_thread.run_sync(extracts.images, source.raw, wanted, _IMAGES_BYTES)


def _render(body: str, html: str, images: dict[str, str], remote_images: bool) -> View:  # noqa: FBT001 - for a thread
    if not html:
        return htmlview.render_text(body)
    return htmlview.render(html, images, remote_images=remote_images)
