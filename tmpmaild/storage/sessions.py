"""The stored form of a session: one JSON text a mail, from which each inbox reads its own recipients alone.

Every engine stores it in one column, ``session``. It is an array in the order of ``Session``: every mail has one.
"""

from msgspec import Struct, json

from tmpmaild.model import AcceptedRecipient, NewMail, Session


class _StoredRecipient(Struct, frozen=True, array_like=True, gc=False):
    inbox_id: str
    address: str
    at_ms: int


class _StoredSession(Struct, frozen=True, array_like=True):
    greeting: str = ""
    tls_version: str = ""
    tls_cipher: str = ""
    auth: str = ""
    parameters: str = ""
    data_at_ms: int = 0
    recipients: tuple[_StoredRecipient, ...] = ()


_encode = json.Encoder().encode
_decode = json.Decoder(_StoredSession).decode


def encode(mail: NewMail) -> str:
    """Return the session of a mail as it is stored."""
    session = mail.envelope.session
    inbox_ids = dict(zip(mail.envelope.recipients, mail.inbox_ids, strict=True))
    # Tuples are the same arrays as the Structs above, and cost half as much.
    stored = (
        session.greeting,
        session.tls_version,
        session.tls_cipher,
        session.auth,
        session.parameters,
        session.data_at_ms,
        [(inbox_ids[one.address], one.address, one.at_ms) for one in session.recipients if one.address in inbox_ids],
    )
    return _encode(stored).decode()


def decode(text: str, inbox_id: str) -> Session:
    """Return a stored session as the holder of one inbox may see it: others who got the same mail stay unknown."""
    stored = _decode(text)
    return Session(
        stored.greeting,
        stored.tls_version,
        stored.tls_cipher,
        stored.auth,
        stored.parameters,
        stored.data_at_ms,
        tuple(AcceptedRecipient(one.address, one.at_ms) for one in stored.recipients if one.inbox_id == inbox_id),
    )
