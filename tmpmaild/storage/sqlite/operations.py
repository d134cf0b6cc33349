"""The operations that add to the tables: create an inbox, store mail. Deleting is in ``deleting.py``."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tmpmaild import ids
from tmpmaild.errors import AddressNotFound, AddressTaken, MailboxFull, RequestError
from tmpmaild.model import NAME_HELD_MS, NewInbox, NewMail
from tmpmaild.storage.sqlite.columns import MAX_ROWS, MessageColumns, content_columns, insert
from tmpmaild.storage.sqlite.layout import EMPTY_SLOTS, FILLER, SLOT_BYTES, slot
from tmpmaild.storage.sqlite.quotas import InboxQuotas, Limits, creator_is_full
from tmpmaild.storage.sqlite.writer import Batch, Operation


class CreateInbox(Operation):
    """Store an address; the result is the new inbox's id."""

    keeps_generation = True

    def __init__(self, new: NewInbox, name_hash: bytes, creator_hash: bytes | None, limits: Limits) -> None:
        self.new = new
        self.name_hash = name_hash
        self.creator_hash = creator_hash
        self.limits = limits

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["CreateInbox"]) -> list[Any]:
        """Create each inbox whose name is free and whose creator is within its quota; reject the others."""
        return [operation._create(batch) for operation in operations]  # noqa: SLF001 - our own kind

    def _create(self, batch: Batch) -> str | RequestError:
        execute = batch.connection.execute
        forgotten_ms = batch.now_ms - NAME_HELD_MS
        sql = "SELECT expires_at_ms > ? FROM inbox WHERE name_hash = ?"
        known = execute(sql, (forgotten_ms, self.name_hash)).fetchone()
        if known == (1,):
            return AddressTaken("the name is in use or in quarantine")
        if self.creator_hash is not None and creator_is_full(batch.connection, self.creator_hash, self.limits):
            return MailboxFull("the creator has no room for mail to another address")
        if known:
            _forget(batch, self.name_hash)
        inbox_id = execute(
            "INSERT INTO inbox (name_hash, created_at_ms, expires_at_ms, private, token_hash, creator)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                self.name_hash,
                self.new.created_at_ms,
                self.new.expires_at_ms,
                self.new.private,
                self.new.token_hash,
                self.creator_hash,
            ),
        ).lastrowid
        assert inbox_id is not None
        _write_address(batch, inbox_id, self.new.address)
        batch.added_inboxes += 1
        return str(inbox_id)


def _write_address(batch: Batch, inbox_id: int, address: str) -> None:
    row_id, offset = slot(inbox_id)
    connection = batch.connection
    connection.execute("INSERT OR IGNORE INTO address VALUES (?, ?, ?)", (row_id, FILLER, EMPTY_SLOTS))
    with connection.blobopen("address", "slots", row_id) as slots:
        slots.seek(offset)
        slots.write(address.encode().ljust(SLOT_BYTES))


def _forget(batch: Batch, name_hash: bytes) -> None:
    # The name is free again, but the inbox has not been swept yet: its mail is deleted with the old row.
    batch.connection.execute("UPDATE inbox SET name_hash = randomblob(16) WHERE name_hash = ?", (name_hash,))


class AddMessage(Operation):
    """Store a mail for all of its live inboxes, or for none; the result is its first id."""

    keeps_generation = True

    def __init__(self, mail: NewMail, quotas: InboxQuotas) -> None:
        self.mail = mail
        self.quotas = quotas
        body = mail.parsed.body
        self.size_bytes = len(mail.raw) + (len(body) if isinstance(body, str) else 0)

    @classmethod
    def is_one_statement(cls, operations: Sequence["AddMessage"]) -> bool:
        """Return whether all messages fit one INSERT; many recipients may make more."""
        return sum(len(operation.mail.inbox_ids) for operation in operations) <= MAX_ROWS

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["AddMessage"]) -> list[Any]:
        """Store the mails of a whole batch with few statements: each call of SQLite releases the GIL."""
        inbox_ids = {inbox_id for operation in operations for inbox_id in operation.mail.inbox_ids}
        quotas = operations[0].quotas
        quotas.load(batch, inbox_ids)
        rows: list[tuple[Any, ...]] = []
        outcomes: list[Any] = []
        for operation in operations:
            messages = operation._rows(batch, quotas)  # noqa: SLF001 - our own kind
            if isinstance(messages, RequestError):
                outcomes.append(messages)
                continue
            rows += messages
            outcomes.append(ids.message_id(messages[0][0]))
        insert(batch.connection, rows)
        batch.added_messages += len(rows)
        batch.changes += quotas.changes()
        return outcomes

    def _recipients(self, quotas: InboxQuotas) -> dict[str, str]:
        """Return the live inboxes with the recipient that first named each."""
        recipients: dict[str, str] = {}
        for inbox_id, recipient in zip(self.mail.inbox_ids, self.mail.envelope.recipients, strict=True):
            if quotas.is_live(inbox_id):
                recipients.setdefault(inbox_id, recipient)
        return recipients

    def _rows(self, batch: Batch, quotas: InboxQuotas) -> list[tuple[Any, ...]] | RequestError:
        """Return the rows to insert into ``delivery``: one for each inbox, the first with the content.

        Returns the error instead when no inbox is left or one is full.
        """
        recipients = self._recipients(quotas)
        if not recipients:
            return AddressNotFound("no recipient is left")
        written = [recipient.encode() for recipient in recipients.values()]
        cost_bytes, columns = content_columns(self.mail, b"".join(written), batch.now_ms)
        if not quotas.charge(recipients, cost_bytes):
            return MailboxFull("a recipient has no room")
        keys = [batch.draw_message_key() for _ in written]
        nothing = (None,) * len(columns)
        starts = accumulate(map(len, written), initial=0)
        return [
            (
                *MessageColumns(
                    id=key,
                    inbox_id=int(inbox_id),
                    content_id=keys[0],
                    recipient_at=start,
                    recipient_bytes=len(recipient),
                ),
                *(columns if key == keys[0] else nothing),
            )
            for key, inbox_id, start, recipient in zip(keys, recipients, starts, written, strict=False)
        ]
