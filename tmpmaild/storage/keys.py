"""Keys and ids: the numbers that identify messages and inboxes in the tables, and their text form in the API.

The id of a message is ``msg_`` followed by a lower-case ULID. Its key is an integer: 45 bits of Unix milliseconds and
18 bits of counter. Keys and ids therefore sort in the order of arrival. If one writer assigns the keys of all messages,
the last 62 bits of an id are zero: an id must be unique and ordered, but it is not a secret. If each inbox has its own
keys, these bits contain the number of the inbox.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from tmpmaild.model import Page

InboxKey = NewType("InboxKey", int)
"""The number of an inbox in the tables; its id in the API is the same number as text."""
MessageKey = NewType("MessageKey", int)
"""The number of a message in the tables, in the order of arrival."""

ALL_INBOXES: Final = InboxKey(0)
"""Used in place of an inbox key where one writer assigns the keys of all messages."""

PREFIX = "msg_"
MAX_KEY: Final = MessageKey((1 << 63) - 1)
_COUNTER_BITS = 18
_PADDING_BITS = 62
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHAPE = re.compile(rf"{PREFIX}[0-7][{_ALPHABET}]{{25}}")


def next_key(last_key: MessageKey, now_ms: int) -> MessageKey:
    """Return the next key at this time. It is greater than ``last_key`` even if the clock was set back."""
    return MessageKey(max(last_key + 1, now_ms << _COUNTER_BITS))


def first_key(time_ms: int) -> MessageKey:
    """Return the smallest key that a message arriving at ``time_ms`` can get."""
    return MessageKey(time_ms << _COUNTER_BITS)


def message_id_of(key: MessageKey) -> str:
    """Format a key as an id: 14 significant characters followed by 12 zeros."""
    number = key << 2  # the first 70 of the text's 130 bits
    rest = number & (1 << 30) - 1
    return f"{_head(number >> 30)}{_PAIRS[rest >> 20]}{_PAIRS[rest >> 10 & 1023]}{_PAIRS[rest & 1023]}000000000000"


@lru_cache(maxsize=8)
def _head(number: int) -> str:
    """Format the first 40 bits, which all messages of about one second share."""
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in (30, 20, 10, 0)])


def last_id_before(time_ms: int) -> str:
    """Return an id that sorts before those of all messages that arrive at this time or later, in any inbox."""
    return message_id_of(MessageKey(first_key(time_ms) - 1))


def message_id_in(inbox_key: InboxKey, key: MessageKey) -> str:
    """Format the key of a message as an id, for an inbox with its own keys."""
    number = key << _PADDING_BITS | inbox_key
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def is_message_id(text: str) -> bool:
    """Return whether the text has the shape of an id; such an id need not exist."""
    return _SHAPE.fullmatch(text) is not None


def key_not_above(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the greatest key whose id is ``text`` or sorts before it.

    ``inbox_key`` is needed if each inbox has its own keys.
    """
    return MessageKey(min((_number(text) - inbox_key) >> _PADDING_BITS, MAX_KEY))


def key_not_below(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the smallest key whose id is ``text`` or sorts after it.

    ``inbox_key`` is needed if each inbox has its own keys.
    """
    return MessageKey(min(-((inbox_key - _number(text)) >> _PADDING_BITS), MAX_KEY))


def key_after(text: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey:
    """Return the key that is below the keys of all messages after this id; "" is before all messages."""
    return key_not_above(text, inbox_key) if text else MessageKey(-1)


def keys_between(page: Page, inbox_key: InboxKey = ALL_INBOXES) -> tuple[MessageKey, MessageKey]:
    """Return the lower and upper bound of a page's keys, both exclusive."""
    before = key_not_below(page.before, inbox_key) if page.before else MAX_KEY
    return key_after(page.after or "", inbox_key), before


def _number(text: str) -> int:
    number = 0
    for character in text[len(PREFIX) :]:
        number = number * 32 + _VALUES[character]
    return number


def message_key(message_id: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey | None:
    """Return the key of the message with exactly this id, or None if no message can have it.

    Several texts map to the same key when used as a cursor. ``inbox_key`` is needed if each inbox has its own keys.
    """
    if not is_message_id(message_id):
        return None
    key = key_not_above(message_id, inbox_key)
    return key if key >= 0 and message_id_in(inbox_key, key) == message_id else None


def message_keys(message_ids: Iterable[str], inbox_key: InboxKey = ALL_INBOXES) -> list[MessageKey]:
    """Return the keys of the texts that are message ids, in ascending order and without duplicates."""
    keys = [message_key(message_id, inbox_key) for message_id in message_ids]
    return sorted({key for key in keys if key is not None})
