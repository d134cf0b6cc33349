"""Permissions to load one message as a page: in memory, or in the storage where several daemons share it."""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct, json
from msgspec.structs import replace

from tmpmaild.storage.base import Shared

_MAX_GRANTS = 10_000


class Grant(Struct, frozen=True):
    """Permission to load one message as a page. ``secret`` is in its URL; ``remote_images`` may be loaded or not."""

    secret: str
    address: str
    message_id: str
    remote_images: bool
    expires_at_ms: int


_decode = json.Decoder(Grant).decode


class Grants:
    """The grants that have not expired, by their secrets. ``clock`` gives Unix milliseconds."""

    def __init__(self, shared: Shared | None, clock: Callable[[], int]) -> None:
        self._shared = shared
        self._clock = clock
        self._grants: OrderedDict[str, Grant] = OrderedDict()

    def __len__(self) -> int:
        return len(self._grants)

    async def put(self, grant: Grant) -> None:
        """Keep a grant until it expires; the oldest in memory gives way if there are too many."""
        if self._shared is not None:
            content = json.encode(replace(grant, secret=""))
            await self._shared.keep(grant.secret, content, grant.expires_at_ms)
            return
        if len(self._grants) >= _MAX_GRANTS:
            self._grants.popitem(last=False)
        self._grants[grant.secret] = grant

    async def get(self, secret: str) -> Grant | None:
        """Return the grant of a secret, which may be any text."""
        if self._shared is None:
            return self._grants.get(secret)
        kept = await self._shared.kept(secret)
        return None if kept is None else replace(_decode(kept), secret=secret)

    def forget_expired(self) -> None:
        """Drop expired grants from memory."""
        now_ms = self._clock()  # the clock may have been set back, so the grants are not sorted by expiry
        for secret in [secret for secret, grant in self._grants.items() if grant.expires_at_ms <= now_ms]:
            del self._grants[secret]
