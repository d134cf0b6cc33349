"""Checks whether the open files are still at their paths, and whether there is space for more mail."""

import asyncio
import logging
import math
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tmpmaild.errors import RequestError
from tmpmaild.metrics import Gauge, Metric
from tmpmaild.storage.sqlite.layout import PAGE_BYTES
from tmpmaild.storage.sqlite.paths import free_disk_bytes, real, wal_of
from tmpmaild.storage.sqlite.wal import MAX_IDLE_WAL_BYTES, erase_wal

_MEASURE_EVERY_SECONDS = 0.1
_MEASURE_AGAIN_EVERY_SECONDS = 1.0
_MIB = 1024 * 1024
_MAX_SENSIBLE_BYTES = 10 * 1024**3
# The amount by which the file and the WAL together may exceed the cap while free pages of the file are reused.
_SLACK_BYTES = 32 * 1024 * 1024

log = logging.getLogger(__name__)


class Files:
    """The identities of the open database and WAL files; used in the writer's thread.

    ``lost`` is true once one of the files has been removed or replaced; ``wal_bytes`` is the WAL's length at the last
    check.
    """

    def __init__(self, path: Path) -> None:
        # The path is absolute, as in SQLite: if the folder is renamed, neither this class nor SQLite finds the file.
        self.path = path.absolute()
        self.lost = False
        self.wal_bytes = 0
        self.folder = real(path).parent
        self._paths = str(self.path), str(wal_of(path))
        self._opened = self._identities()

    def check(self) -> bool:
        """Compare the files at the paths with the opened files; return ``lost``, which stays true once it is set.

        This takes two stat(2) calls. No descriptor is needed: SQLite keeps both files open, so no other file can have
        their inode numbers. Closing a descriptor would also drop the locks that SQLite holds for this process.
        """
        if not self.lost:
            try:
                self.lost = self._identities() != self._opened
                reason = "is not the file that was opened"
            except OSError as error:
                self.lost = True
                reason = f"cannot be found ({error.strerror})"
            if self.lost:
                log.error("%s: the database or its -wal %s; no more mail is accepted, stopping", self.path, reason)
        return self.lost

    def _identities(self) -> tuple[int, ...]:
        database, wal = map(os.stat, self._paths)
        self.wal_bytes = wal.st_size
        return database.st_dev, database.st_ino, wal.st_dev, wal.st_ino


def disk_reserve_bytes(cap_bytes: int, reserve_bytes: int) -> int:
    """Return the number of bytes that must stay free on the disk; ``reserve_bytes`` is for mail being received."""
    return max(256 * _MIB, cap_bytes // 10, reserve_bytes)


def sensible_cap_bytes(path: Path) -> int:
    """Return the default cap of a database: half the sum of its size and the free disk space, at most 10 GiB.

    If the free space is unknown, the cap is 10 GiB.
    """
    held_bytes = path.stat().st_size if path.exists() else 0
    free_bytes = free_disk_bytes(real(path).parent)
    return _MAX_SENSIBLE_BYTES if free_bytes is None else min(_MAX_SENSIBLE_BYTES, (free_bytes + held_bytes) // 2)


def cap_pages(connection: sqlite3.Connection, cap_bytes: int) -> None:
    """Set the maximum size of the file; SQLite uses the current size if that is larger."""
    connection.execute(f"PRAGMA max_page_count = {max(cap_bytes // PAGE_BYTES, 1)}")


class DiskSpace:
    """Determines whether there is space for more mail, based on the last measurement in the writer's thread."""

    def __init__(
        self,
        files: Files,
        connection: sqlite3.Connection,
        *,
        cap_bytes: int,
        reserve_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._connection = connection
        self._monotonic = monotonic
        self.change(cap_bytes=cap_bytes, reserve_bytes=reserve_bytes)
        self._moved_bytes = 0.0
        self._measured_wal_bytes = 0
        self._used_bytes = 0
        self._free_bytes: int | None = None
        self.has_room = True
        self.wal_is_too_long = False
        self.measure()
        if self._free_bytes is None:
            text = "%s: the file system does not report its free space; only storage.max_bytes (%d MiB) limits the mail"
            log.warning(text, self._files.folder, self._cap_bytes // _MIB)

    def change(self, *, cap_bytes: int, reserve_bytes: int) -> None:
        """Set the cap and the reserve, and make sure that the next ``measure`` is not skipped."""
        self._cap_bytes = cap_bytes
        self._disk_reserve_bytes = disk_reserve_bytes(cap_bytes, reserve_bytes)
        self._cap_reserve_bytes = min(cap_bytes // 10, reserve_bytes)
        self._measured_at_seconds = -math.inf

    def metrics(self) -> tuple[Metric, ...]:
        """Return the space metrics from the last measurement."""
        return (
            Gauge("storage_used_bytes", "Bytes of the database in use.", lambda: self._used_bytes),
            Gauge("storage_max_bytes", "The value of storage.max_bytes.", lambda: self._cap_bytes),
            Gauge("storage_free_disk_bytes", "Free bytes on the disk, if known.", self._free_bytes_if_known),
            Gauge("storage_wal_bytes", "Length of the write-ahead log.", lambda: self._files.wal_bytes),
            Gauge("storage_has_room", "1 while new mail and addresses are accepted.", lambda: self.has_room),
        )

    def _free_bytes_if_known(self) -> dict[tuple[str, ...], float]:
        return {} if self._free_bytes is None else {(): self._free_bytes}

    def measure(self, moved_bytes: float = 0.0) -> None:
        """Measure again, unless the last measurement is recent and little has been written since then.

        Measuring releases the GIL six times.

        ``max_page_count`` does not limit the WAL, which grows as long as another process reads. The part of its length
        that exceeds the length of an idle WAL counts as used space.
        """
        now = self._monotonic()
        self._moved_bytes += moved_bytes
        grown_bytes = self._files.wal_bytes - self._measured_wal_bytes
        fresh = now - self._measured_at_seconds < _MEASURE_EVERY_SECONDS
        few = max(self._moved_bytes, grown_bytes) < self._cap_reserve_bytes // 8
        # When space is short, few batches are written, so a batch that frees space may be the last batch for a long
        # time.
        if self.has_room and fresh and few:
            return
        self._measured_at_seconds, self._moved_bytes = now, 0.0
        fits = self._fits()
        self._measured_wal_bytes = self._files.wal_bytes
        self._free_bytes = free_disk_bytes(self._files.folder)
        self._decide(fits=fits)

    @property
    def wal_is_long(self) -> bool:
        """Whether the WAL was longer than an idle WAL at the last check."""
        return self._files.wal_bytes > MAX_IDLE_WAL_BYTES

    @property
    def path(self) -> Path:
        """The database."""
        return self._files.path

    def missing_bytes(self, wanted_bytes: int) -> int:
        """Return how many bytes the disk lacks for a file of this size plus the reserve; 0 or less if the file fits.

        If the free space is unknown, the file is expected to fit. The disk is measured immediately. May be called in
        any thread.
        """
        free_bytes = free_disk_bytes(self._files.folder)
        return 0 if free_bytes is None else wanted_bytes + self._disk_reserve_bytes - free_bytes

    def _decide(self, *, fits: bool) -> None:
        is_enough = self._free_bytes is None or self._free_bytes >= self._disk_reserve_bytes
        had_room, self.has_room = self.has_room, fits and is_enough
        if had_room and not self.has_room and not self.wal_is_too_long:  # a long WAL is logged separately
            text = "storage full: %s; new mail and addresses are refused"
            log.warning(text, self._shortage(fits=fits), extra={"event": "storage_full"})
        elif self.has_room and not had_room:
            log.info("storage has space again; mail and addresses are accepted", extra={"event": "storage_has_room"})

    def _shortage(self, *, fits: bool) -> str:
        if not fits:
            return f"storage.max_bytes ({self._cap_bytes // _MIB} MiB) is reached"
        free_mib, reserve_mib = (self._free_bytes or 0) // _MIB, self._disk_reserve_bytes // _MIB
        return f"the disk has {free_mib} MiB free, and {reserve_mib} MiB must stay free"

    def _fits(self) -> bool:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        # Free pages can be reused, but the file does not shrink.
        self._used_bytes = (pages - free) * PAGE_BYTES
        left_bytes = self._cap_bytes - max(
            self._used_bytes + self._cap_reserve_bytes, pages * PAGE_BYTES - _SLACK_BYTES
        )
        self.wal_is_too_long = 0 <= left_bytes < self._wal_excess_bytes()
        if self.wal_is_too_long and erase_wal(self._connection):
            self._files.check()
            self.wal_is_too_long = left_bytes < self._wal_excess_bytes()
        if self.wal_is_too_long:
            self._warn()
        return bool(left_bytes >= self._wal_excess_bytes())

    def _wal_excess_bytes(self) -> int:
        return max(0, self._files.wal_bytes - MAX_IDLE_WAL_BYTES)

    def _warn(self) -> None:
        log.warning(
            "the write-ahead log has grown to %d MiB, which count as used space, and new mail is refused: another"
            " process keeps a read transaction on the database open",
            self._files.wal_bytes // _MIB,
            extra={"about": "wal"},
        )


class Remeasuring:
    """While all mail is refused, no batch triggers a measurement, so this class measures, at most once a second.

    ``measure`` is called in the event loop; if it raises a ``RequestError``, the error is only logged.
    """

    def __init__(
        self, measure: Callable[[], Awaitable[object]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._begun_at_seconds = -math.inf
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Measure in the background, unless a measurement is running or was started within the last second."""
        now = self._monotonic()
        if self._task is None and now - self._begun_at_seconds >= _MEASURE_AGAIN_EVERY_SECONDS:
            self._begun_at_seconds = now
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._measure()
        except RequestError as error:
            log.debug("cannot measure the disk again: %s", error)
        finally:
            self._task = None

    async def close(self) -> None:
        """Wait for a running measurement to finish."""
        if self._task is not None:
            await self._task
