"""The size charged for a message is never smaller than its size in the file, and not much larger."""

from contextlib import closing
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.config.settings import Addresses, Smtp
from tmpmaild.mail import mime
from tmpmaild.model import Envelope, NewMail
from tmpmaild.storage.sqlite import opening
from tmpmaild.storage.sqlite.engine import migrate
from tmpmaild.storage.sqlite.layout import NO_CONTENT, PAGE_BYTES, content_columns, insert

from .conftest import new_mail

INBOX = "5"
SPARE_PAGES = 4  # each of the four b-trees may have a partly filled page


class Table:
    """A database with rows written in the same way as by the engine, and the total size charged."""

    def __init__(self, path) -> None:
        self.connection = opening.connect(path)
        migrate(self.connection)
        for inbox_id in range(5, 10):
            sql = "INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private) VALUES (?, ?, 1, 2, 0)"
            self.connection.execute(sql, (inbox_id, bytes((inbox_id,))))
        self.keys = count(1 << 60, 1 << 20)
        self.empty_pages = self.used_pages()

    def used_pages(self):
        return (
            self.connection.execute("PRAGMA page_count").fetchone()[0]
            - self.connection.execute("PRAGMA freelist_count").fetchone()[0]
        )

    def used_bytes(self):
        return (self.used_pages() - self.empty_pages) * PAGE_BYTES

    def charged_bytes(self):
        return self.connection.execute("SELECT sum(stored_bytes) FROM inbox").fetchone()[0]

    def add(self, *inbox_ids, **mail):
        recipients = b"".join(b"r" * 50 for _ in inbox_ids)
        cost_bytes, columns = content_columns(new_mail(*map(str, inbox_ids), **mail), recipients, 1_790_000_000_000)
        keys = [next(self.keys) for _ in inbox_ids]
        insert(
            self.connection,
            [
                (key, inbox_id, keys[0], 0, 50, *(columns if key == keys[0] else NO_CONTENT))
                for key, inbox_id in zip(keys, inbox_ids, strict=True)
            ],
        )
        return cost_bytes

    def delete(self, key):
        self.connection.execute("DELETE FROM message WHERE id = ?", (key,))
        self.connection.execute("DELETE FROM content WHERE id NOT IN (SELECT content_id FROM message)")


@pytest.fixture
def table(path):
    made = Table(path)
    with closing(made.connection):
        yield made


octets = st.integers(0, 200) | st.integers(3000, 5000) | st.integers(0, 60_000)


@given(
    mails=st.lists(st.tuples(octets, octets, st.booleans(), st.integers(1, 5)), min_size=1, max_size=60),
    deleted=st.sets(st.integers(0, 60)),
)
def test_a_message_is_never_charged_less_than_its_stored_size(tmp_path_factory, mails, deleted):
    made = Table(tmp_path_factory.mktemp("layout") / "mail.db")
    with closing(made.connection):
        for raw_bytes, body_bytes, has_html, recipients in mails:
            html = "ü" * body_bytes if has_html else None
            made.add(*range(5, 5 + recipients), raw=b"x" * raw_bytes, body="y" * body_bytes, html=html)
        assert made.used_bytes() <= made.charged_bytes() + SPARE_PAGES * PAGE_BYTES
        keys = [key for (key,) in made.connection.execute("SELECT id FROM message ORDER BY id")]
        for number in deleted:
            made.delete(keys[number % len(keys)])
        assert made.used_bytes() <= made.charged_bytes() + SPARE_PAGES * PAGE_BYTES


def test_tiny_messages_that_are_alone_in_their_pages_after_a_deletion_are_charged_enough(table):
    for number in range(1500):
        table.add(5 + number % 5, raw=b"x" * 40, body="")
    assert table.used_bytes() <= table.charged_bytes() <= 1.25 * table.used_bytes()
    table.connection.execute("BEGIN")
    keys = [key for (key,) in table.connection.execute("SELECT id FROM message ORDER BY id")]
    for number, key in enumerate(keys):
        if number % 8 < 5:
            table.connection.execute("DELETE FROM message WHERE id = ?", (key,))
            table.connection.execute("DELETE FROM content WHERE id = ?", (key,))
    table.connection.execute("COMMIT")
    assert table.used_bytes() <= table.charged_bytes() <= 1.25 * table.used_bytes()


def test_a_large_message_is_charged_little_more_than_its_pages(table):
    cost_bytes = table.add(5, raw=b"x" * 10_000_000, body="")
    assert table.used_bytes() <= cost_bytes <= table.used_bytes() + 2 * PAGE_BYTES


def test_exactly_the_charged_bytes_are_freed(table):
    sizes = [0, 40, 5000, 123_456]
    costs = [table.add(5, 6, raw=b"x" * size) for size in sizes]
    execute = table.connection.execute
    assert execute("SELECT id, stored_bytes FROM inbox WHERE id IN (5, 6)").fetchall() == [
        (5, sum(costs)),
        (6, sum(costs)),
    ]
    keys = [key for (key,) in execute("SELECT id FROM message WHERE inbox_id = 5 ORDER BY id")]
    for key, cost_bytes in zip(keys, costs, strict=True):
        before = execute("SELECT stored_bytes FROM inbox WHERE id = 5").fetchone()[0]
        table.delete(key)
        assert execute("SELECT stored_bytes FROM inbox WHERE id = 5").fetchone()[0] == before - cost_bytes
    assert execute("SELECT stored_bytes, message_count FROM inbox WHERE id = 5").fetchone() == (0, 0)


def worst_mail(size_bytes):
    """Return a message of this size that takes up the most space: its texts grow, and its file names are long."""
    euros = b"\x80" * 900 + b"\r\n"
    text = euros * (mime.MAX_TEXT_BYTES // len(euros) + 1)
    names = "".join(f"X-Name-{number:04}: {'€' * 20}\r\n" for number in range(850))
    parts = [
        b"Content-Type: text/plain; charset=windows-1252\r\n\r\n" + text,
        b"Content-Type: text/html; charset=windows-1252\r\n\r\n" + text,
        *[
            b"Content-Type: application/%s\r\nContent-ID: <%s>\r\nContent-Disposition: attachment; filename=%s\r\n\r\n"
            % (b"y" * 127, b"c" * 255, b"'" * 255)
        ]
        * 990,
    ]
    head = names.encode() + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    mail = head + b"".join(b"--b\r\n" + part + b"\r\n" for part in parts)
    return mail + b"z" * (size_bytes - len(mail))


def test_two_of_the_largest_messages_fit_into_an_inbox_by_default():
    raw = worst_mail(Smtp().max_message_bytes)
    parsed = mime.parse(raw)
    assert isinstance(parsed.body, str)
    assert len(parsed.attachments) > 900
    envelope = Envelope("a@example.com", (), "mx.example.com", "192.0.2.1", tls=False)
    cost_bytes, _ = content_columns(NewMail(envelope, (), raw, parsed), b"r" * 100 * 320, 0)
    assert cost_bytes > 2 * len(raw)
    assert 2 * cost_bytes <= Addresses().max_bytes
