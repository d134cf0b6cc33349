"""The access log, with addresses and secrets masked."""

import hashlib
import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.http.problems import client_of
from tmpmaild.mail import addresses

_HASH_BYTES = 4
_ADDRESSES = "addresses"
_BEFORE_SECRETS = ("view", "feed")
_SECRET_CHARACTERS = 40  # tokens, view secrets and feed secrets have 43 characters

log = logging.getLogger("tmpmaild.access")


class AccessLog:
    """Logs each request when its response is complete: client, method, path, status and duration in milliseconds.

    Addresses in paths are replaced with eight-character hashes. Within a process, an inbox always has the same hash, so
    its requests can be traced without knowing the address. ``key`` is random, because a hash with a known key could be
    reversed by trying likely addresses.
    """

    def __init__(self, app: ASGIApp, *, key: bytes) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request and log it."""
        begun = time.monotonic()
        status = 0

        async def note_status(event: Message) -> None:
            nonlocal status
            status = event.get("status", status)
            await send(event)

        try:
            await self._app(scope, receive, note_status)
        finally:
            milliseconds = (time.monotonic() - begun) * 1000
            client, method, path = client_of(scope), scope["method"], self.masked(scope["path"])
            extra = {
                "event": "http_request",
                "client": client,
                "method": method,
                "path": path,
                "status": status,
                "milliseconds": round(milliseconds, 1),
            }
            log.info("%s %s %s %d %.1f ms", client, method, path, status, milliseconds, extra=extra)

    def masked(self, path: str) -> str:
        """Return a path in ASCII with addresses and secrets masked."""
        segments = path.split("/")
        before = ""
        for index, segment in enumerate(segments):
            if segment:
                segments[index] = self._shown(segment, before)
                before = segment.lower()
        return "/".join(segments)

    def _shown(self, segment: str, before: str) -> str:
        """Return a path segment with secrets and addresses masked; even a misspelt path must not reveal secrets."""
        if before in _BEFORE_SECRETS or len(segment) >= _SECRET_CHARACTERS:
            return "…"
        if "@" in segment or before == _ADDRESSES:
            return self._hash(segment)
        return segment.encode("unicode_escape").decode()

    def _hash(self, segment: str) -> str:
        address = addresses.canonical(segment) or segment
        return hashlib.blake2b(address.encode(errors="replace"), digest_size=_HASH_BYTES, key=self._key).hexdigest()
