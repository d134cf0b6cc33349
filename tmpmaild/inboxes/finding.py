"""Adds codes and links to messages. Detection runs in the reading client's turns, and the results are cached."""

import logging
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from tmpmaild.findings.detecting import TEXT_CHARACTERS, detect
from tmpmaild.inboxes.caches import FindingsCache
from tmpmaild.model import NO_FINDINGS, Findings, Inbox, Message, Texts
from tmpmaild.scheduling.turns import FairScheduler, Turn
from tmpmaild.storage.base import Storage

_FINDING_MESSAGES_AT_ONCE = 8
_FINDING_BYTES_AT_ONCE = 64 * 1024

log = logging.getLogger(__name__)


class Detector:
    """Adds the detected codes and links to messages."""

    def __init__(self, storage: Storage, cache: FindingsCache, scheduler: FairScheduler) -> None:
        self._storage = storage
        self._cache = cache
        self._scheduler = scheduler

    async def add_findings(self, inbox: Inbox, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with their codes and links."""
        found = {message.id: self._cache.get(message.id) for message in messages}
        unknown = [message for message in messages if found[message.id] is None]
        # Process a few messages per turn, so that a page of hundreds of messages does not delay other requests.
        for portion in _portions(unknown):
            async with self._scheduler.turn(sum(map(text_bytes, portion))) as turn:
                found |= await self._find(turn, inbox, portion)
        return tuple(
            [
                replace(message, findings=known) if (known := found[message.id]) != NO_FINDINGS else message
                for message in messages
            ]
        )

    async def _find(self, turn: Turn, inbox: Inbox, messages: Sequence[Message]) -> dict[str, Findings | None]:
        found = {message.id: self._cache.get(message.id) for message in messages}
        still_unknown = [message for message in messages if found[message.id] is None]
        generation = self._cache.generation
        to_read = [message.id for message in still_unknown if message.has_html or message.truncated]
        read = await self._storage.read_texts(inbox.id, to_read, TEXT_CHARACTERS) if to_read else ()
        texts = {one.message_id: one for one in read}
        pairs = [(message, texts.get(message.id) or _texts(message)) for message in still_unknown]
        for (message, _), findings in zip(pairs, await turn.run(_detect_all, pairs), strict=True):
            found[message.id] = findings
            self._cache.put(inbox, message.id, findings, generation)
        return found


def text_bytes(message: Message) -> int:
    """Return the maximum number of bytes that are searched in a message; attachments are not counted."""
    return min(message.size_bytes if message.has_html else message.body_bytes, 2 * TEXT_CHARACTERS)


def _portions(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a few small messages at a time, or one large message."""
    portion: list[Message] = []
    room_bytes = _FINDING_BYTES_AT_ONCE
    for message in messages:
        if portion and (message.size_bytes > room_bytes or len(portion) == _FINDING_MESSAGES_AT_ONCE):
            yield portion
            portion, room_bytes = [], _FINDING_BYTES_AT_ONCE
        portion.append(message)
        room_bytes -= message.size_bytes
    if portion:
        yield portion


def _texts(message: Message) -> Texts:
    return Texts(message.id, message.body[:TEXT_CHARACTERS], "")


def _detect_all(pairs: Sequence[tuple[Message, Texts]]) -> list[Findings]:
    return [_findings_or_none(message.subject, texts) for message, texts in pairs]


def _findings_or_none(subject: str, texts: Texts) -> Findings:
    try:
        return detect(subject, texts)
    except Exception:  # a message must be readable even if detection fails
        log.exception("finding codes and links failed")
        return NO_FINDINGS
