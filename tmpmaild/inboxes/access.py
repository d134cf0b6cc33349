"""Access control for inboxes: a token is required to read a private inbox or to change any inbox."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound, Unauthorized
from tmpmaild.inboxes.caches import Caches, Invalidation
from tmpmaild.mail import addresses
from tmpmaild.model import Inbox
from tmpmaild.storage.base import Storage

T = TypeVar("T")

_FEED = b"feed"
_SECRET_BYTES = 32


class FeedSecret(str):
    """The secret in a feed's URL, which replaces the token and grants read access only."""

    __slots__ = ()


class AllMail(str):
    """The address of the catcher's inbox for all mail. Clients cannot specify it: their addresses are plain ``str``."""

    __slots__ = ()


ALL_MAIL = AllMail("*")


class Access:
    """Finds live inboxes and checks tokens.

    With ``require_token``, every inbox is private; this setting may be changed.
    """

    def __init__(self, storage: Storage, caches: Caches, *, require_token: bool) -> None:
        self._storage = storage
        self._caches = caches
        self._clock = storage.clock
        self.require_token = require_token

    async def find(self, address: str, token: str | None = None) -> Inbox:
        """Return the inbox of a live address for reading; ``address`` is the client's spelling.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        canonical = self.canonical_address(address, token)
        since, now_ms = self._caches.last_invalidation, self._clock()
        inbox = self.admit(await self._storage.find_inbox(canonical, now_ms), token, now_ms)
        return await self.recheck(inbox, since)

    async def find_for_change(self, address: str, token: str) -> Inbox:
        """Return the inbox of a live address for modification. Raises ``AddressNotFound``, ``AddressExpired``."""
        canonical = self.canonical_address(address, token)
        now_ms = self._clock()
        inbox = await self._storage.find_inbox(canonical, now_ms)
        if inbox is None or not is_inbox_token(inbox, token):
            raise AddressNotFound("not for this client")
        return _unexpired(inbox, now_ms)

    def canonical_address(self, address: str, token: str | None) -> str:
        """Return the address of the inbox that a client specifies. Raises ``AddressNotFound``, ``Unauthorized``."""
        if self.require_token and token is None:
            raise Unauthorized("this server requires a token for every inbox")
        canonical = address if isinstance(address, AllMail) else addresses.canonical(address)
        if canonical is None:
            raise AddressNotFound("no address")
        return canonical

    def permit(self, token: str | None, now_ms: int) -> Callable[[Inbox], object]:
        """Return an access check that the storage calls with the inbox before it reads anything else.

        Because access is checked first, the time until a refusal reveals nothing about the inbox's content.
        """
        return partial(self.admit, token=token, now_ms=now_ms)

    def permit_daemon(self, now_ms: int) -> Callable[[Inbox], object]:
        """Return an access check for the daemon's own work on a live inbox, which the owner requested earlier."""
        return partial(_unexpired, now_ms=now_ms)

    def admit(self, inbox: Inbox | None, token: str | None, now_ms: int) -> Inbox:
        """Return the inbox if the client may read it: it has not expired, and any required token is correct.

        Raises ``AddressNotFound``, ``AddressExpired``.
        """
        if inbox is None:
            raise AddressNotFound("no such address")
        is_open = not (self.needs_token(inbox) or isinstance(token, FeedSecret))
        if not is_open and not _may_read_private(inbox, token):
            raise AddressNotFound("not for this client")
        return _unexpired(inbox, now_ms)

    def needs_token(self, inbox: Inbox) -> bool:
        """Return whether reading an inbox requires its token."""
        return inbox.private or self.require_token

    def feed_secret(self, inbox: Inbox) -> str | None:
        """Return the secret required in the URL of an inbox's feed; None if no secret is required."""
        return _feed_secret(inbox) if self.needs_token(inbox) else None

    async def recheck(self, inbox: Inbox, since: Invalidation) -> Inbox:
        """Return the current state of an inbox that was read after ``since``.

        Returns the same object without waiting, unless the inbox has since been deleted or its expiry has changed.
        Raises ``AddressExpired``, ``AddressNotFound``.
        """
        while since.moved(inbox.id):
            since = self._caches.last_invalidation
            found = await self._storage.find_inbox(inbox.address, self._clock())
            if found is None:
                raise AddressNotFound("this address no longer exists")
            inbox = found
        return _unexpired(inbox, self._clock())

    async def confirm(self, inbox: Inbox, message_id: str, since: Invalidation) -> Inbox:
        """Return the result of ``recheck``, provided that a message read after ``since`` has not been deleted.

        Raises the same errors as ``recheck``, and ``MessageNotFound``.
        """
        inbox = await self.recheck(inbox, since)
        if message_id in since.deleted_messages():
            raise MessageNotFound("it has since been deleted")
        return inbox


def present(found: tuple[Inbox, T | None] | None) -> tuple[Inbox, T]:
    """Return an inbox and message data if the storage found both. Raises ``AddressNotFound``, ``MessageNotFound``."""
    if found is None:
        raise AddressNotFound("no such address")
    inbox, value = found
    if value is None:
        raise MessageNotFound("no such message in this inbox")
    return inbox, value


def new_secret(random: Random) -> str:
    """Return a new URL-safe secret of 256 bits."""
    return base64.urlsafe_b64encode(random.randbytes(_SECRET_BYTES)).decode().rstrip("=")


def digest(token: str) -> bytes:
    """Return the SHA-256 of a token; the token itself is not stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _unexpired(inbox: Inbox, now_ms: int) -> Inbox:
    if inbox.expires_at_ms <= now_ms:
        raise AddressExpired(inbox.expires_at_ms)
    return inbox


def _may_read_private(inbox: Inbox, token: str | None) -> bool:
    if isinstance(token, FeedSecret):
        secret = _feed_secret(inbox)
        return secret is not None and hmac.compare_digest(token.encode("utf-8", "surrogatepass"), secret.encode())
    return is_inbox_token(inbox, token)


def is_inbox_token(inbox: Inbox, token: str | None) -> bool:
    """Return whether a token belongs to an inbox."""
    return token is not None and hmac.compare_digest(digest(token), inbox.token_hash or b"")


def _feed_secret(inbox: Inbox) -> str | None:
    """Return the secret that grants access to an inbox's feed, or None if the inbox has no token.

    The secret is derived from the token hash, so it need not be stored. It is valid on every daemon, remains valid
    after a restart, and expires with the inbox.
    """
    if inbox.token_hash is None:
        return None
    return base64.urlsafe_b64encode(hmac.digest(inbox.token_hash, _FEED, hashlib.sha256)).decode().rstrip("=")
