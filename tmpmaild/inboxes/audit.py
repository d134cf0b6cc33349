"""The audit log: one line for each address created and each message accepted.

A line contains the time, the event, the client, and hashes of the addresses. The hashes depend on the database and the
day. To find the lines about an address, an operator computes its hash with ``tmpmaild audit``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Final, Literal, TypeVar

from tmpmaild.config.settings import Config
from tmpmaild.mail import addresses
from tmpmaild.model import rfc3339
from tmpmaild.storage.base import Storage

T = TypeVar("T")

_DAY: Final = len("2026-11-28")

log = logging.getLogger("tmpmaild.audit")


class Audit:
    """Writes the audit lines while ``config`` enables them."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self.config = config
        self._storage = storage

    async def written(
        self, stored: Awaitable[T], event: Literal["created", "accepted"], recipients: Iterable[str], client: str
    ) -> T:
        """Wait for a commit and return its result after writing its audit line.

        If the caller is cancelled in the meantime, the commit still completes and its line is still written, so that
        all stored data is audited. ``recipients`` are addresses in the client's spelling, or forward paths.
        """
        if not self.config.log.audit:
            return await stored
        named = dict.fromkeys(map(self._inbox_address, recipients))
        return await asyncio.shield(asyncio.ensure_future(self._write_after(stored, event, named, client)))

    async def _write_after(self, stored: Awaitable[T], event: str, named: Iterable[str], client: str) -> T:
        result = await stored
        time = rfc3339(self._storage.clock())
        hashes = " ".join(self._storage.audit_hash(address, day=time[:_DAY]) for address in named)
        extra = {"event": "audit", "audited": event, "client": client, "hashes": hashes}
        log.info("%s %s %s %s", time, event, client, hashes, extra=extra)
        return result

    def _inbox_address(self, recipient: str) -> str:
        """Return the address of a recipient's inbox; a name without a domain belongs to the first domain."""
        mailbox = addresses.parse_path(recipient.encode(), utf8=True, bare=True)
        address = addresses.inbox_address(mailbox)
        return address if mailbox.domain else address + self.config.domains[0]
