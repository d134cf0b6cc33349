"""The file of the database: opened with our pragmas, checked before anything is changed, locked against other daemons.

Also what is watched while it is open: whether it is still the file at its path, whether there is space for more mail.
It can be copied meanwhile. At the end are the texts of the errors that stop a start. The other modules of this folder
read and write the tables.
"""

import asyncio
import errno
import fcntl
import grp
import logging
import math
import os
import pwd
import shutil
import sqlite3
import stat
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import anyio

from tmpmaild.errors import DatabaseError, DatabaseRefused, RequestError, Stopping, StorageFull, StorageUnavailable
from tmpmaild.metrics import Gauge, Metric
from tmpmaild.storage.sqlite.layout import OVERFLOW_BYTES, PAGE_BYTES
from tmpmaild.storage.sqlite.writer import translate

APPLICATION_ID = 0x746D7064  # "tmpd"

_BUSY_TIMEOUT_MS = 5000
MAX_IDLE_WAL_BYTES = 4 * 1024 * 1024
"""The length from which on the WAL is truncated even if nothing was deleted; longer only while it is being read."""
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_CACHED_PAGES = 16  # while zeros are written
_ZEROED_AT_ONCE = 100_000  # a value has at most a gigabyte
_MOST_PAGES = (1 << 32) - 2
_MAPPED_PAGES = PAGE_BYTES // 5
_LOCK_BYTE_PAGE = (1 << 30) // PAGE_BYTES + 1
_KINDS_WITHOUT_TEXT = (b"\2", b"\5")  # free, and of a b-tree below its root
_PRAGMAS: dict[str, str | int] = {
    "page_size": PAGE_BYTES,
    "auto_vacuum": 2,  # incremental; like the page size it takes effect before the first table only
    "journal_mode": "wal",
    "synchronous": 2,  # FULL: a COMMIT that returns is fsynced
    "foreign_keys": 1,
    "busy_timeout": _BUSY_TIMEOUT_MS,
    "secure_delete": 1,
    "temp_store": 2,  # memory: no mail in temporary files
    "trusted_schema": 0,
    "cell_size_check": 1,
    "journal_size_limit": -1,  # none: what is truncated must be overwritten first
}
READER_PRAGMAS = (
    *(
        f"PRAGMA {name} = {_PRAGMAS[name]}"
        for name in ("busy_timeout", "temp_store", "trusted_schema", "cell_size_check")
    ),
    "PRAGMA query_only = 1",
)
"""For a connection that only reads, of a file that was opened for writing before."""

_COPIED_PAGES = 256  # in a step
_COPY_PAUSE_SECONDS = 0.002  # after each step, in which others use the disk and the processor
_MEASURE_EVERY_SECONDS = 0.1
_MEASURE_AGAIN_EVERY_SECONDS = 1.0
_MIB = 1024 * 1024
_LOCKED_OCTET = 1 << 62  # SQLite's own locks are on the 512 octets from 1 GiB on
_LOCKED_HERE: set[tuple[int, int]] = set()  # device and inode; POSIX locks belong to the process, and so does this
# By how much the file and the WAL together may exceed the cap while free pages of the file are used again.
_SLACK_BYTES = 32 * 1024 * 1024

log = logging.getLogger(__name__)


def connect(path: Path) -> sqlite3.Connection:
    """Open the database for writing; set every pragma and check its value.

    Transactions are begun explicitly. Raises ``DatabaseError``.
    """
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    try:
        for name, wanted in _PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {wanted}")
            _assert_pragma(connection, name, wanted)
    except sqlite3.Error as error:
        connection.close()
        raise refusal(path, error) from error
    except DatabaseError as error:
        connection.close()
        raise DatabaseError(f"{path}: cannot be used as a database ({error})") from error
    return connection


def _assert_pragma(connection: sqlite3.Connection, name: str, wanted: str | int) -> None:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    if value != wanted:
        raise DatabaseError(f"PRAGMA {name} is {value!r}, wanted {wanted!r}")


def erase_wal(connection: sqlite3.Connection) -> bool:
    """Copy the WAL into the file, overwrite it, and truncate it to nothing; False while another connection reads it.

    A file system only frees the blocks of what is truncated: their content stays on the disk until they are used again.
    Does not wait for readers: during a busy timeout it would hold the write lock.
    """
    if not _checkpoint(connection, "RESTART"):
        return False
    try:
        overwrite_wal(connection)
    except (OSError, sqlite3.Error) as error:  # a full disk whose file system writes to new blocks must get these back
        log.warning("the write-ahead log is truncated without being overwritten: %s", error, extra={"about": "wal"})
    return _checkpoint(connection, "TRUNCATE")


def _checkpoint(connection: sqlite3.Connection, mode: str) -> bool:
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        (busy, _, _) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    return not busy


def overwrite_wal(connection: sqlite3.Connection) -> None:
    """Overwrite a WAL that was restarted with zeros as long as it is, and sync it; readers go on with the file itself.

    SQLite writes them: a transaction that does not fit its page cache is written to the WAL before its commit. It is
    rolled back, so that nothing of it gets into the file; the commit of an unchanged page then syncs the WAL.
    """
    frames = -(-(_wal_bytes(connection) - _WAL_HEADER_BYTES) // (_FRAME_HEADER_BYTES + PAGE_BYTES))
    if frames <= 0:
        return
    (cap_pages,) = connection.execute("PRAGMA max_page_count").fetchone()
    (cache_size,) = connection.execute("PRAGMA cache_size").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    try:
        connection.execute(f"PRAGMA max_page_count = {_MOST_PAGES}")
        connection.execute(f"PRAGMA cache_size = {_CACHED_PAGES}")
        connection.execute("BEGIN IMMEDIATE")
        # What is in the page cache at the end is not written, so there is more of it.
        left = frames + 2 * _CACHED_PAGES
        row_id = 0
        while left > 0:
            row_id -= 1
            pages = min(left, _ZEROED_AT_ONCE)
            connection.execute("INSERT INTO address VALUES (?, x'', zeroblob(?))", (row_id, pages * OVERFLOW_BYTES))
            left -= pages
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA cache_size = {cache_size}")
        connection.execute(f"PRAGMA max_page_count = {cap_pages}")
    connection.execute(f"PRAGMA user_version = {version}")


def _wal_bytes(connection: sqlite3.Connection) -> int:
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    return Path(file + "-wal").stat().st_size


def tail_without_text(descriptor: int, pages: int, most: int) -> int:
    """Return how many pages at the end of the file are free, which are zeros, or of b-trees, which hold no text.

    At most ``most``. The file must be as long as the database, and the WAL be copied into it. Read from the pointer map
    (https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages), whose own pages do not count.
    """
    count, page = 0, pages
    while count < most and page > 1:
        place = (page - 2) % (_MAPPED_PAGES + 1)
        if place > 0 and page != _LOCK_BYTE_PAGE:
            map_page = page - place
            kind = os.pread(descriptor, 1, (map_page - 1) * PAGE_BYTES + 5 * (place - 1))
            if kind not in _KINDS_WITHOUT_TEXT:
                break
            count += 1
        page -= 1
    return count


@contextmanager
def lock(path: Path, *, create: bool = False) -> Iterator[int]:
    """Keep every other daemon, migration and ``restore`` out of the database, whatever links lead to it.

    Locks the file next to the real database, and the database itself, which may have hard links in other folders.
    Yields a descriptor of the database for reading, or -1 if there is none; with ``create`` an empty one is created.
    Raises ``DatabaseError`` at once when another process holds a lock. The kernel releases them when the process ends.

    Connections must be closed before this ends: closing a descriptor of a file drops the locks that SQLite holds on it
    for this process. For the same reason a database that is locked already is not opened a second time.
    """
    with ExitStack() as held:
        for lock_path in _lock_paths(path):
            held.enter_context(_locked_beside(path, lock_path))
        if create:
            create_private(path)
        yield held.enter_context(_locked_itself(path))


def real(path: Path) -> Path:
    """Return the absolute path of the file that links lead to, which need not exist."""
    return Path(os.path.realpath(path))  # Path.resolve() raises where links lead in a circle


def _lock_paths(path: Path) -> Iterator[Path]:
    file = real(path)
    yield file.with_name(file.name + ".lock")
    as_written = path.with_name(path.name + ".lock")
    if path.is_symlink() and as_written.exists():  # daemons up to 1.0.3 lock the file next to the link
        yield as_written


@contextmanager
def _locked_beside(path: Path, lock_path: Path) -> Iterator[None]:
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(path) from None
        except OSError as error:
            raise _cannot_be_locked(path, lock_path.name, error) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _locked_itself(path: Path) -> Iterator[int]:
    try:
        found = path.stat()
        if (found.st_dev, found.st_ino) in _LOCKED_HERE:
            raise _in_use(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield -1
        return
    except OSError as error:
        raise refusal(path, error) from error
    opened = os.fstat(descriptor)
    identity = opened.st_dev, opened.st_ino
    _LOCKED_HERE.add(identity)
    try:
        _lock_range(descriptor, path)
        yield descriptor
    finally:
        _LOCKED_HERE.remove(identity)
        os.close(descriptor)


def _lock_range(descriptor: int, path: Path) -> None:
    """Lock an octet that SQLite does not use, by an open file description lock (Linux): no other close drops it."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_OCTET, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise _in_use(path) from None
        if error.errno != errno.EINVAL:  # such as gVisor, which has no such locks
            raise _cannot_be_locked(path, path.name, error) from error


def _in_use(path: Path) -> DatabaseError:
    return DatabaseError(f"{path}: in use by another tmpmaild")


def _cannot_be_locked(path: Path, name: str, error: OSError) -> DatabaseError:
    return DatabaseError(f"{path}: {name} cannot be locked ({error.strerror}); keep the database on a local disk")


def create_private(path: Path) -> None:
    """Create the file if it is missing, readable by its owner only; SQLite gives -wal and -shm the same mode."""
    with suppress(FileExistsError):
        create_new(real(path))  # O_EXCL does not follow a link


def create_new(path: Path) -> None:
    """Create the file as ``create_private``. Raises ``FileExistsError``, ``DatabaseError``."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise
    except OSError as error:
        raise refusal(path, error) from error


def check(
    path: Path, newest_version: int, difference: Callable[[sqlite3.Connection, int], str], *, pages: bool = True
) -> None:
    """Check that the file is a database of ours, not newer than this version, and undamaged, without changing it.

    ``difference`` says how its schema differs from that of its version, "" if it does not. An empty or missing file is
    fine. The whole file is read only after an unclean stop, and without ``pages`` never. Raises ``DatabaseError``.
    """
    try:
        if not path.exists() or path.stat().st_size == 0:
            return
        with closing(open_to_read(path, immutable=not wal_of(path).exists())) as connection:
            version = check_identity(connection, path, newest_version)
            if what := difference(connection, version):
                raise DatabaseRefused(altered(path, what))
            if pages:
                _check_pages(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise refusal(path, error) from error


def assert_writable(path: Path) -> None:
    """Raise ``DatabaseError`` if this process may not write the database and what is next to it."""
    if found := _found_on_disk(path, os.R_OK | os.W_OK):
        raise DatabaseError(found)


def open_to_read(file: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a file for reading only; ``immutable``, if it is not in use, keeps SQLite from creating a WAL for that.

    Closing it does not checkpoint a left-over WAL into the file.
    """
    uri = f"{file.absolute().as_uri()}?mode=ro&immutable={int(immutable)}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    for statement in READER_PRAGMAS:
        connection.execute(statement)
    return connection


def check_identity(connection: sqlite3.Connection, path: Path, newest_version: int) -> int:
    """Return the schema version of a database of ours. Raises ``DatabaseError`` if it is not ours, or too new."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application_id != APPLICATION_ID:
        raise DatabaseRefused(f"{path}: a database of another program")
    if version > newest_version:
        raise DatabaseRefused(
            f"{path}: schema version {version} is newer than this tmpmaild knows ({newest_version}); upgrade tmpmaild"
        )
    return int(version)


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    has_flag = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'daemon'").fetchone()
    if has_flag and connection.execute("SELECT clean_stop FROM daemon").fetchone() == (1,):
        return
    if path.stat().st_nlink > 1 and not wal_of(path).exists():
        # SQLite names the WAL by the name that the database is opened by: mail may be in that of another name.
        raise DatabaseRefused(
            f"{path}: has {path.stat().st_nlink} names (hard links), was not closed properly, and"
            f" {wal_of(path).name} is missing: start the service by the name whose -wal is there"
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise DatabaseRefused(damaged(path, verdict.splitlines()[-1]))


@contextmanager
def temporary(path: Path) -> Iterator[None]:
    """Create an empty file for the database; delete it in the end, and its folder if nothing else is in that.

    Raises ``DatabaseError`` if it is there already: nothing is deleted that was not made here.
    """
    try:
        create_new(path)
    except FileExistsError:
        raise DatabaseError(f"{path}: is there already, and would be deleted at the end; name another file") from None
    try:
        yield
    finally:
        _delete(path)


def _delete(path: Path) -> None:
    with suppress(DatabaseError, OSError), lock(path):  # in use by another daemon, or gone already
        for end in ("-wal", "-shm", "-journal", ".lock", ""):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.absolute().parent.rmdir()


def wal_of(path: Path) -> Path:
    """Return where SQLite keeps the WAL: next to the target of a symbolic link."""
    file = real(path)
    return file.with_name(file.name + "-wal")


class Files:
    """The database and its WAL as they were opened; used in the writer's thread.

    ``lost`` is true once one of them was removed or replaced; ``wal_bytes`` is the length of the WAL at the last look.
    """

    def __init__(self, path: Path) -> None:
        # Absolute, as SQLite keeps it: a renamed folder is missing for both.
        self.path = path.absolute()
        self.lost = False
        self.wal_bytes = 0
        self.folder = real(path).parent
        self._paths = str(self.path), str(wal_of(path))
        self._opened = self._identities()

    def look(self) -> bool:
        """Look at the paths, two calls of stat(2); return ``lost``, which stays true.

        No descriptor is needed: SQLite keeps both files open, so no other file can have their inode numbers. And
        closing one would drop the locks that SQLite holds for this process on the same file.
        """
        if not self.lost:
            try:
                self.lost = self._identities() != self._opened
                reason = "is not the file that was opened"
            except OSError as error:
                self.lost = True
                reason = f"cannot be found ({error.strerror})"
            if self.lost:
                log.error("%s: the database or its -wal %s; no mail is accepted any more, stopping", self.path, reason)
        return self.lost

    def _identities(self) -> tuple[int, ...]:
        database, wal = map(os.stat, self._paths)
        self.wal_bytes = wal.st_size
        return database.st_dev, database.st_ino, wal.st_dev, wal.st_ino


def disk_reserve_bytes(cap_bytes: int, reserve_bytes: int) -> int:
    """Return what must stay free on the disk; ``reserve_bytes`` is for mail that is being received."""
    return max(256 * _MIB, cap_bytes // 10, reserve_bytes)


def sensible_cap_bytes(path: Path) -> int:
    """Return the default size limit of a database: half of what the disk has for it, at most 10 GiB."""
    held_bytes = path.stat().st_size if path.exists() else 0
    return min(10 * 1024**3, (shutil.disk_usage(real(path).parent).free + held_bytes) // 2)


def cap_pages(connection: sqlite3.Connection, cap_bytes: int) -> None:
    """Set the largest size of the file: this, or its present size if that is more."""
    connection.execute(f"PRAGMA max_page_count = {max(cap_bytes // PAGE_BYTES, 1)}")


class DiskSpace:
    """Whether there is space: measured in the writer's thread, answered from memory."""

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
        self._used_bytes = self._free_bytes = 0
        self.has_room = True
        self.wal_is_too_long = False
        self.measure()

    def change(self, *, cap_bytes: int, reserve_bytes: int) -> None:
        """Set the cap and what must stay free; the next ``measure`` measures in any case."""
        self._cap_bytes = cap_bytes
        self._disk_reserve_bytes = disk_reserve_bytes(cap_bytes, reserve_bytes)
        self._cap_reserve_bytes = min(cap_bytes // 10, reserve_bytes)
        self._measured_at_seconds = -math.inf

    def metrics(self) -> tuple[Metric, ...]:
        """Return what is known of the space, as last measured."""
        return (
            Gauge("storage_used_bytes", "Octets of the database that are in use.", lambda: self._used_bytes),
            Gauge("storage_max_bytes", "The cap of the database, storage.max_bytes.", lambda: self._cap_bytes),
            Gauge("storage_free_disk_bytes", "Free octets of the disk.", lambda: self._free_bytes),
            Gauge("storage_wal_bytes", "Length of the write-ahead log.", lambda: self._files.wal_bytes),
            Gauge("storage_has_room", "1 while new mail and addresses are accepted.", lambda: self.has_room),
        )

    def measure(self, moved_bytes: float = 0.0) -> None:
        """Metric again, unless that was done just now and little was written since: it releases the GIL six times.

        ``max_page_count`` does not limit the WAL, which grows as long as another process reads: what it has more than
        an idle WAL counts as used.
        """
        now = self._monotonic()
        self._moved_bytes += moved_bytes
        grown_bytes = self._files.wal_bytes - self._measured_wal_bytes
        fresh = now - self._measured_at_seconds < _MEASURE_EVERY_SECONDS
        few = max(self._moved_bytes, grown_bytes) < self._cap_reserve_bytes // 8
        # When space is short little is written: the batch that frees some by deleting may be the last one for long.
        if self.has_room and fresh and few:
            return
        self._measured_at_seconds, self._moved_bytes = now, 0.0
        fits = self._fits()
        self._measured_wal_bytes = self._files.wal_bytes
        self._free_bytes = shutil.disk_usage(self._files.folder).free
        self._decide(fits=fits)

    @property
    def wal_is_long(self) -> bool:
        """Whether the WAL is longer than an idle one, as of the last look."""
        return self._files.wal_bytes > MAX_IDLE_WAL_BYTES

    @property
    def path(self) -> Path:
        """The database."""
        return self._files.path

    def missing_bytes(self, wanted_bytes: int) -> int:
        """Return how much the disk lacks for a file of that size in addition to its reserve; at most 0 if it fits.

        Measured now; may be called in any thread.
        """
        return wanted_bytes + self._disk_reserve_bytes - shutil.disk_usage(self._files.folder).free

    def _decide(self, *, fits: bool) -> None:
        had_room, self.has_room = self.has_room, fits and self._free_bytes >= self._disk_reserve_bytes
        if had_room and not self.has_room and not self.wal_is_too_long:  # that has a line of its own
            text = "storage full: %s; new mail and addresses are refused"
            log.warning(text, self._shortage(fits=fits), extra={"event": "storage_full"})
        elif self.has_room and not had_room:
            log.info("storage has room again; mail and addresses are accepted", extra={"event": "storage_has_room"})

    def _shortage(self, *, fits: bool) -> str:
        if not fits:
            return f"storage.max_bytes, {self._cap_bytes // _MIB} MiB, is used up"
        free_mib, reserve_mib = self._free_bytes // _MIB, self._disk_reserve_bytes // _MIB
        return f"the disk has {free_mib} MiB free, and {reserve_mib} MiB must stay free"

    def _fits(self) -> bool:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        # Free pages can be used again, but the file does not become shorter.
        self._used_bytes = (pages - free) * PAGE_BYTES
        left_bytes = self._cap_bytes - max(
            self._used_bytes + self._cap_reserve_bytes, pages * PAGE_BYTES - _SLACK_BYTES
        )
        self.wal_is_too_long = 0 <= left_bytes < self._wal_excess_bytes()
        if self.wal_is_too_long and erase_wal(self._connection):
            self._files.look()
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
    """Measures again while all mail is refused, because then no batch does; at most once a second.

    ``measure`` is called in the event loop; a ``RequestError`` that it raises is ignored until the next time.
    """

    def __init__(
        self, measure: Callable[[], Awaitable[object]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._begun_at_seconds = -math.inf
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Metric in the background, unless that is running or was done within the last second."""
        now = self._monotonic()
        if self._task is None and now - self._begun_at_seconds >= _MEASURE_AGAIN_EVERY_SECONDS:
            self._begun_at_seconds = now
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._measure()
        except RequestError as error:
            log.debug("measuring again failed: %s", error)
        finally:
            self._task = None

    async def close(self) -> None:
        """Wait until a running measurement is done."""
        if self._task is not None:
            await self._task


def remove_unfinished(path: Path) -> None:
    """Remove what a process has left that was killed while it made a copy."""
    with suppress(FileNotFoundError), unfinished(path).open("r+b") as copy:
        unfinished(path).unlink()
        _erase_copy(copy)


def _erase_copy(copy: BinaryIO) -> None:
    """Overwrite a copy and close it, so that no mail stays in the blocks that are freed."""
    with copy, suppress(OSError):  # such as a full disk whose file system writes to new blocks
        left = copy.seek(0, os.SEEK_END)
        copy.seek(0)
        while left > 0:
            left -= copy.write(bytes(min(left, _MIB)))
        copy.flush()
        os.fsync(copy.fileno())


def unfinished(path: Path) -> Path:
    """Return where a copy is made, before it is complete."""
    file = real(path)
    return file.with_name(file.name + ".unfinished-copy")


class BackupMaker:
    """Makes one copy of the database at a time, in short steps, while mail goes on coming in.

    The copy is one moment's: the read transaction that it is made in keeps the WAL from being emptied until it is done.
    """

    def __init__(self, space: DiskSpace) -> None:
        self._path = space.path
        self._space = space
        self._busy = False

    @asynccontextmanager
    async def made(self) -> AsyncIterator[BinaryIO]:
        """Make a copy, and yield it as a file without a name, so that it is gone when it is closed.

        Raises ``StorageFull`` if there is no room for it, ``StorageUnavailable`` while another is being made.
        """
        if self._busy:
            raise StorageUnavailable("another copy is being made")
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
            await asyncio.wait([copying])  # which is not cancelled with us
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
            source.execute("BEGIN")  # else each commit of the writer would make it begin again
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


def refusal(path: Path, error: OSError | sqlite3.Error, *, writing: bool = True) -> DatabaseError:
    """Return the error that stops the start, in one line: the file, what is wrong with it, what to do.

    Opens no file: closing one would drop the locks that SQLite holds for this process on the same file.
    """
    text = _found_on_disk(path, os.R_OK | os.W_OK if writing else os.R_OK) or _reason(path, error)
    lasts = (
        _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
        or _is_without_maps(error)
        or (writing and _is_read_only(path))
    )
    return (DatabaseRefused if lasts else DatabaseError)(text)


def _code(error: OSError | sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_without_maps(error: OSError | sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMMAP


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(real(path).parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def damaged(path: Path, what: str) -> str:
    """Return the error text for a database with damaged content."""
    return f"{path}: damaged ({what}); {_move_away(path)}"


def altered(path: Path, what: str) -> str:
    """Return the error text for a database whose schema is not what the migrations make."""
    made = "the schema has been changed by hand"
    return f"{path}: {made}: {what}; undo the change, or {_move_away(path)}"


def _move_away(path: Path) -> str:
    # The WAL holds accepted mail that is not in the file yet: without it the file is older, not repaired.
    name = real(path).name
    return (
        f"to start with an empty one, move {name}, {name}-wal and {name}-shm away together;"
        " what mail they hold, of an hour at most, is lost"
    )


def _found_on_disk(path: Path, needed: int) -> str | None:
    """Return what is wrong on the file system: SQLite has one error for most of it."""
    real_file = real(path)
    folder = real_file.parent
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir() raises where the folder may not be searched
        return f"{path}: is a folder; storage.path must name a file"
    if not os.path.isdir(folder):  # noqa: PTH112 - likewise
        return f"{path}: the folder {folder} does not exist or may not be entered; it must be {_wanted('0700')}"
    if not os.access(folder, needed | os.X_OK, effective_ids=True):
        return _no_access(path, folder, "0700")
    for file in (real_file.with_name(real_file.name + end) for end in ("", "-wal", "-shm", ".lock")):
        if file.exists() and not os.access(file, needed, effective_ids=True):
            return _no_access(path, file, "0600")
    return None


def _no_access(path: Path, file: Path, mode: str) -> str:
    if os.statvfs(file).f_flag & os.ST_RDONLY:
        return f"{path}: the file system is mounted read-only; mount it for writing, or change storage.path"
    return f"{path}: no permission on {file}: it is {_found(file)}; it must be {_wanted(mode)}"


def _found(file: Path) -> str:
    found = file.stat()
    owner, group = _name(_user, found.st_uid), _name(_group, found.st_gid)
    return f"owned by {owner}:{group}, mode {stat.S_IMODE(found.st_mode):04o}"


def _wanted(mode: str) -> str:
    return f"owned by {_name(_user, os.geteuid())}, mode {mode}"


def _name(look_up: Callable[[int], str], number: int) -> str:
    try:
        return look_up(number)
    except KeyError:
        return str(number)


def _user(number: int) -> str:
    return pwd.getpwuid(number).pw_name


def _group(number: int) -> str:
    return grp.getgrgid(number).gr_name


def _reason(path: Path, error: OSError | sqlite3.Error) -> str:
    folder = real(path).parent
    code = _code(error)
    number = getattr(error, "errno", None)
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT) or not os.statvfs(folder).f_bavail:
        return f"{path}: the disk is full; make room in {folder}, the database itself is not damaged"
    if _is_without_maps(error):
        return (
            f"{path}: the file system of {folder} does not support shared memory maps (mmap), which SQLite's WAL needs;"
            " keep the database on a local file system such as ext4 or XFS (with mergerfs: on one of its branches)"
        )
    if code == sqlite3.SQLITE_IOERR or number == errno.EIO:
        return (
            f"{path}: the disk failed ({error}); read the kernel's log and check the disk first, the database may be"
            " undamaged"
        )
    if number is not None:
        return f"{path}: cannot be opened ({os.strerror(number)})"
    return _sqlite_reason(path, code, str(error))


def _sqlite_reason(path: Path, code: int, what: str) -> str:
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path}: not a SQLite database, or damaged at its start; correct storage.path; {_move_away(path)}"
    if code == sqlite3.SQLITE_CORRUPT:
        return damaged(path, what)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path}: locked by another process; end that first"
    return f"{path}: cannot be used as a database ({what})"
