"""Copies the database while mail is being stored in it, and erases each copy afterwards."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import BinaryIO

import anyio

from tmpmaild.errors import Stopping, StorageFull, StorageUnavailable
from tmpmaild.storage.sqlite.errors import translate
from tmpmaild.storage.sqlite.layout import PAGE_BYTES
from tmpmaild.storage.sqlite.opening import open_to_read
from tmpmaild.storage.sqlite.paths import unfinished
from tmpmaild.storage.sqlite.space import DiskSpace

_COPIED_PAGES = 256  # per step
_COPY_PAUSE_SECONDS = 0.002  # the pause after each step, for other work
_MIB = 1024 * 1024


def remove_unfinished(path: Path) -> None:
    """Remove an unfinished copy left by a process that was killed."""
    with suppress(FileNotFoundError), unfinished(path).open("r+b") as copy:
        unfinished(path).unlink()
        _erase_copy(copy)


def _erase_copy(copy: BinaryIO) -> None:
    """Overwrite a copy and close it, so that the freed blocks contain no mail."""
    with copy, suppress(OSError):  # a full disk with a copy-on-write file system, for example
        left = copy.seek(0, os.SEEK_END)
        copy.seek(0)
        while left > 0:
            left -= copy.write(bytes(min(left, _MIB)))
        copy.flush()
        os.fsync(copy.fileno())


class BackupMaker:
    """Copies the database in short steps while new mail is stored, one copy at a time.

    The copy is a snapshot: it is made in one read transaction, which also prevents the WAL from being emptied.
    """

    def __init__(self, space: DiskSpace) -> None:
        self._path = space.path
        self._space = space
        self._busy = False

    @asynccontextmanager
    async def made(self) -> AsyncIterator[BinaryIO]:
        """Make a copy, and yield it as an unlinked file, which disappears when it is closed.

        Raises ``StorageFull`` if the disk has too little free space, and ``StorageUnavailable`` while another copy is
        in progress.
        """
        if self._busy:
            raise StorageUnavailable("another copy is in progress")
        self._busy = True
        try:
            copy = await self._make()
            try:
                yield copy
            finally:
                with anyio.CancelScope(shield=True):
                    await asyncio.to_thread(_erase_copy, copy)
        finally:
            self._busy = False

    async def _make(self) -> BinaryIO:
        stop = threading.Event()
        copying = asyncio.ensure_future(asyncio.to_thread(self._copy, stop))
        try:
            await asyncio.wait([copying])  # wait() does not cancel the copy when this task is cancelled
        except asyncio.CancelledError:
            stop.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([copying])
            if not copying.exception():
                await asyncio.to_thread(_erase_copy, copying.result())
            raise
        return copying.result()

    def _copy(self, stop: threading.Event) -> BinaryIO:
        target = unfinished(self._path)
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            try:
                self._fill(target, stop)
                return target.open("r+b")
            except BaseException:
                remove_unfinished(self._path)
                raise
            finally:
                target.unlink(missing_ok=True)
        except sqlite3.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StorageUnavailable(f"the copy cannot be made: {error.strerror or error}") from error

    def _fill(self, target: Path, stop: threading.Event) -> None:
        with (
            closing(open_to_read(self._path)) as source,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            source.execute("BEGIN")  # otherwise, each of the writer's commits would restart the backup
            (pages,) = source.execute("PRAGMA page_count").fetchone()
            source.execute("SELECT clean_stop FROM daemon").fetchone()
            copy.execute("PRAGMA synchronous = OFF")
            copy.execute("PRAGMA journal_mode = OFF")

            def pause(_status: int, remaining: int, _total: int) -> None:
                if stop.is_set():
                    raise Stopping("the service is stopping")
                self._expect_room(remaining)
                time.sleep(_COPY_PAUSE_SECONDS)

            self._expect_room(pages)
            source.backup(copy, pages=_COPIED_PAGES, progress=pause)

    def _expect_room(self, pages: int) -> None:
        missing_bytes = self._space.missing_bytes(pages * PAGE_BYTES)
        if missing_bytes > 0:
            raise StorageFull(f"no room for a copy: the disk needs {missing_bytes // _MIB + 1} MiB more")
