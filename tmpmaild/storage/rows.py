"""What every engine reads of a message, as rows, and the values of the model that are made of them."""

from typing import NamedTuple

from msgspec import json

from tmpmaild.model import Attachment, Envelope, FullMessage, InboxEntry, Message, Source
from tmpmaild.storage import sessions

HEAD_BYTES = 256 * 1024
"""How much of a source is read to show its header."""

decode_attachments = json.Decoder(tuple[Attachment, ...]).decode
_decode_headers = json.Decoder(tuple[tuple[str, str], ...]).decode
_decode_warnings = json.Decoder(tuple[str, ...]).decode


class ListedRow(NamedTuple):
    """What a list reads of a message; ``body`` is None if it was too large to be read with it."""

    key: int
    recipient: str
    received_at_ms: int
    sender: str
    sender_name: str
    subject: str
    size_bytes: int
    has_html: bool
    attachments: str
    body_bytes: int
    body: str | None

    def message(self, message_id: str, body: str, *, truncated: bool) -> Message:
        """Return the message with a body, which may be cut."""
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
        )


class FullRow(NamedTuple):
    """What is read of one message besides ``ListedRow``."""

    envelope_from: str
    helo: str
    remote_ip: str
    tls: bool
    session: str
    headers: str
    warnings: str
    head: bytes
    html: str | None

    def message(self, listed: ListedRow, message_id: str, inbox_id: str) -> FullMessage:
        """Return the whole message as the holder of one inbox may see it."""
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
                sessions.decode(self.session, inbox_id),
            ),
            headers=_decode_headers(self.headers),
            warnings=_decode_warnings(self.warnings),
            head=self.head,
            html=self.html,
            complete=complete,
        )


class SourceRow(NamedTuple):
    """What is read with the source of a message."""

    recipient: str
    received_at_ms: int
    envelope_from: str
    helo: str
    remote_ip: str
    tls: bool
    session: str
    size_bytes: int
    source: bytes | None

    def of(self, message_id: str) -> Source:
        """Return the source of a message."""
        session = sessions.decode(self.session, "")
        envelope = Envelope(self.envelope_from, (self.recipient,), self.helo, self.remote_ip, bool(self.tls), session)
        return Source(message_id, self.received_at_ms, envelope, self.size_bytes, self.source)


class InboxRow(NamedTuple):
    """What the list of inboxes reads of one."""

    id: int
    created_at_ms: int
    expires_at_ms: int
    private: bool
    message_count: int
    stored_bytes: int
    creator: bytes | None

    def entry(self, address: str) -> InboxEntry:
        """Return the inbox as the operator sees it."""
        return InboxEntry(
            id=str(self.id),
            address=address,
            created_at_ms=self.created_at_ms,
            expires_at_ms=self.expires_at_ms,
            private=bool(self.private),
            message_count=self.message_count,
            stored_bytes=self.stored_bytes,
        )
