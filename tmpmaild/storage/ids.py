"""Message ids: ``msg_`` and a lower-case ULID, as text outside and as one integer key in a table.

A key is 45 bits of Unix milliseconds and 18 bits of counter, so keys, ids and arrival sort alike. Where one writer
draws the keys of all messages, the id's last 62 bits are zero: an id need be unique and ordered, it is no secret. Where
each inbox has keys of its own, its number stands there.
"""

import hashlib
import re
from functools import lru_cache

from tmpmaild.errors import AddressNotFound
from tmpmaild.storage.base import OPERATOR_INBOX_ID

PREFIX = "msg_"
MAX_KEY = (1 << 63) - 1

_COUNTER_BITS = 18
_PADDING_BITS = 62
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHAPE = re.compile(rf"{PREFIX}[0-7][{_ALPHABET}]{{25}}")


def next_key(last_key: int, now_ms: int) -> int:
    """Draw the key that follows ``last_key``, also when the clock went back."""
    return max(last_key + 1, now_ms << _COUNTER_BITS)


def first_key(time_ms: int) -> int:
    """Return the smallest key that can be drawn at ``time_ms``."""
    return time_ms << _COUNTER_BITS


def message_id(key: int) -> str:
    """Write a key as an id: 14 characters that say something and 12 zeros."""
    number = key << 2  # the first 70 of the text's 130 bits
    rest = number & (1 << 30) - 1
    return f"{_head(number >> 30)}{_PAIRS[rest >> 20]}{_PAIRS[rest >> 10 & 1023]}{_PAIRS[rest & 1023]}000000000000"


@lru_cache(maxsize=8)
def _head(number: int) -> str:
    """Write the first 40 bits, which all messages of a second have in common."""
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in (30, 20, 10, 0)])


def inbox_message_id(inbox_key: int, key: int) -> str:
    """Write the key of a message in an inbox that has keys of its own as an id."""
    number = key << _PADDING_BITS | inbox_key
    return PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def is_message_id(text: str) -> bool:
    """Return whether the text has the shape of an id; such an id need not exist."""
    return _SHAPE.fullmatch(text) is not None


def key_not_above(text: str, inbox_key: int = 0) -> int:
    """Return the greatest key whose id is ``text`` or sorts before it; of ``inbox_key`` if that has keys of its own."""
    return min((_number(text) - inbox_key) >> _PADDING_BITS, MAX_KEY)


def key_not_below(text: str, inbox_key: int = 0) -> int:
    """Return the smallest key whose id is ``text`` or sorts after it; of ``inbox_key`` if that has keys of its own."""
    return min(-((inbox_key - _number(text)) >> _PADDING_BITS), MAX_KEY)


def _number(text: str) -> int:
    number = 0
    for character in text[len(PREFIX) :]:
        number = number * 32 + _VALUES[character]
    return number


_INBOX_ID = re.compile(r"[1-9][0-9]{0,17}")


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash what must be found again but cannot be read: an address, a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def message_key(message_id: str, inbox_key: int = 0) -> int | None:
    """Return the key of the message whose id is exactly this text; as a cursor, other texts mean the same key.

    ``inbox_key`` is needed where each inbox has keys of its own.
    """
    if not is_message_id(message_id):
        return None
    key = key_not_above(message_id, inbox_key)
    return key if key >= 0 and inbox_message_id(inbox_key, key) == message_id else None


def holders_inbox_key(inbox_id: str) -> int | None:
    """Return the key of an inbox that has an owner: never the operator's, which cannot be changed."""
    if inbox_id == OPERATOR_INBOX_ID or not _INBOX_ID.fullmatch(inbox_id):
        return None
    return int(inbox_id)


def changeable_inbox_key(inbox_id: str) -> int:
    """Return the key of an inbox that has an owner. Raises ``AddressNotFound``."""
    key = holders_inbox_key(inbox_id)
    if key is None:
        raise AddressNotFound("no inbox that has an owner")
    return key
