"""The access log: one line for each request, without what its path tells of an inbox. On only if ``log.access`` is."""

import hashlib
import logging
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.mail import addresses
from tmpmaild.peers import LOCAL

_HASH_BYTES = 4
_ADDRESSES = "addresses"
_BEFORE_SECRETS = ("view", "feed")
_SECRET_CHARACTERS = 40  # those of tokens, views and feeds are 43 long

log = logging.getLogger("tmpmaild.access")


class AccessLog:
    """Logs each request once its answer has ended: client, method, path, status, milliseconds.

    An address in a path becomes a hash of eight characters, the same for the same inbox as long as the process lives,
    so that one inbox can be followed without being known. ``key`` is random: without it the addresses that a hash may
    stand for could be tried.
    """

    def __init__(self, app: ASGIApp, *, key: bytes, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._key = key
        self._monotonic = monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it."""
        begun = self._monotonic()
        status = 0

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            milliseconds = (self._monotonic() - begun) * 1000
            path = self.masked(scope["path"])
            log.info("%s %s %s %d %.1f ms", _client(scope), scope["method"], path, status, milliseconds)

    def masked(self, path: str) -> str:
        """Return a path in ASCII without addresses and secrets."""
        segments = path.split("/")
        before = ""
        for index, segment in enumerate(segments):
            if segment:
                segments[index] = self._shown(segment, before)
                before = segment.lower()
        return "/".join(segments)

    def _shown(self, segment: str, before: str) -> str:
        """Return a segment as it may be seen: also a path that is wrong by a letter or a slash tells nothing."""
        if before in _BEFORE_SECRETS or len(segment) >= _SECRET_CHARACTERS:
            return "…"
        if "@" in segment or before == _ADDRESSES:
            return self._hash(segment)
        return segment.encode("unicode_escape").decode()

    def _hash(self, segment: str) -> str:
        address = addresses.canonical(segment) or segment
        return hashlib.blake2b(address.encode(errors="replace"), digest_size=_HASH_BYTES, key=self._key).hexdigest()


def _client(scope: Scope) -> str:
    client = scope.get("tmpmaild.client")  # not there when the request was refused before it was looked at
    if client is not None:
        return str(client.name)
    return scope["client"][0] if scope["client"] else LOCAL
