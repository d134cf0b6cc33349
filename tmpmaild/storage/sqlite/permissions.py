"""What secrets permit, in memory: the process that has the file is the only one to ask."""

from collections import OrderedDict
from typing import Final

_MAX_SECRETS: Final = 10_000


class Permissions:
    """What is kept by secrets until it expires; if there is too much, the oldest is dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """Keep a content until then."""
        self._kept[secret] = (content, until_ms)
        if len(self._kept) > _MAX_SECRETS:
            self._kept.popitem(last=False)

    def kept(self, secret: str, now_ms: int) -> bytes | None:
        """Return the content of a secret that has not expired."""
        content, until_ms = self._kept.get(secret, (b"", 0))
        return content if now_ms < until_ms else None

    def forget_expired(self, now_ms: int) -> None:
        """Drop what has expired."""
        # The clock may have been set back, so they are not in the order of their expiry.
        for secret in [secret for secret, (_, until_ms) in self._kept.items() if until_ms <= now_ms]:
            del self._kept[secret]
