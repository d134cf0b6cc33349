"""How ids and names become keys of rows: an id exactly, so that no other text leads to the same row; a name hashed."""

import hashlib
import re

from tmpmaild.errors import AddressNotFound
from tmpmaild.storage import ids
from tmpmaild.storage.base import OPERATOR_INBOX_ID

_INBOX_ID = re.compile(r"[1-9][0-9]{0,17}")


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash what must be found again but cannot be read: an address, a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def message_key(message_id: str, inbox_key: int = 0) -> int | None:
    """Return the key of the message whose id is exactly this text; as a cursor, other texts mean the same key.

    ``inbox_key`` is needed where each inbox has keys of its own.
    """
    if not ids.is_message_id(message_id):
        return None
    key = ids.key_not_above(message_id, inbox_key)
    return key if key >= 0 and ids.inbox_message_id(inbox_key, key) == message_id else None


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
