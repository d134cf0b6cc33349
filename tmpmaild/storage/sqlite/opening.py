"""Opens the database file with our pragmas, makes it readable only by its owner, and locks it against other daemons."""

import errno
import fcntl
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite.errors import refusal
from tmpmaild.storage.sqlite.layout import PAGE_BYTES
from tmpmaild.storage.sqlite.paths import real

APPLICATION_ID = 0x746D7064  # "tmpd"
BUSY_TIMEOUT_MS = 5000
_PRAGMAS: dict[str, str | int] = {
    "page_size": PAGE_BYTES,
    "auto_vacuum": 2,  # incremental; like the page size, it can only be set before the first table is created
    "journal_mode": "wal",
    "synchronous": 2,  # FULL: a COMMIT returns only after an fsync
    "foreign_keys": 1,
    "busy_timeout": BUSY_TIMEOUT_MS,
    "secure_delete": 1,
    "temp_store": 2,  # in memory, so that temporary files contain no mail
    "trusted_schema": 0,
    "cell_size_check": 1,
    "journal_size_limit": -1,  # no limit, because the WAL must be overwritten before it is truncated
}
READER_PRAGMAS = (
    *(
        f"PRAGMA {name} = {_PRAGMAS[name]}"
        for name in ("busy_timeout", "temp_store", "trusted_schema", "cell_size_check")
    ),
    "PRAGMA query_only = 1",
)
"""Pragmas for a read-only connection to a file that was previously opened for writing."""
_LOCKED_OCTET = 1 << 62  # SQLite's own locks are on the 512 bytes starting at 1 GiB
_LOCKED_HERE: set[tuple[int, int]] = set()  # device and inode numbers; tracked per process, like POSIX locks


def connect(path: Path) -> sqlite3.Connection:
    """Open the database for writing, set each pragma, and check its value.

    Transactions must be started explicitly. Raises ``DatabaseError``.
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
        raise DatabaseError(f"PRAGMA {name} is {value!r}, expected {wanted!r}")


def open_to_read(file: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a file for reading only.

    ``immutable`` is for a file that is not in use: it keeps SQLite from creating a WAL in order to read the file.
    Closing the connection does not checkpoint a leftover WAL into the file.
    """
    uri = f"{file.absolute().as_uri()}?mode=ro&immutable={int(immutable)}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    for statement in READER_PRAGMAS:
        connection.execute(statement)
    return connection


@contextmanager
def lock(path: Path, *, create: bool = False) -> Iterator[int]:
    """Lock the database against all other daemons, migrations and ``restore``, regardless of links that point to it.

    Locks a file next to the real database and also the database itself, which may have hard links in other folders.
    Yields a descriptor for reading the database, or -1 if there is no database; ``create`` creates an empty database
    file. Raises ``DatabaseError`` immediately if another process holds a lock. The kernel releases the locks when the
    process ends.

    Connections must be closed before the context ends: closing a descriptor of a file drops the locks that SQLite holds
    on it for this process. For the same reason, a database that is already locked is not opened a second time.
    """
    with ExitStack() as stack:
        for lock_path in _lock_paths(path):
            stack.enter_context(_locked_beside(path, lock_path))
        if create:
            create_private(path)
        yield stack.enter_context(_locked_itself(path))


def _lock_paths(path: Path) -> Iterator[Path]:
    file = real(path)
    yield file.with_name(file.name + ".lock")
    as_written = path.with_name(path.name + ".lock")
    if path.is_symlink() and as_written.exists():  # versions up to 1.0.3 lock this file instead
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
    """Lock a byte that SQLite does not use.

    This is an open file description lock (Linux), which is not dropped when other descriptors are closed.
    """
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_OCTET, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise _in_use(path) from None
        if error.errno != errno.EINVAL:  # EINVAL: this kind of lock is not supported, for example by gVisor
            raise _cannot_be_locked(path, path.name, error) from error


def _in_use(path: Path) -> DatabaseError:
    return DatabaseError(f"{path}: in use by another tmpmaild; stop it first, for example with systemctl stop tmpmaild")


def _cannot_be_locked(path: Path, name: str, error: OSError) -> DatabaseError:
    return DatabaseError(f"{path}: {name} cannot be locked ({error.strerror}); keep the database on a local disk")


def create_private(path: Path) -> None:
    """Create the file if it is missing, readable only by its owner; SQLite gives -wal and -shm the same mode."""
    with suppress(FileExistsError):
        create_new(real(path))  # O_EXCL does not follow a link


def create_new(path: Path) -> None:
    """Create the file, readable only by its owner. Raises ``FileExistsError`` or ``DatabaseError``."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise
    except OSError as error:
        raise refusal(path, error) from error


@contextmanager
def temporary(path: Path) -> Iterator[None]:
    """Create an empty file for the database. On exit, delete the file, and also its folder if the folder is empty.

    Raises ``DatabaseError`` if the file already exists, so that only a file created here is deleted.
    """
    try:
        create_new(path)
    except FileExistsError:
        raise DatabaseError(f"{path}: already exists, and would be deleted on exit; choose a different file") from None
    try:
        yield
    finally:
        _delete(path)


def _delete(path: Path) -> None:
    with suppress(DatabaseError, OSError), lock(path):  # in use by another daemon, or already deleted
        for end in ("-wal", "-shm", "-journal", ".lock", ""):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.absolute().parent.rmdir()
