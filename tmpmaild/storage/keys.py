"""Keys, the numbers of messages and inboxes in the tables, and ids, the texts that they are outside.

The id of a message is ``msg_`` and a lower-case ULID outside, and one integer key in a table: 45 bits of Unix
milliseconds and 18 bits of counter, so keys, ids and arrival sort alike. Where one writer draws the keys of all
messages, the id's last 62 bits are zero: an id need be unique and ordered, it is no secret. Where each inbox has keys
of its own, its number is there.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from tmpmaild.model import Page

InboxKey = NewType("InboxKey", int)
"""The number of an inbox in the tables; its id outside is the same number as text."""
MessageKey = NewType("MessageKey", int)
"""The number of a message in the tables, in the order of arrival."""

ALL_INBOXES: Final = InboxKey(0)
"""In place of an inbox where one writer draws the keys of all messages."""

PREFIX = "msg_"
MAX_KEY: Final = MessageKey((1 << 63) - 1)
_COUNTER_BITS = 18
_PADDING_BITS = 62
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHAPE = re.compile(rf"{PREFIX}[0-7][{_ALPHABET}]{{25}}")


def next_key(last_key: MessageKey, now_ms: int) -> MessageKey:
    """Draw the key that follows ``last_key``, also when the clock went back."""
    return MessageKey(max(last_key + 1, now_ms << _COUNTER_BITS))


def first_key(time_ms: int) -> MessageKey:
    """Return the smallest key that can be drawn at ``time_ms``."""
    return MessageKey(time_ms << _COUNTER_BITS)


def message_id_of(key: MessageKey) -> str:
    """Write a key as an id: 14 characters that say something and 12 zeros."""
    number = key << 2  # the first 70 of the text's 130 bits
    rest = number & (1 << 30) - 1
    return f"{_head(number >> 30)}{_PAIRS[rest >> 20]}{_PAIRS[rest >> 10 & 1023]}{_PAIRS[rest & 1023]}000000000000"


@lru_cache(maxsize=8)
def _head(number: int) -> str:
    """Write the first 40 bits, which all messages of a second have in common."""
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in (30, 20, 10, 0)])


def last_id_before(time_ms: int) -> str:
    """Return an id that sorts before those of all messages that arrive at this time or later, in any inbox."""
    return message_id_of(MessageKey(first_key(time_ms) - 1))


def message_id_in(inbox_key: InboxKey, key: MessageKey) -> str:
    """Write the key of a message in an inbox that has keys of its own as an id."""
    number = key << _PADDING_BITS | inbox_key
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def is_message_id(text: str) -> bool:
    """Return whether the text has the shape of an id; such an id need not exist."""
    return _SHAPE.fullmatch(text) is not None


def key_not_above(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the greatest key whose id is ``text`` or sorts before it; of ``inbox_key`` if that has keys of its own."""
    return MessageKey(min((_number(text) - inbox_key) >> _PADDING_BITS, MAX_KEY))


def key_not_below(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the smallest key whose id is ``text`` or sorts after it; of ``inbox_key`` if that has keys of its own."""
    return MessageKey(min(-((inbox_key - _number(text)) >> _PADDING_BITS), MAX_KEY))


def key_after(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the key above which those are that come after this id, of all after ""."""
    return key_not_above(text, inbox_key) if text else MessageKey(-1)


def keys_between(page: Page, inbox_key: InboxKey = ALL_INBOXES) -> tuple[MessageKey, MessageKey]:
    """Return the keys between which a page lies, both excluded."""
    before = key_not_below(page.before, inbox_key) if page.before else MAX_KEY
    return key_after(page.after or "", inbox_key), before


def _number(text: str) -> int:
    number = 0
    for character in text[len(PREFIX) :]:
        number = number * 32 + _VALUES[character]
    return number


def message_key(message_id: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey | None:
    """Return the key of the message whose id is exactly this text; as a cursor, other texts mean the same key.

    ``inbox_key`` is needed where each inbox has keys of its own.
    """
    if not is_message_id(message_id):
        return None
    key = key_not_above(message_id, inbox_key)
    return key if key >= 0 and message_id_in(inbox_key, key) == message_id else None


def message_keys(message_ids: Iterable[str], inbox_key: InboxKey = ALL_INBOXES) -> list[MessageKey]:
    """Return the keys of those texts that are message ids, each once and ascending."""
    keys = [message_key(message_id, inbox_key) for message_id in message_ids]
    return sorted({key for key in keys if key is not None})
