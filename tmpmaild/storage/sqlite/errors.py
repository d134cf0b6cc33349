"""Converts SQLite's errors to exceptions for callers of a running storage, or to one-line errors at startup."""

import errno
import grp
import logging
import os
import pwd
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from tmpmaild.errors import DatabaseError, DatabaseRefused, StorageFull, StorageUnavailable
from tmpmaild.storage.sqlite.paths import free_disk_bytes, real

log = logging.getLogger(__name__)


def translate(error: Exception) -> Exception:
    """Convert an operational SQLite error to one from ``tmpmaild.errors``; return a programming error unchanged."""
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
        return error
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return StorageFull("the database or the disk is full")
    if isinstance(error, sqlite3.DatabaseError):
        log.error("unexpected error from the database: %s", error)
        return StorageUnavailable(str(error))
    return error


def refusal(path: Path, error: OSError | sqlite3.Error, *, writing: bool = True) -> DatabaseError:
    """Return a one-line startup error: the file, the problem, and what to do.

    Does not open the file, because closing it would drop the locks that SQLite holds on it for this process.
    """
    text = found_on_disk(path, os.R_OK | os.W_OK if writing else os.R_OK) or _reason(path, error)
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
    """Return the error text for a database whose schema differs from the schema that the migrations create."""
    made = "the schema has been changed by hand"
    return f"{path}: {made}: {what}; undo the change, or {_move_away(path)}"


def _move_away(path: Path) -> str:
    # The WAL contains accepted mail that is not in the file yet: removing it loses that mail and repairs nothing.
    name = real(path).name
    return (
        f"to start with an empty database, move {name}, {name}-wal and {name}-shm away together;"
        " the messages in them are lost"
    )


def found_on_disk(path: Path, needed: int) -> str | None:
    """Return a description of a file system problem, or None; SQLite reports most problems with the same error."""
    real_file = real(path)
    folder = real_file.parent
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir() raises without search permission
        return f"{path}: is a folder; storage.path must be a file"
    if not os.path.isdir(folder):  # noqa: PTH112 - likewise
        missing = f"the folder {folder} does not exist or cannot be accessed; correct storage.path, create the folder"
        return f"{path}: {missing}, or change its owner: it must be {_wanted('0700')}"
    if not os.access(folder, needed | os.X_OK, effective_ids=True):
        return _no_access(path, folder, "0700")
    for file in (real_file.with_name(real_file.name + end) for end in ("", "-wal", "-shm", ".lock")):
        if file.exists() and not os.access(file, needed, effective_ids=True):
            return _no_access(path, file, "0600")
    return None


def _no_access(path: Path, file: Path, mode: str) -> str:
    if os.statvfs(file).f_flag & os.ST_RDONLY:
        return f"{path}: the file system is mounted read-only; mount it for writing, or change storage.path"
    return f"{path}: no permission on {file}: it is {_found(file)}; it must be {_wanted(mode)}{_as_folder(file)}"


def _as_folder(file: Path) -> str:
    """Return the command that corrects a file's owner, or "" if the folder does not show who it should be.

    A dynamic user's id may be different on the disk, because systemd maps it, so a number would be misleading.
    """
    folder = file.parent
    if file.is_dir() or folder.stat().st_uid != os.geteuid() or file.stat().st_uid == os.geteuid():
        return ""
    return f", like its folder: chown --reference {folder} {file}"


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
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT) or free_disk_bytes(folder) == 0:
        return f"{path}: the disk is full; free some space in {folder}; the database itself is not damaged"
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
        return f"{path}: cannot be opened ({os.strerror(number)}); check storage.path"
    return _sqlite_reason(path, code, str(error))


def _sqlite_reason(path: Path, code: int, what: str) -> str:
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path}: not a SQLite database, or damaged at its start; correct storage.path; {_move_away(path)}"
    if code == sqlite3.SQLITE_CORRUPT:
        return damaged(path, what)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path}: locked by a different process; stop that process first"
    return f"{path}: cannot be used as a database ({what})"
