"""Erases the write-ahead log, which contains old copies of pages."""

import logging
import sqlite3
from pathlib import Path

from tmpmaild.storage.sqlite.layout import OVERFLOW_BYTES, PAGE_BYTES
from tmpmaild.storage.sqlite.opening import BUSY_TIMEOUT_MS

MAX_IDLE_WAL_BYTES = 4 * 1024 * 1024
"""A WAL above this size is truncated even if nothing was deleted, unless another connection is reading it."""
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_CACHED_PAGES = 16  # the size of the page cache while zeros are written
_ZEROED_AT_ONCE = 100_000  # SQLite limits a value to one gigabyte
_MAX_PAGES = (1 << 32) - 2

log = logging.getLogger(__name__)


def erase_wal(connection: sqlite3.Connection) -> bool:
    """Copy the WAL into the file, overwrite it, and truncate it; return False while another connection reads it.

    Truncating only frees the blocks of a file: their content remains on the disk until they are reused.
    This function does not wait for readers, because it would hold the write lock until the busy timeout.
    """
    if not _checkpoint(connection, "RESTART"):
        return False
    try:
        overwrite_wal(connection)
    except (OSError, sqlite3.Error) as error:  # a full copy-on-write disk; truncating still frees blocks
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
    """Overwrite a restarted WAL with zeros over its whole length, and sync it. Meanwhile, readers use only the file.

    SQLite itself writes the zeros, because it writes a transaction that exceeds its page cache to the WAL before the
    commit. The transaction is rolled back, so the file does not change. Committing an unchanged page then syncs the
    WAL.
    """
    frames = -(-(_wal_bytes(connection) - _WAL_HEADER_BYTES) // (_FRAME_HEADER_BYTES + PAGE_BYTES))
    if frames <= 0:
        return
    (cap_pages,) = connection.execute("PRAGMA max_page_count").fetchone()
    (cache_size,) = connection.execute("PRAGMA cache_size").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    try:
        connection.execute(f"PRAGMA max_page_count = {_MAX_PAGES}")
        connection.execute(f"PRAGMA cache_size = {_CACHED_PAGES}")
        connection.execute("BEGIN IMMEDIATE")
        # Pages that remain in the page cache at the end are not written, so write some additional pages.
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
