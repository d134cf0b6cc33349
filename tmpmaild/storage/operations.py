"""What the writer can do to the tables: create an inbox, add mail. Deleting stands in ``sweeping.py``."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

from msgspec import Struct

from tmpmaild import ids
from tmpmaild.errors import AddressNotFound, AddressTaken, MailboxFull, RequestError
from tmpmaild.model import QUARANTINE_MS, InboxChange, NewInbox, NewMail
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.layout import EMPTY_SLOTS, FILLER, SLOT_BYTES, slot
from tmpmaild.storage.rows import content_row
from tmpmaild.storage.writer import Operation, Transaction


class Limits(Struct, frozen=True):
    """When an inbox takes no more: its messages, its octets, the octets of all that its creator holds.

    A huge number stands for "no limit". The operator's inbox has limits of its own.
    """

    max_messages: int
    max_bytes: int
    max_creator_bytes: int
    operator_max_messages: int = 200
    operator_max_bytes: int = 20 * 1024 * 1024


class CreateInbox(Operation):
    """Store an address; the result is the new inbox's id."""

    def __init__(self, new: NewInbox, name_hash: bytes, creator_hash: bytes | None) -> None:
        self.new = new
        self.name_hash = name_hash
        self.creator_hash = creator_hash

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["CreateInbox"]) -> list[Any]:
        """Create each one whose name is free; ``AddressTaken`` for the others."""
        return [operation._create(transaction) for operation in operations]  # noqa: SLF001 - our own kind

    def _create(self, transaction: Transaction) -> str | RequestError:
        execute = transaction.connection.execute
        forgotten_ms = transaction.now_ms - QUARANTINE_MS
        sql = "SELECT expires_at_ms > ? FROM inbox WHERE name_hash = ?"
        known = execute(sql, (forgotten_ms, self.name_hash)).fetchone()
        if known == (1,):
            return AddressTaken("the name is in use or in quarantine")
        if known:
            _forget(transaction, self.name_hash)
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
        _write_address(transaction, inbox_id, self.new.address)
        return str(inbox_id)


def _write_address(transaction: Transaction, inbox_id: int, address: str) -> None:
    row_id, offset = slot(inbox_id)
    connection = transaction.connection
    connection.execute("INSERT OR IGNORE INTO address VALUES (?, ?, ?)", (row_id, FILLER, EMPTY_SLOTS))
    with connection.blobopen("address", "slots", row_id) as slots:
        slots.seek(offset)
        slots.write(address.encode().ljust(SLOT_BYTES))


def _forget(transaction: Transaction, name_hash: bytes) -> None:
    # The name is free again, but the sweep has not got here yet: its mail goes with the old row.
    transaction.connection.execute("UPDATE inbox SET name_hash = randomblob(16) WHERE name_hash = ?", (name_hash,))


class _Room:
    """The inboxes a batch of mail goes to, as they stand in the tables and with what the batch has added."""

    def __init__(self, transaction: Transaction, inbox_ids: set[str], limits: Limits) -> None:
        self._limits = limits
        self._now_ms = transaction.now_ms
        marks = ",".join("?" * len(inbox_ids))
        rows = transaction.connection.execute(
            "SELECT i.id, i.expires_at_ms, i.message_count, i.stored_bytes, i.creator, coalesce(c.stored_bytes, 0)"
            " FROM inbox AS i LEFT JOIN creator AS c ON c.hash = i.creator"
            f" WHERE i.swept = 0 AND i.id IN ({marks})",
            [int(inbox_id) for inbox_id in inbox_ids],
        ).fetchall()
        self._inboxes = {str(row[0]): row for row in rows}
        self._creator_bytes = {row[4]: row[5] for row in rows}
        self.added_messages: Counter[str] = Counter()
        self.added_bytes: Counter[str] = Counter()
        self.added_creator_bytes: Counter[bytes] = Counter()

    def lives(self, inbox_id: str) -> bool:
        row = self._inboxes.get(inbox_id)
        return row is not None and bool(row[1] > self._now_ms)

    def fits(self, inbox_ids: Sequence[str], size_bytes: int) -> bool:
        """Tell whether a mail of this size has room in every one of the inboxes."""
        growth: Counter[bytes] = Counter()
        for inbox_id in inbox_ids:
            _, _, message_count, stored_bytes, creator, _ = self._inboxes[inbox_id]
            max_messages, max_bytes = self._maxima(inbox_id)
            if message_count + self.added_messages[inbox_id] >= max_messages:
                return False
            if stored_bytes + self.added_bytes[inbox_id] + size_bytes > max_bytes:
                return False
            if creator is not None:
                growth[creator] += size_bytes
        return all(self._creator_fits(creator, added) for creator, added in growth.items())

    def _creator_fits(self, creator: bytes, added_bytes: int) -> bool:
        held_bytes = self._creator_bytes[creator] + self.added_creator_bytes[creator]
        return bool(held_bytes + added_bytes <= self._limits.max_creator_bytes)

    def add(self, inbox_ids: Sequence[str], size_bytes: int) -> None:
        for inbox_id in inbox_ids:
            self.added_messages[inbox_id] += 1
            self.added_bytes[inbox_id] += size_bytes
            creator = self._inboxes[inbox_id][4]
            if creator is not None:
                self.added_creator_bytes[creator] += size_bytes

    def change(self, inbox_id: str) -> InboxChange:
        """Tell how the inbox stands after the batch."""
        _, _, message_count, stored_bytes, creator, _ = self._inboxes[inbox_id]
        max_messages, max_bytes = self._maxima(inbox_id)
        full = (
            message_count + self.added_messages[inbox_id] >= max_messages
            or stored_bytes + self.added_bytes[inbox_id] >= max_bytes
            or (creator is not None and not self._creator_fits(creator, 1))
        )
        return InboxChange(inbox_id, full)

    def _maxima(self, inbox_id: str) -> tuple[int, int]:
        limits = self._limits
        if inbox_id == OPERATOR_INBOX_ID:
            return limits.operator_max_messages, limits.operator_max_bytes
        return limits.max_messages, limits.max_bytes


class AddMessage(Operation):
    """Store a mail for all of its inboxes that live, or for none; the result is its first id."""

    def __init__(self, mail: NewMail, limits: Limits) -> None:
        self.mail = mail
        self.limits = limits
        self.size_bytes = len(mail.raw) + len(mail.parsed.body)

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["AddMessage"]) -> list[Any]:
        """Insert the mails of a whole batch with one call a table: each call is a hand-over of the GIL."""
        inbox_ids = {inbox_id for operation in operations for inbox_id in operation.mail.inbox_ids}
        room = _Room(transaction, inbox_ids, operations[0].limits)
        messages: list[tuple[int, int, int, int, int]] = []
        contents: list[tuple[Any, ...]] = []
        outcomes: list[Any] = []
        for operation in operations:
            mail = operation.mail
            recipients = operation._recipients(room)  # noqa: SLF001 - our own kind
            if isinstance(recipients, RequestError):
                outcomes.append(recipients)
                continue
            room.add(list(recipients), len(mail.raw))
            rows, written = _lay_out(transaction, recipients)
            messages += rows
            contents.append(content_row(mail, written, rows[0][0], transaction.now_ms))
            outcomes.append(ids.message_id(rows[0][0]))
        if messages:
            _insert(transaction, messages, contents)
            _count(transaction, room)
        return outcomes

    def _recipients(self, room: _Room) -> dict[str, str] | RequestError:
        """Return the live inboxes with the recipient that first named each, or why the mail is refused."""
        recipients: dict[str, str] = {}
        for inbox_id, recipient in zip(self.mail.inbox_ids, self.mail.envelope.recipients, strict=True):
            if room.lives(inbox_id):
                recipients.setdefault(inbox_id, recipient)
        if not recipients:
            return AddressNotFound("no recipient is left")
        if not room.fits(list(recipients), len(self.mail.raw)):
            return MailboxFull("a recipient has no room")
        return recipients


def _lay_out(
    transaction: Transaction, recipients: dict[str, str]
) -> tuple[list[tuple[int, int, int, int, int]], bytes]:
    """Draw the keys of a mail's messages; return their rows and the recipients they point into."""
    written = [recipient.encode() for recipient in recipients.values()]
    keys = [transaction.draw_message_key() for _ in recipients]
    starts = accumulate(map(len, written), initial=0)
    rows = [
        (key, int(inbox_id), keys[0], start, len(recipient))
        for key, inbox_id, start, recipient in zip(keys, recipients, starts, written, strict=False)
    ]
    return rows, b"".join(written)


def _insert(
    transaction: Transaction, messages: list[tuple[int, int, int, int, int]], contents: list[tuple[Any, ...]]
) -> None:
    _insert_rows(transaction, "content", contents)
    _insert_rows(transaction, "message", messages)


def _insert_rows(transaction: Transaction, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    transaction.connection.execute(f"INSERT INTO {table} VALUES {_tuples(rows)}", list(chain.from_iterable(rows)))


def _tuples(rows: Sequence[tuple[Any, ...]]) -> str:
    one = f"({','.join('?' * len(rows[0]))})"
    return ",".join([one] * len(rows))


def _count(transaction: Transaction, room: _Room) -> None:
    execute = transaction.connection.execute
    added = [
        (room.added_messages[inbox_id], room.added_bytes[inbox_id], int(inbox_id)) for inbox_id in room.added_bytes
    ]
    execute(
        "UPDATE inbox SET message_count = message_count + column1, stored_bytes = stored_bytes + column2"
        f" FROM (VALUES {_tuples(added)}) WHERE inbox.id = column3",
        list(chain.from_iterable(added)),
    )
    creators = list(room.added_creator_bytes.items())
    if creators:
        execute(
            f"INSERT INTO creator VALUES {_tuples(creators)}"
            " ON CONFLICT (hash) DO UPDATE SET stored_bytes = stored_bytes + excluded.stored_bytes",
            list(chain.from_iterable(creators)),
        )
    for inbox_id in room.added_messages:
        transaction.changes[inbox_id] = room.change(inbox_id)
