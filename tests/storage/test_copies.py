"""Backups of the whole database: they are complete and consistent, even during deliveries, and removed completely."""

import asyncio
import shutil
import stat
import threading
import time
from types import SimpleNamespace

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageFull, StorageUnavailable
from tmpmaild.model import Page
from tmpmaild.storage.sqlite import copies

from .conftest import run

TARGET = "mail.db.unfinished-copy"


def files(path):
    return {file.name for file in path.parent.iterdir()}


@pytest.fixture
def gate(monkeypatch):
    """Pause a copy after its first page: the pause sets ``reached``, and setting ``go`` ends the pause."""
    gate = SimpleNamespace(reached=threading.Event(), go=threading.Event())

    def pause(_seconds):
        gate.reached.set()
        gate.go.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(copies, "_COPIED_PAGES", 1)
    monkeypatch.setattr(copies, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    yield gate
    gate.go.set()


async def octets(engine):
    async with engine.storage.backup() as copy:
        return copy.read()


async def test_mail_that_is_stored_during_a_copy_is_not_in_the_copy(engine, path, tmp_path, gate):
    before, inbox = files(path), await engine.inbox("ada")
    old = await engine.add(inbox)
    making = asyncio.ensure_future(octets(engine))
    await asyncio.to_thread(gate.reached.wait, 10)
    assert stat.S_IMODE(path.with_name(TARGET).stat().st_mode) == 0o600
    for _ in range(3):
        await engine.add(inbox)
    with pytest.raises(StorageUnavailable, match="another copy"):
        await octets(engine)
    gate.go.set()
    copied = await making
    assert files(path) == before
    (copy := tmp_path / "copy.db").write_bytes(copied)
    assert run(copy, "PRAGMA integrity_check") == [("ok",)]
    assert run(copy, "SELECT count(*) FROM message") == [(1,)]
    assert old in [message.id for message in await engine.messages("ada", Page())]


@pytest.mark.parametrize("pages", [1, 10_000])
async def test_a_cancelled_copy_leaves_nothing(engine, path, gate, monkeypatch, pages):
    # With 10,000 pages, the copy is complete before it is cancelled.
    monkeypatch.setattr(copies, "_COPIED_PAGES", pages)
    before = files(path)
    making = asyncio.ensure_future(octets(engine))
    await asyncio.to_thread(gate.reached.wait, 10)
    making.cancel()
    gate.go.set()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert files(path) == before
    assert len(await octets(engine)) > 4096


async def test_a_copy_that_cannot_be_written_is_refused_with_the_reason(engine, path):
    path.with_name(TARGET).mkdir()
    with pytest.raises(StorageUnavailable, match="the copy cannot be made: File exists"):
        await octets(engine)


async def test_without_free_space_there_is_no_copy(engine, path, monkeypatch):
    before = files(path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=256 * 1024 * 1024 + 4096))
    with pytest.raises(StorageFull, match="the disk needs 1 MiB more"):
        await octets(engine)
    assert files(path) == before


async def test_the_copy_of_a_killed_process_is_removed_by_the_next_start(open_engine, path):
    path.with_name(TARGET).write_bytes(b"secret-octets")
    async with open_engine():
        assert TARGET not in files(path)
