"""Keys and ids. Keys are the numbers of messages and inboxes in the tables; ids are their text form in the API.

The id of a message is ``msg_`` followed by a lower-case ULID. Its key is an integer: 45 bits for Unix milliseconds and
18 bits for a counter. Keys and ids therefore sort in the order of arrival. If one writer assigns the keys of all
messages, the last 62 bits of an id are zero, because ids must be unique and ordered, but not secret. If each inbox has
its own message keys, these bits contain the number of the inbox.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from tmpmaild.model import Page

InboxKey = NewType("InboxKey", int)
"""An inbox's number in the tables; the id of the inbox in the API is the same number as text."""
MessageKey = NewType("MessageKey", int)
"""A message's number in the tables, in order of arrival."""

ALL_INBOXES: Final = InboxKey(0)
"""Used instead of an inbox key if a single writer assigns the keys of all messages."""

PREFIX = "msg_"
MAX_KEY: Final = MessageKey((1 << 63) - 1)
_COUNTER_BITS = 18
_PADDING_BITS = 62
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHAPE = re.compile(rf"{PREFIX}[0-7][{_ALPHABET}]{{25}}")


def next_key(last_key: MessageKey, now_ms: int) -> MessageKey:
    """Return the next key for this time. It is greater than ``last_key`` even if the clock was set back."""
    return MessageKey(max(last_key + 1, now_ms << _COUNTER_BITS))


def first_key(time_ms: int) -> MessageKey:
    """Return the smallest key that can be assigned to a message that arrives at ``time_ms``."""
    return MessageKey(time_ms << _COUNTER_BITS)


def message_id_of(key: MessageKey) -> str:
    """Format a key as an id: 14 significant characters followed by 12 zeros."""
    number = key << 2  # the first 70 of the text's 130 bits
    rest = number & (1 << 30) - 1
    return f"{_head(number >> 30)}{_PAIRS[rest >> 20]}{_PAIRS[rest >> 10 & 1023]}{_PAIRS[rest & 1023]}000000000000"


@lru_cache(maxsize=8)
def _head(number: int) -> str:
    """Format the first 40 bits, which are the same for all messages that arrive within about one second."""
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in (30, 20, 10, 0)])


def message_id_in(inbox_key: InboxKey, key: MessageKey) -> str:
    """Format the key of a message as an id, for an inbox with its own keys."""
    number = key << _PADDING_BITS | inbox_key
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def is_message_id(text: str) -> bool:
    """Return whether the text has the format of an id; the id need not exist."""
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
    """Return the exclusive lower bound of the keys of all messages after this id; "" is before all messages."""
    return key_not_above(text, inbox_key) if text else MessageKey(-1)


def keys_between(page: Page, inbox_key: InboxKey = ALL_INBOXES) -> tuple[MessageKey, MessageKey]:
    """Return the exclusive lower and upper bounds of a page's keys."""
    before = key_not_below(page.before, inbox_key) if page.before else MAX_KEY
    return key_after(page.after or "", inbox_key), before


def _number(text: str) -> int:
    number = 0
    for character in text[len(PREFIX) :]:
        number = number * 32 + _VALUES[character]
    return number


def message_key(message_id: str, inbox_key: InboxKey = ALL_INBOXES) -> MessageKey | None:
    """Return the key of the message with exactly this id, or None if no message can have it.

    As cursors, several strings can map to the same key. ``inbox_key`` is needed if each inbox has its own keys.
    """
    if not is_message_id(message_id):
        return None
    key = key_not_above(message_id, inbox_key)
    return key if key >= 0 and message_id_in(inbox_key, key) == message_id else None


def message_keys(message_ids: Iterable[str], inbox_key: InboxKey = ALL_INBOXES) -> list[MessageKey]:
    """Return the keys of the valid message ids, in ascending order and without duplicates."""
    keys = [message_key(message_id, inbox_key) for message_id in message_ids]
    return sorted({key for key in keys if key is not None})
