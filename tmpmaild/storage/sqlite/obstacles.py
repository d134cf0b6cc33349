"""Why a database cannot be opened, and what to do: error texts for the operator. Nothing is changed to find out."""

import errno
import grp
import os
import pwd
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from tmpmaild.errors import DatabaseError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ = os.R_OK
_READ_AND_WRITE = os.R_OK | os.W_OK


def refusal(path: Path, error: OSError | sqlite3.Error, *, writing: bool = True) -> DatabaseError:
    """Return the error that stops the start, in one line: the file, what is wrong with it, what to do.

    Opens no file: closing one would drop the locks that SQLite holds for this process on the same file.
    """
    return DatabaseError(_found_on_disk(path, _READ_AND_WRITE if writing else _READ) or _told(path, error))


def damaged(path: Path, what: str) -> str:
    """Return the error text for a database with damaged content."""
    return f"{path}: damaged ({what}); {_move_away(path)}"


def altered(path: Path, what: str) -> str:
    """Return the error text for a database whose schema is not what the migrations make."""
    made = "the schema has been changed by hand"
    return f"{path}: {made}: {what}; undo the change, or {_move_away(path)}"


def _move_away(path: Path) -> str:
    # The WAL holds accepted mail that is not in the file yet: without it the file is older, not repaired.
    return (
        f"to start with an empty one, move {path.name}, {path.name}-wal and {path.name}-shm away together;"
        " what mail they hold, of an hour at most, is lost"
    )


def _found_on_disk(path: Path, needed: int) -> str | None:
    """Return what is wrong on the file system: SQLite has one error for most of it."""
    folder = path.absolute().parent
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir() raises where the folder may not be searched
        return f"{path}: is a folder; storage.path must name a file"
    if not os.path.isdir(folder):  # noqa: PTH112 - likewise
        return f"{path}: the folder {folder} does not exist or may not be entered; it must be {_wanted('0700')}"
    if not os.access(folder, needed | os.X_OK, effective_ids=True):
        return _no_access(path, folder, "0700")
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", ".lock"))):
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


def _told(path: Path, error: OSError | sqlite3.Error) -> str:
    folder = path.absolute().parent
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if code == sqlite3.SQLITE_FULL or number in _FULL or not os.statvfs(folder).f_bavail:
        return f"{path}: the disk is full; make room in {folder}, the database itself is not damaged"
    if code == sqlite3.SQLITE_IOERR or number == errno.EIO:
        return (
            f"{path}: the disk failed ({error}); read the kernel's log and check the disk first, the database may be"
            " undamaged"
        )
    if number is not None:
        return f"{path}: cannot be opened ({os.strerror(number)})"
    return _told_by_sqlite(path, code, str(error))


def _told_by_sqlite(path: Path, code: int, what: str) -> str:
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path}: not a SQLite database, or damaged at its start; correct storage.path; {_move_away(path)}"
    if code == sqlite3.SQLITE_CORRUPT:
        return damaged(path, what)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path}: locked by another process; end that first"
    return f"{path}: cannot be used as a database ({what})"
