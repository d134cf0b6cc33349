"""The operation that stores mail."""

from collections.abc import Sequence
from typing import Any, ClassVar

from tmpmaild.errors import AddressNotFound, MailboxFull, RequestError
from tmpmaild.model import NewMail
from tmpmaild.storage import ids
from tmpmaild.storage.sqlite.batches import Batch, Operation
from tmpmaild.storage.sqlite.layout import MAX_ROWS, NO_CONTENT, content_columns, insert
from tmpmaild.storage.sqlite.quotas import InboxQuotas


class AddMessage(Operation):
    """Store a mail for all of its live inboxes, or for none; the result is its first id."""

    changes: ClassVar[bool] = False

    def __init__(self, mail: NewMail) -> None:
        self.mail = mail
        body = mail.parsed.body
        self.size_bytes = len(mail.raw) + (len(body) if isinstance(body, str) else 0)

    @classmethod
    def is_one_statement(cls, operations: Sequence["AddMessage"]) -> bool:
        """Return whether all messages fit one INSERT; many recipients may make more."""
        return sum([len(operation.mail.inbox_ids) for operation in operations]) <= MAX_ROWS

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["AddMessage"]) -> list[Any]:
        """Store the mails of a whole batch with few statements: each call of SQLite releases the GIL."""
        inbox_ids = {inbox_id for operation in operations for inbox_id in operation.mail.inbox_ids}
        quotas = batch.state.quotas
        quotas.load(batch.connection, batch.now_ms, inbox_ids)
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
        rows: list[tuple[Any, ...]] = []
        start = content_id = 0
        for inbox_id, recipient in zip(recipients, written, strict=True):
            key = batch.draw_message_key()
            content_id = content_id or key
            # The order is that of ``MessageColumns``.
            rows.append((key, int(inbox_id), content_id, start, len(recipient), *columns))
            columns = NO_CONTENT
            start += len(recipient)
        return rows
