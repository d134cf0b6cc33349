"""The stored form of data, shared by all engines: keys, message columns, and the conversion of rows to values.

To store a new message field, write a migration for each engine that adds a column. Then add a line at the end of
``CONTENT`` and a field to ``ListedRow`` or ``FullRow``. ``docs/architecture.md`` lists all files to change.

The SMTP session is stored once per message as a JSON array in the field order of ``SmtpSession``. Each recipient is
stored with its inbox, because each inbox may show only its own recipients.
"""

import hashlib
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from msgspec import DecodeError, json
from msgspec.structs import astuple

from tmpmaild.errors import AddressNotFound, MessageNotFound
from tmpmaild.model import (
    AcceptedRecipient,
    Attachment,
    Authentication,
    Envelope,
    FullMessage,
    Inbox,
    InboxEntry,
    Message,
    NewInbox,
    NewMail,
    SmtpSession,
    StoredWebhook,
    Verbatim,
    VerdictReached,
    Webhook,
    WebhookState,
)
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.keys import ALL_INBOXES, InboxKey, MessageKey, key_not_above, message_id_in, message_key

MAX_VERSION: Final = 1 << 62
"""The upper bound for a new webhook's random version. It leaves room for later increments."""
HEAD_BYTES = 256 * 1024
"""The number of source bytes that are read to show the header."""

_INBOX_ID = re.compile(r"[1-9][0-9]{0,17}")
_encode = json.Encoder().encode
decode_attachments = json.Decoder(tuple[Attachment, ...]).decode
_decode_verdict = json.Decoder(Authentication).decode
_decode_headers = json.Decoder(tuple[tuple[str, str], ...]).decode
_decode_warnings = json.Decoder(tuple[str, ...]).decode
_decode_session = json.Decoder(tuple[str, str, str, str, str, int, tuple[tuple[str, str, int], ...]]).decode
_decode_webhook: Final = json.Decoder(Webhook).decode


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash a value that must be searchable but not readable, such as an address or a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def user_inbox_key(inbox_id: str) -> InboxKey | None:
    """Return the key of a user's inbox, or None for the operator's inbox and for text that is not an inbox id."""
    if inbox_id == OPERATOR_INBOX_ID or not _INBOX_ID.fullmatch(inbox_id):
        return None
    return InboxKey(int(inbox_id))


def changeable_inbox_key(inbox_id: str) -> InboxKey:
    """Return the key of a user's inbox. Raises ``AddressNotFound``."""
    key = user_inbox_key(inbox_id)
    if key is None:
        raise AddressNotFound("not a user's inbox")
    return key


def place_of(inbox_id: str, *, message_id: str, keys_by_inbox: bool) -> tuple[InboxKey, MessageKey]:
    """Return the keys of a user's inbox and of a message in it. Raises ``MessageNotFound``."""
    inbox_key = user_inbox_key(inbox_id)
    key = message_key(message_id, inbox_key if inbox_key and keys_by_inbox else ALL_INBOXES)
    if inbox_key is None or key is None:
        raise MessageNotFound("no such message in this inbox")
    return inbox_key, key


Value = str | bytes | int | None
"""The type of a value in a column of ``content``."""


class Column(NamedTuple):
    """A column of ``content``: its name, its PostgreSQL type, and the function that computes its value."""

    name: str
    kind: Literal["bigint", "integer", "boolean", "text", "bytea"]
    value: Callable[[NewMail], Value]

    @property
    def is_number(self) -> bool:
        """Whether the value is a number or a boolean, not text or bytes."""
        return self.kind not in ("text", "bytea")


def utf8_bytes(text: str) -> int:
    """Return the length of a text in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode())


def _body_at(mail: NewMail) -> int | None:
    body = mail.parsed.body
    return body.start if isinstance(body, Verbatim) else None


def _body_bytes(mail: NewMail) -> int:
    body = mail.parsed.body
    return body.end - body.start if isinstance(body, Verbatim) else utf8_bytes(body)


def body(mail: NewMail) -> str:
    """Return the body, or "" if the source contains it unchanged."""
    parsed = mail.parsed.body
    return "" if isinstance(parsed, Verbatim) else parsed


def _json(place: str) -> Callable[[NewMail], str]:
    of = attrgetter(place)

    def value(mail: NewMail) -> str:
        values = of(mail)
        return _encode(values).decode() if values else "[]"

    return value


def _session(mail: NewMail) -> str:
    envelope = mail.envelope
    *others, accepted = astuple(envelope.session)
    inbox_ids: dict[str, list[str]] = {}
    for recipient, inbox_id in zip(envelope.recipients, mail.inbox_ids, strict=True):
        for address in recipient.split("\n"):
            inbox_ids.setdefault(address, []).append(inbox_id)
    recipients = [(inbox_id, one.address, one.at_ms) for one in accepted for inbox_id in inbox_ids.get(one.address, ())]
    return _encode((*others, recipients)).decode()


class Bounds(NamedTuple):
    """Size limits for reading a message.

    The body and the HTML are read if the source has at most ``texts_bytes`` bytes. The source is read if it has at most
    ``source_bytes`` bytes.
    """

    texts_bytes: int
    source_bytes: int
    head_bytes: int


def bounds_of(up_to_bytes: int, *, source: bool) -> Bounds:
    """Return the size limits for ``Storage.read_message``."""
    return Bounds(-1, up_to_bytes, 0) if source else Bounds(up_to_bytes, -1, HEAD_BYTES)


def _session_for(text: str, inbox_id: str) -> SmtpSession:
    """Return a stored session with only one inbox's recipients, so that other recipients are not revealed."""
    stored = _decode_session(text)
    own = tuple(AcceptedRecipient(address, at_ms) for recipient, address, at_ms in stored[-1] if recipient == inbox_id)
    return SmtpSession(*stored[:-1], own)


def other_inboxes(session: str, inbox_key: InboxKey) -> set[InboxKey]:
    """Return the other inboxes for which a stored session accepted recipients."""
    return {InboxKey(int(inbox_id)) for inbox_id, _, _ in _decode_session(session)[-1]} - {inbox_key}


def verdict_text(verdict: Authentication) -> str:
    """Encode a verdict as text for storage. It contains no NUL, which PostgreSQL does not allow in text."""
    return _encode(verdict).decode()


def verdict_reached(message_id: str, stored: str) -> VerdictReached:
    """Return the notice that reports a stored verdict."""
    found = _decode_verdict(stored)
    return VerdictReached(message_id, found.dmarc.result, found.authenticated)


def _verdict(text: str | None) -> Authentication | None:
    return None if text is None else _decode_verdict(text)


def is_of_html(html: str, headers: str) -> bool:
    """Return True if the stored Content-Type shows that the body is the text of the HTML; False is inconclusive."""
    if not html:
        return False
    stated = next((value for name, value in _decode_headers(headers) if name.lower() == "content-type"), "")
    return stated.partition(";")[0].strip().lower() == "text/html"


CONTENT: Final = (
    Column("size_bytes", "integer", lambda mail: len(mail.raw)),
    Column("body_at", "integer", _body_at),
    Column("body_bytes", "integer", _body_bytes),
    Column("tls", "boolean", attrgetter("envelope.tls")),
    Column("sender", "text", lambda mail: mail.parsed.from_address or mail.envelope.sender),
    Column("sender_name", "text", attrgetter("parsed.from_name")),
    Column("subject", "text", attrgetter("parsed.subject")),
    Column("attachments", "text", _json("parsed.attachments")),
    Column("envelope_from", "text", attrgetter("envelope.sender")),
    Column("helo", "text", attrgetter("envelope.helo")),
    Column("remote_ip", "text", attrgetter("envelope.remote_ip")),
    Column("session", "text", _session),
    Column("warnings", "text", _json("parsed.warnings")),
    Column("headers", "text", _json("parsed.headers")),
    Column("body", "text", body),
    Column("html", "text", attrgetter("parsed.html")),
    Column("source", "bytea", attrgetter("raw")),
)
"""The columns in table order.

Columns that only one engine uses are in that engine's ``layout.py`` or ``operations.py``.
"""


class ListedRow(NamedTuple):
    """The fields of a message that a list needs; ``body`` is None if it was too large to read with the rest."""

    key: MessageKey
    recipient: str
    received_at_ms: int
    sender: str
    sender_name: str
    subject: str
    size_bytes: int
    has_html: bool
    attachments: str
    authentication: str | None
    body_bytes: int
    body: str | None

    def message(self, message_id: str, body: str, *, truncated: bool) -> Message:
        """Return the message with this body, which may be truncated."""
        return Message(
            id=message_id,
            received_at_ms=self.received_at_ms,
            recipient=self.recipient,
            from_address=self.sender,
            from_name=self.sender_name,
            subject=self.subject,
            body=body,
            truncated=truncated,
            size_bytes=self.size_bytes,
            has_html=bool(self.has_html),
            attachments=() if self.attachments == "[]" else decode_attachments(self.attachments),
            authentication=_verdict(self.authentication),
            body_bytes=self.body_bytes,
        )


class FullRow(NamedTuple):
    """The fields of a single message that are not in ``ListedRow``."""

    envelope_from: str
    helo: str
    remote_ip: str
    tls: bool
    session: str
    headers: str
    warnings: str
    head: bytes
    html: str | None
    source: bytes | None

    def message(self, listed: ListedRow, message_id: str, inbox_id: str) -> FullMessage:
        """Return the full message in the form that the user of this inbox may see."""
        complete = listed.body is not None
        truncated = not complete and listed.body_bytes > 0
        return FullMessage(
            message=listed.message(message_id, listed.body or "", truncated=truncated),
            envelope=Envelope(
                self.envelope_from,
                (listed.recipient,),
                self.helo,
                self.remote_ip,
                bool(self.tls),
                _session_for(self.session, inbox_id),
            ),
            headers=_decode_headers(self.headers),
            warnings=_decode_warnings(self.warnings),
            head=self.head,
            html=self.html,
            complete=complete,
            source=self.source,
        )


InboxColumns = tuple[InboxKey, int, int, bool, bytes | None, int, bool]
"""The fields of ``Inbox``, in order, without the address."""


def inbox_at(address: str, columns: InboxColumns) -> Inbox:
    """Return an address's inbox, built from its columns."""
    inbox_key, created_at_ms, expires_at_ms, private, token_hash, message_count, full = columns
    return Inbox(
        id=str(inbox_key),
        address=address,
        created_at_ms=created_at_ms,
        expires_at_ms=expires_at_ms,
        private=bool(private),
        token_hash=token_hash,
        message_count=message_count,
        full=bool(full),
    )


def created_inbox(new: NewInbox, inbox_id: str) -> Inbox:
    """Return the inbox that was created for a new address."""
    return Inbox(
        id=inbox_id,
        address=new.address,
        created_at_ms=new.created_at_ms,
        expires_at_ms=new.expires_at_ms,
        private=new.private,
        token_hash=new.token_hash,
        message_count=0,
        full=False,
    )


class InboxRow(NamedTuple):
    """The fields of an inbox that the inbox list needs."""

    id: InboxKey
    created_at_ms: int
    expires_at_ms: int
    private: bool
    message_count: int
    stored_bytes: int
    creator: bytes | None

    def entry(self, address: str) -> InboxEntry:
        """Return the inbox in the form that the operator sees."""
        return InboxEntry(
            id=str(self.id),
            address=address,
            created_at_ms=self.created_at_ms,
            expires_at_ms=self.expires_at_ms,
            private=bool(self.private),
            message_count=self.message_count,
            stored_bytes=self.stored_bytes,
        )


def webhook_text(webhook: Webhook) -> str:
    """Encode a webhook's settings as text for storage."""
    return json.encode(webhook, order="sorted").decode()


def _webhook(text: str) -> Webhook:
    """Decode a webhook. It has no URL and no events if a newer version of tmpmaild has stored it in an unknown form."""
    try:
        return _decode_webhook(text)
    except DecodeError:
        return Webhook("", frozenset(), frozenset(), "")


class WebhookRow(NamedTuple):
    """The fields of a webhook and its inbox; ``newest`` is the key of the newest message, or 0 without messages."""

    inbox_key: InboxKey
    address: str
    expires_at_ms: int
    version: int
    told_message: MessageKey
    told_verdict: MessageKey
    failures: int
    next_at_ms: int
    called_at_ms: int | None
    result: str
    webhook: str
    newest: MessageKey

    def stored(self, *, keys_by_inbox: bool) -> StoredWebhook:
        """Return the webhook; ``keys_by_inbox`` means that each inbox has its own message keys."""
        owner = self.inbox_key if keys_by_inbox else ALL_INBOXES
        state = WebhookState(
            reported_message_id=message_id_in(owner, self.told_message),
            reported_verdict_id=message_id_in(owner, self.told_verdict),
            failures=self.failures,
            next_at_ms=self.next_at_ms,
            called_at_ms=self.called_at_ms,
            result=self.result,
        )
        return StoredWebhook(
            inbox_id=str(self.inbox_key),
            address=self.address,
            expires_at_ms=self.expires_at_ms,
            version=self.version,
            webhook=_webhook(self.webhook),
            state=state,
            newest_message_id=message_id_in(owner, max(self.newest, self.told_message)),
        )


class StateRow(NamedTuple):
    """The new state of a webhook; it is stored only if the webhook's version is still ``version``.

    If ``next_at_ms`` is None, the webhook is removed.
    """

    inbox_key: InboxKey
    version: int
    told_message: MessageKey | None = None
    told_verdict: MessageKey | None = None
    failures: int | None = None
    next_at_ms: int | None = None
    called_at_ms: int | None = None
    result: str | None = None


def state_row(stored: StoredWebhook, state: WebhookState | None, *, keys_by_inbox: bool) -> StateRow:
    """Return the row that replaces a webhook's previously read state."""
    inbox_key = InboxKey(int(stored.inbox_id))
    if state is None:
        return StateRow(inbox_key, stored.version)
    owner = inbox_key if keys_by_inbox else ALL_INBOXES
    return StateRow(
        inbox_key,
        stored.version,
        key_not_above(state.reported_message_id, owner),
        key_not_above(state.reported_verdict_id, owner),
        state.failures,
        state.next_at_ms,
        state.called_at_ms,
        state.result,
    )
