"""Erases the write-ahead log, in which old copies of pages are."""

import logging
import sqlite3
from pathlib import Path

from tmpmaild.storage.sqlite.layout import OVERFLOW_BYTES, PAGE_BYTES
from tmpmaild.storage.sqlite.opening import BUSY_TIMEOUT_MS

MAX_IDLE_WAL_BYTES = 4 * 1024 * 1024
"""The length from which on the WAL is truncated even if nothing was deleted; longer only while it is being read."""
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_CACHED_PAGES = 16  # while zeros are written
_ZEROED_AT_ONCE = 100_000  # a value has at most a gigabyte
_MOST_PAGES = (1 << 32) - 2

log = logging.getLogger(__name__)


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
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
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
