"""Internal errors, caused by the kernel and other programs as in production: the server always replies with 4xx."""

import asyncio
import contextlib
import resource
import shutil
import sqlite3

import pytest

from patience import PATIENCE_SECONDS

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")
MIB = 1024 * 1024
STORED = "250 2.0.0 Ok: stored as "
SYSTEM_FULL = "452 4.3.1 Insufficient system storage, try again later"
OUR_FAULT = "451 4.3.0 Temporary failure, try again later"


# Space


async def sweep_until_there_is_room(house, now_ms):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await house.storage.sweep(now_ms) or not house.service.deliverer.has_room():
            pass


@pytest.mark.both_engines
async def test_a_message_over_the_storage_cap_is_refused_at_the_dot_and_a_small_message_is_accepted(talk):
    async with talk(storage_bytes=MIB) as (house, client):
        assert await client.deliver("abc", mail="x" * 2 * MIB) == SYSTEM_FULL
        assert house.sources() == []
        assert (await client.deliver("abc")).startswith(STORED)


@pytest.mark.both_engines
async def test_a_storage_at_its_cap_refuses_at_mail_and_accepts_mail_after_a_sweep(talk, clock):
    async with talk(storage_bytes=MIB, limits={"reserve_bytes": MIB // 10}) as (house, client):
        promised = 0
        for _ in range(MIB // 50_000):
            if await client.say(MAIL[0]) == [SYSTEM_FULL]:
                break
            await client.say("RSET")
            assert (await client.deliver("abc", mail="x" * 50_000)).startswith(STORED)
            promised += 1
        assert await client.say(*MAIL[1:]) == ["503 5.5.1 Bad sequence of commands", "554 5.5.1 No valid recipients"]
        assert len(house.sources()) == promised > 5  # all acknowledged messages are still stored
        clock.advance(seconds=3600)
        await sweep_until_there_is_room(house, clock())
        await house.create("new")
        assert (await client.deliver("new")).startswith(STORED)


async def test_a_nearly_full_disk_refuses_at_mail_and_mail_in_transfer_is_accepted(serve, monkeypatch):
    async with serve(storage_bytes=64 * MIB) as house:
        client, late = await house.greeted(), await house.greeted()
        await client.say(*MAIL)
        really = shutil.disk_usage(house.store.path.parent)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: really._replace(free=255 * MIB))
        assert (await client.say("x" * 2 * MIB + "\r\n."))[0].startswith(STORED)
        await house.until(lambda: not house.service.deliverer.has_room())
        assert await late.say("MAIL FROM:<>") == [SYSTEM_FULL]
        monkeypatch.setattr(shutil, "disk_usage", lambda _: really._replace(free=257 * MIB))
        await house.until(house.service.deliverer.has_room)  # room is found again without a sweep
        assert (await late.deliver("abc")).startswith(STORED)


async def test_the_cap_is_kept_during_a_foreign_read_and_mail_is_accepted_after_it(talk, caplog):
    """Pages that another process may still read must stay in the WAL, so it grows with each message."""
    cap_bytes = 24 * MIB
    async with talk(storage_bytes=cap_bytes, limits={"reserve_bytes": MIB}) as (house, client):
        files = [house.store.path, house.store.path.with_name("mail.db-wal")]
        with contextlib.closing(sqlite3.connect(house.store.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM message").fetchall()
            while await client.say("MAIL FROM:<>") != [SYSTEM_FULL]:
                await client.say("RSET")
                assert (await client.deliver("abc", mail="x" * 200_000)).startswith(STORED)
                assert sum(file.stat().st_size for file in files) <= cap_bytes
            # When the reader stops, the database file must have room for the content of the WAL.
            assert sum(file.stat().st_size for file in files) > cap_bytes / 2
            warnings = [record for record in caplog.records if record.levelname == "WARNING"]
            assert {record.about for record in warnings} == {"wal"}
            assert "another process keeps a read transaction" in warnings[0].getMessage()
        promised = len(house.sources())
        await house.until(house.service.deliverer.has_room)
        assert (await client.deliver("abc")).startswith(STORED)
        assert len(house.sources()) == promised + 1


# Faults


@contextlib.contextmanager
def locked(house):
    """Hold the database's write lock, as another program might."""
    house.storage._writer._connection.execute("PRAGMA busy_timeout = 20")  # the default is five seconds
    stranger = sqlite3.connect(house.store.path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    yield
    stranger.execute("ROLLBACK")
    stranger.close()


@contextlib.contextmanager
def files_that_do_not_grow(_):
    """Make every write beyond the first half mebibyte of a file fail, which SQLite reports as an ordinary I/O error."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 2, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("trouble", [locked, files_that_do_not_grow])
async def test_a_database_error_is_temporary_and_the_session_continues(talk, caplog, trouble):
    async with talk() as (house, client):
        with trouble(house):
            said = await client.deliver("abc", mail="Subject: secret-subject\r\n\r\n" + "x" * MIB)
            assert said == OUR_FAULT
            assert await client.say("NOOP") == ["250 2.0.0 Ok"]
        assert house.sources() == []
        assert (await client.deliver("abc", mail="Subject: after")).startswith(STORED)
        assert [message.subject for message in await house.messages("abc")] == ["after"]
        (failure, *_) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert failure.getMessage().startswith("unexpected error from the database: ")
        assert not any(record.exc_info for record in caplog.records)
        assert "secret-subject" not in caplog.text


async def test_clients_waiting_for_a_foreign_lock_get_replies_and_only_acknowledged_mail_is_stored(serve):
    async with serve(names=("abc", "def")) as house:
        clients = [await house.greeted() for _ in range(20)]
        for client in clients:
            await client.say(*MAIL[:1], "RCPT TO:<def@ours.test>", *MAIL[1:])
        with locked(house):
            for client in clients[:10]:
                client.send("Subject: behind", ".")
            assert [await client.reply() for client in clients[:10]] == [OUR_FAULT] * 10
        for client in clients[10:]:
            client.send("Subject: after", ".")
        said = [await client.reply() for client in clients[10:]]
        assert all(reply.startswith(STORED) for reply in said)
        for name in ("abc", "def"):
            assert [message.subject for message in await house.messages(name)] == ["after"] * 10
