"""Detects codes and links in messages that are shown: once per message, in a thread.

What a code or a link looks like is defined in ``findings/``.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import anyio
import anyio.to_thread
from msgspec.structs import replace

from tmpmaild.findings import codes, links
from tmpmaild.inboxes.caches import FindingsCache
from tmpmaild.mail import htmltext
from tmpmaild.model import Findings, Inbox, Link, Message, Texts
from tmpmaild.storage.base import Storage

log = logging.getLogger(__name__)

_TEXT_CHARACTERS = 128 * 1024
_LINKS_CHARACTERS = 32 * 1024  # of one message: a list may hold a hundred
_MESSAGES_AT_ONCE = 8
_BYTES_AT_ONCE = 64 * 1024


class Detector:
    """Adds the detected codes and links to messages."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache = FindingsCache()
        # A little at a time, so that a page of hundreds does not delay other requests until it is done; and large mail
        # by itself, so that much of it does not delay the readers of small mail.
        self._small_turn, self._large_turn = anyio.Lock(), anyio.Lock()
        self.update = self._cache.update
        self.forget_expired = self._cache.forget_expired

    async def add_findings(self, inbox: Inbox, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with their codes and links."""
        found = {message.id: self._cache.get(message.id) for message in messages}
        unknown = [message for message in messages if found[message.id] is None]
        for portion in _portions(unknown):
            async with self._small_turn if portion[0].size_bytes <= _BYTES_AT_ONCE else self._large_turn:
                found |= await self._find(inbox, portion)
        return tuple([replace(message, findings=found[message.id] or Findings()) for message in messages])

    async def _find(self, inbox: Inbox, messages: Sequence[Message]) -> dict[str, Findings | None]:
        found = {message.id: self._cache.get(message.id) for message in messages}
        still_unknown = [message for message in messages if found[message.id] is None]
        generation = self._cache.generation
        to_read = [message.id for message in still_unknown if message.has_html or message.truncated]
        read = await self._storage.read_texts(inbox.id, to_read, _TEXT_CHARACTERS) if to_read else ()
        texts = {one.message_id: one for one in read}
        pairs = [(message, texts.get(message.id) or _texts(message)) for message in still_unknown]
        for (message, _), findings in zip(pairs, await anyio.to_thread.run_sync(_look, pairs), strict=True):
            found[message.id] = findings
            self._cache.put(inbox, message.id, findings, generation)
        return found


def _portions(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a few messages at a time that are small together, or a large one alone."""
    portion: list[Message] = []
    room_bytes = _BYTES_AT_ONCE
    for message in messages:
        if portion and (message.size_bytes > room_bytes or len(portion) == _MESSAGES_AT_ONCE):
            yield portion
            portion, room_bytes = [], _BYTES_AT_ONCE
        portion.append(message)
        room_bytes -= message.size_bytes
    if portion:
        yield portion


def _texts(message: Message) -> Texts:
    return Texts(message.id, message.body[:_TEXT_CHARACTERS], "")


def _look(pairs: Sequence[tuple[Message, Texts]]) -> list[Findings]:
    return [_findings_or_none(message.subject, texts) for message, texts in pairs]


def _findings_or_none(subject: str, texts: Texts) -> Findings:
    try:
        return _findings(subject, texts)
    except Exception:  # a mail must be readable even if this fails
        log.exception("looking for codes and links failed")
        return Findings()


def _findings(subject: str, texts: Texts) -> Findings:
    # Once, for codes and links; not again where that was done at the delivery.
    to_text = (lambda _: texts.body) if texts.is_of_html else cache(htmltext.to_text)
    found = codes.find(subject, texts.body)
    if not found and texts.html:  # the text part may only say that the mail is to be read as HTML
        text = to_text(texts.html)
        found = () if text == texts.body else codes.find(subject, text)
    return Findings(found, tuple(_bounded(links.find(texts.body, texts.html, to_text))))


def _bounded(found: Iterable[Link]) -> Iterator[Link]:
    room = _LINKS_CHARACTERS
    for link in found:
        room -= len(link.href) + len(link.text)
        if room < 0:
            return
        yield link
