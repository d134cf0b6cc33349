"""Parsing a mail and storing it. Which inboxes it is for is decided in ``service.py``, before."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.to_thread

from tmpmaild.errors import AddressNotFound, MailboxFull
from tmpmaild.inboxes.caches import RecipientCache
from tmpmaild.mail import mime
from tmpmaild.model import Envelope, NewMail, ParsedMail
from tmpmaild.storage.base import Storage

_PARSE_IN_LOOP_BYTES = 32 * 1024
_PARSE_HTML_IN_LOOP_BYTES = 4 * 1024
_SMALL_BYTES = 64 * 1024  # have a thread of their own, whatever larger mails cost
_HEAVY_BYTES = 1024 * 1024  # larger mails go one at a time: parsing and storing one copies it several times
_GIVE_BACK_MS = 1000  # not more often: what is given back must be fetched from the system again

Check = Callable[[str, str], bool]
"""Has the message of an address checked soon as to who sent it; False if too many wait already."""


class Deliverer:
    """Parses mails, large ones in threads, and stores them.

    ``clock`` gives Unix milliseconds. ``give_memory_back`` is called in a thread, at most once a second, after a
    large mail has been parsed, ``check`` after a mail has been stored.
    """

    def __init__(
        self,
        storage: Storage,
        recipients: RecipientCache,
        *,
        clock: Callable[[], int],
        give_memory_back: Callable[[], None],
        check: Check | None,
    ) -> None:
        self._storage = storage
        self._recipients = recipients
        self._clock = clock
        self._give_memory_back = give_memory_back
        self._check = check
        self._gave_back_ms = 0
        self._small = anyio.CapacityLimiter(1)
        self._large = anyio.CapacityLimiter(2)
        self._heavy = anyio.Semaphore(1)

    def deliver(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes) -> Awaitable[str]:
        """Parse a mail and store it in its live inboxes; return the first message id once it is on disk.

        Raises ``AddressNotFound`` when none of the inboxes is left, ``MailboxFull``, ``StorageFull``,
        ``StorageUnavailable``.
        """
        if len(raw) > _HEAVY_BYTES:
            return self._deliver_in_turn(envelope, inbox_ids, raw)
        return self._deliver(envelope, inbox_ids, raw)

    async def _deliver_in_turn(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes) -> str:
        async with self._heavy:
            return await self._deliver(envelope, inbox_ids, raw)

    def _parse(self, raw: bytes) -> ParsedMail:
        parsed = mime.parse(raw)
        now_ms = self._clock()
        if len(raw) > _HEAVY_BYTES and abs(now_ms - self._gave_back_ms) >= _GIVE_BACK_MS:
            self._gave_back_ms = now_ms
            self._give_memory_back()
        return parsed

    async def _deliver(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes) -> str:
        if len(raw) <= _PARSE_HTML_IN_LOOP_BYTES or _is_quick(raw):
            parsed = mime.parse(raw)
        else:
            parsers = self._small if len(raw) <= _SMALL_BYTES else self._large
            parsed = await anyio.to_thread.run_sync(self._parse, raw, limiter=parsers)
        mail = NewMail(envelope=envelope, inbox_ids=tuple(inbox_ids), raw=raw, parsed=parsed)
        try:
            message_id = await self._storage.add_message(mail)
        except (AddressNotFound, MailboxFull):
            for inbox_id in inbox_ids:
                self._recipients.forget(inbox_id)
            raise
        if self._check is not None:
            # After its sender was answered. In the other inboxes of the mail it is checked when it is looked at.
            asyncio.get_running_loop().call_soon(self._check, envelope.recipients[0], message_id)
        return message_id


def _is_quick(raw: bytes) -> bool:
    """Return whether a mail is parsed faster than a thread would answer, HTML being what takes time."""
    return len(raw) <= _PARSE_IN_LOOP_BYTES and b"text/html" not in raw.lower()
