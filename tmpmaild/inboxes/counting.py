"""Counts the messages in the inbox for all mail by recipient, and keeps the counts up to date.

Only the first count reads all messages; each later count reads the messages that have arrived since the previous count.
After a deletion, all messages are counted again, because the recipients of deleted messages can no longer be read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from tmpmaild.inboxes.filtering import rest_of
from tmpmaild.mail import addresses
from tmpmaild.model import InboxChange, MessageDeleted, Page
from tmpmaild.storage.base import Storage

MAX_COUNTED: Final = 1000
"""The maximum number of recipients that are counted, so that a single recipient list cannot fill the memory."""

_AT_ONCE: Final = 200
"""The number of messages that one query reads."""

_MANY: Final = 50
"""After this many recipients of a message, let other tasks run: a long internationalised domain takes 0.2 ms."""


class Recipients(NamedTuple):
    """The total number of messages, and the number per recipient, starting with the newest message's recipient."""

    message_count: int
    by_address: dict[str, int]


class RecipientCounts:
    """Counts messages in an inbox for each of the 1,000 latest recipients, compared with ``addresses.comparable``."""

    def __init__(self, storage: Storage, inbox_id: str) -> None:
        self._storage = storage
        self._inbox_id = inbox_id
        self._counting = asyncio.Lock()
        self._counts = _Counts()
        self._is_current = False  # new messages may still have to be counted

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Process a commit. ``count`` finds new messages itself."""
        if any(change.inbox_id == self._inbox_id and isinstance(change.notice, MessageDeleted) for change in changes):
            self._is_current = False

    async def count(self) -> Recipients:
        """Return the counts.

        Only one count runs at a time; concurrent callers wait for it, after which little remains to be counted.
        """
        async with self._counting:
            if not (self._is_current and await self._count_new()):
                await self._count_all()
            return self._counts.result()

    async def _count_all(self) -> None:
        # A deletion that is reported while messages are being read makes the result outdated.
        self._is_current = self._storage.may_cache
        self._counts = _Counts()
        async for message_id, recipients in recipients_by_message(self._storage, self._inbox_id, Page()):
            self._counts.add_older(message_id, recipients)

    async def _count_new(self) -> bool:
        """Count the messages that have arrived since the last count; return False if all must be counted again."""
        new = Page(after=self._counts.newest, ascending=True)
        async for message_id, recipients in recipients_by_message(self._storage, self._inbox_id, new):
            if not self._counts.add_newer(message_id, recipients):
                return False
        return self._is_current


class _Counts:
    """Counts that can be extended in both directions: first with older messages, later with newer messages."""

    def __init__(self) -> None:
        self.newest: str | None = None
        self._messages = 0
        # Keyed by comparable recipient: the spelling in the newest message, and the number of messages.
        self._by_recipient: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._leaves_out = False  # whether some recipients are not counted

    def add_older(self, message_id: str, recipients: dict[str, str]) -> None:
        """Count a message that is older than all counted messages."""
        self.newest = self.newest or message_id
        self._messages += 1
        for key, recipient in recipients.items():
            written, count = self._by_recipient.get(key, (recipient, 0))
            if count or len(self._by_recipient) < MAX_COUNTED:
                self._by_recipient[key] = written, count + 1
            else:
                self._leaves_out = True

    def add_newer(self, message_id: str, recipients: dict[str, str]) -> bool:
        """Count a message newer than all counted messages; return False if a recipient has uncounted older messages."""
        self.newest = message_id
        self._messages += 1
        for key, recipient in reversed(recipients.items()):
            _, count = self._by_recipient.get(key, ("", 0))
            if not count and self._leaves_out:
                return False
            self._by_recipient[key] = recipient, count + 1
            self._by_recipient.move_to_end(key, last=False)
        while len(self._by_recipient) > MAX_COUNTED:
            self._by_recipient.popitem()
            self._leaves_out = True
        return True

    def result(self) -> Recipients:
        """Return the counts, starting with the newest message's recipient."""
        return Recipients(self._messages, dict(self._by_recipient.values()))


async def recipients_by_message(
    storage: Storage, inbox_id: str, page: Page
) -> AsyncGenerator[tuple[str, dict[str, str]], None]:
    """Yield the id of each message in the inbox for all mail, and its recipients by comparable form.

    Uses the bounds and the order of ``page``.
    """
    page = replace(page, limit=_AT_ONCE)
    while found := await storage.list_recipients(inbox_id, page):
        for message_id, text in found:
            recipients: dict[str, str] = {}
            for number, one in enumerate(recipients_of(text), 1):
                recipients[addresses.comparable(one)] = one
                if number % _MANY == 0:
                    await asyncio.sleep(0)
            yield message_id, recipients
        page = rest_of(page, found[-1][0])


def recipients_of(text: str) -> list[str]:
    """Return the recipients of a message in the inbox for all mail, which stores one address per line."""
    return text.split("\n")
