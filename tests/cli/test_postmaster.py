"""The operator's inbox on a console: it is readable with and without a running daemon, and its text is harmless."""

import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from services import service_over

from tmpmaild.cli import postmaster
from tmpmaild.cli.main import main
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage, operator_mail, read_database, upgrade

MAIL = b"From: Ada <ada@example.com>\r\nSubject: Spam from you\r\n\r\nStop it.\r\n\r\nAda\r\n"
HOSTILE = Path(__file__).with_name("postmaster-hostile.eml").read_bytes()


class Box:
    """A daemon's database; ``deliver`` stores a message for the operator."""

    def __init__(self, path, clock):
        self.path = path
        self.clock = clock
        self.environ = {"TMPMAILD_STORAGE__PATH": str(path), "TMPMAILD_SMTP__HOSTNAME": "mx.mail.example.com"}

    def open(self):
        return open_storage(SqliteSettings(max_bytes=1 << 28, path=self.path), self.clock)

    async def deliver(self, storage, raw=MAIL, *recipients):
        service = service_over(storage, lifetime_seconds=1)
        recipients = recipients or ("postmaster@mail.example.com",)
        if "ada@mail.example.com" in recipients:
            await service.inboxes.create(NewAddress("ada"), None)
        inbox_ids = [await service.deliverer.recipient(Mailbox(*one.split("@"))) for one in recipients]
        return await service.deliverer.deliver(
            Envelope("bob@example.org", recipients, "mx", "192.0.2.1", tls=False), inbox_ids, raw
        )

    def files(self):
        return {file.name: file.read_bytes() for file in self.path.parent.iterdir() if not file.name.endswith("-shm")}

    def run(self, *arguments):
        return CliRunner().invoke(main, ["postmaster", *arguments], env=self.environ)


@pytest.fixture
def box(tmp_path, clock):
    return Box(tmp_path / "mail.db", clock)


async def test_mail_is_listed_newest_first_in_columns_that_line_up(box):
    async with box.open() as storage:
        first = await box.deliver(storage)
        box.clock.advance(seconds=60)
        second = await box.deliver(
            storage, b"From: x@y.test\r\nSubject: \xe4\xbd\xa0\xe5\xa5\xbd\r\n\r\n", "abuse@mail.example.com"
        )
    assert box.run().stdout == (
        "ID                              RECEIVED                  SIZE  FROM             TO                           SUBJECT\n"
        f"{second}  2026-09-21T14:14:20.000Z  35    x@y.test         abuse@mail.example.com       你好\n"
        f"{first}  2026-09-21T14:13:20.000Z  {len(MAIL)}    ada@example.com  postmaster@mail.example.com  Spam from you\n"
    )


async def test_a_message_is_shown_as_a_person_reads_it(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage)
    assert box.run(message_id).stdout == (
        "From:     Ada <ada@example.com>\nTo:       postmaster@mail.example.com\nDate:     2026-09-21T14:13:20.000Z\n"
        "Subject:  Spam from you\n\nStop it.\n\nAda\n"
    )


async def test_the_body_is_complete_however_long_it_is(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage, b"Subject: x\r\n\r\n" + b"0123456789\r\n" * 500_000)
    assert box.run(message_id).stdout.count("0123456789\n") == 500_000


async def test_raw_prints_the_trace_fields_and_the_unchanged_source(box):
    octets = bytes(range(256)) + b"\r\n"
    async with box.open() as storage:
        message_id = await box.deliver(storage, octets, "ada@mail.example.com", "Abuse@mail.example.com")
        (line,) = postmaster.listing(operator_mail(SqliteSettings(path=box.path))).splitlines()[1:]
    done = box.run("--raw", line.split()[0])
    fields = done.stdout_bytes.removesuffix(octets)
    assert fields.decode() == (
        "Return-Path: <bob@example.org>\r\nReceived: from mx ([192.0.2.1])\r\n"
        f"\tby mx.mail.example.com with ESMTP id {line.split()[0]}\r\n"
        "\tfor <Abuse@mail.example.com>; Mon, 21 Sep 2026 14:13:20 +0000\r\n"
    )
    assert (box.run("--raw", message_id).exit_code, box.run("--raw").exit_code) == (1, 2)


@pytest.mark.parametrize("message_id", ["msg_nothing", "x", "", "msg_" + "0" * 26, "msg_7" + "z" * 25, "\udcff\n"])
async def test_a_missing_message_is_reported_in_one_line(box, message_id):
    async with box.open() as storage:
        await box.deliver(storage)
    for raw in ([], ["--raw"]):
        done = box.run(*raw, message_id)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("tmpmaild: the operator's inbox has no such message")
        assert done.stderr.count("\n") == 1


async def test_no_control_sequence_reaches_the_terminal(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage, HOSTILE)
    table, page = box.run().stdout, box.run(message_id).stdout
    assert is_harmless(table)
    assert table.count("\n") == 2
    assert "\t" not in table
    assert is_harmless(page.replace("\t", ""))
    head, _, body = page.partition("\n\n")
    assert len(head.splitlines()) == 5
    assert "\t" not in head
    assert body.startswith("one\ttwo\n\ufffd[2J\ufffd\ufffd\ufffd\ufffd31m \ufffdback\ufffd \ufffd \ufffd")


def is_harmless(text):
    return {unicodedata.category(one) for one in text if one != "\n"} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()


async def test_a_character_that_the_terminal_cannot_show_is_replaced(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage, b"Subject: \xe4\xbd\xa0\r\n\r\n\xe4\xbd\xa0\r\n")
    for arguments in ([], [message_id]):
        done = CliRunner(charset="latin-1").invoke(main, ["postmaster", *arguments], env=box.environ)
        assert (done.exit_code, "?" in done.stdout) == (0, True)


async def test_reading_next_to_a_daemon_shows_committed_messages_without_disturbing_the_daemon(box):
    async with box.open() as storage:
        for _ in range(3):
            message_id = await box.deliver(storage)
            before = box.files()
            assert message_id in postmaster.listing(operator_mail(SqliteSettings(path=box.path)))
            assert "Stop it." in postmaster.readable(operator_mail(SqliteSettings(path=box.path)), message_id)
            assert box.files() == before
            assert await storage.erase()  # erasing would fail if a reader still had the database open
        assert postmaster.listing(operator_mail(SqliteSettings(path=box.path))).count("\n") == 4


async def test_reading_without_a_daemon_changes_no_file(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage)
    before = box.files()
    assert set(before) == {"mail.db", "mail.db.lock"}
    box.path.chmod(0o400)
    box.path.parent.chmod(0o500)
    try:
        assert message_id in postmaster.listing(operator_mail(SqliteSettings(path=box.path)))
        assert postmaster.source(operator_mail(SqliteSettings(path=box.path)), message_id, "mx").endswith(MAIL)
    finally:
        box.path.parent.chmod(0o700)
    assert box.files() == before
    assert {file.name for file in box.path.parent.iterdir()} == set(before)


async def test_messages_left_by_a_killed_daemon_are_read_from_its_wal(box):
    async with box.open() as storage:
        message_id = await box.deliver(storage)
        copy = box.path.parent / "left" / "mail.db"
        copy.parent.mkdir()
        for end in ("", "-wal", "-shm"):
            copy.with_name(copy.name + end).write_bytes(box.path.with_name(box.path.name + end).read_bytes())
    box.path = copy
    before = box.files()
    assert message_id in postmaster.listing(operator_mail(SqliteSettings(path=copy)))
    assert box.files() == before


async def test_a_link_to_the_database_is_followed_to_its_wal(box, tmp_path):
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(box.path)
    async with box.open() as storage:
        message_id = await box.deliver(storage)
        assert message_id in postmaster.listing(operator_mail(SqliteSettings(path=link)))


async def test_a_daemon_that_starts_during_reading_is_detected(box):
    async with box.open() as storage:
        await box.deliver(storage)
    box.clock.advance(seconds=1000 * 24 * 3600)
    wal = box.path.with_name(box.path.name + "-wal")
    reads = []

    def read(connection):
        reads.append(connection)
        if len(reads) == 1:
            wal.touch()
            raise sqlite3.DatabaseError("torn")
        return "read again"

    assert read_database(box.path, read) == "read again"
    assert len(reads) == 2


def make_foreign(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (id INTEGER PRIMARY KEY)")


def set_version(path, version):
    upgrade(SqliteSettings(path=path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


SPOILS = {
    "missing": (lambda _: None, "cannot be opened (No such file or directory)"),
    "folder": (lambda path: path.mkdir(), "is a folder; storage.path must be a file"),
    "empty": (lambda path: path.touch(), "schema version 0 is older than this tmpmaild's"),
    "foreign": (make_foreign, "a database created by another program"),
    "newer": (lambda path: set_version(path, 9999), "schema version 9999 is newer than this tmpmaild supports"),
    "older": (lambda path: set_version(path, 0), "schema version 0 is older than this tmpmaild's"),
    "no database": (
        lambda path: path.write_bytes(b"no database" * 500),
        "not a SQLite database, or damaged at its start",
    ),
}


@pytest.mark.parametrize(("spoil", "says"), SPOILS.values(), ids=SPOILS)
def test_an_unreadable_database_is_reported_in_one_line_and_left_unchanged(box, spoil, says):
    spoil(box.path)
    names = {file.name for file in box.path.parent.iterdir()}
    before = box.path.read_bytes() if box.path.is_file() else None
    for arguments in ([], ["msg_x"], ["msg_x", "--raw"]):
        done = box.run(*arguments)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"tmpmaild: {box.path}: {says}")
        assert done.stderr.count("\n") == 1
    assert {file.name for file in box.path.parent.iterdir()} == names
    assert before is None or box.path.read_bytes() == before
