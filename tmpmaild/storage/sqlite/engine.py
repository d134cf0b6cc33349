"""Opens the SQLite engine: creates, checks, migrates and closes a database, and assembles the storage.

Pragmas are in ``opening.py``, the migrations in ``migrations/``, and the ``Storage`` methods in ``storage.py``.
"""

import asyncio
import errno
import json
import logging
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from msgspec.structs import replace

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.base import Limits, Summary
from tmpmaild.storage.clocks import MachineClock
from tmpmaild.storage.engines import OperatorMail, SqliteSettings, differences, log_steps, operator_lookup, steps_in
from tmpmaild.storage.sqlite import checking, errors, opening, reading
from tmpmaild.storage.sqlite.checking import check_identity
from tmpmaild.storage.sqlite.copies import remove_unfinished
from tmpmaild.storage.sqlite.opening import APPLICATION_ID, open_to_read
from tmpmaild.storage.sqlite.paths import real, wal_of
from tmpmaild.storage.sqlite.space import DiskSpace, Files, cap_pages, sensible_cap_bytes
from tmpmaild.storage.sqlite.storage import SqliteStorage
from tmpmaild.storage.sqlite.sweeping import Eraser, Sweep, sweep_step_size
from tmpmaild.storage.sqlite.wal import erase_wal
from tmpmaild.storage.sqlite.writer import Batch, Clock, State, Writer

_OURS: Final = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
# A view's columns are compared by its SQL, because SQLite cannot list them if the table lacks one of the columns.
_SHAPE: Final = """
SELECT 'column ' || s.name || '.' || c.name || ': ' || c.type || c."notnull" || c.pk || coalesce(c.dflt_value, '')
    FROM sqlite_schema AS s JOIN pragma_table_xinfo(s.name) AS c
    WHERE s.type = 'table' AND s.name IN (SELECT value FROM json_each(:ours))
UNION ALL
SELECT s.type || ' ' || s.name || ': ' || s.sql
    FROM sqlite_schema AS s WHERE s.tbl_name IN (SELECT value FROM json_each(:ours)) AND s.sql IS NOT NULL
ORDER BY 1
"""
_OPERATOR_NAME: Final = bytes(16)
_COMMENT: Final = re.compile(r"--[^\n]*")
T = TypeVar("T")
log = logging.getLogger(__name__)


def migrations() -> dict[int, Path]:
    """Return the migrations by number, starting with 1."""
    return steps_in("migrations")


def migrate(connection: sqlite3.Connection, steps: dict[int, Path] | None = None) -> list[str]:
    """Apply the missing migrations, each in a transaction, and return their names.

    Raises ``DatabaseError`` if a migration fails; a failed migration changes nothing.
    """
    applied = []
    for number, file in (migrations() if steps is None else steps).items():
        if _apply(connection, number, file):
            applied.append(file.stem)
    return applied


def _apply(connection: sqlite3.Connection, number: int, file: Path) -> bool:
    script = file.read_text(encoding="utf-8")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have applied the migration in the meantime.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version >= number:
            connection.execute("ROLLBACK")
            return False
        for statement in _statements(script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except (sqlite3.Error, sqlite3.Warning) as error:
        if connection.in_transaction:  # on a full disk, SQLite has already rolled back the transaction
            connection.execute("ROLLBACK")
        raise DatabaseError(f"migration {file.name} failed: {error}") from error
    return True


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the transaction of the migration.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def difference(connection: sqlite3.Connection, version: int) -> str:
    """Return the first difference from a version's schema, or "" if there is no difference."""
    ours, expected = _made_by_migrations(version)
    # Differences are sorted by kind: a missing column is more specific than a different table.
    return min(differences(expected, _lines(connection, ours)), default="")


@cache
def _made_by_migrations(version: int) -> tuple[str, list[str]]:
    """Return the names of our tables and views, as JSON, and the lines of the schema."""
    steps = {number: file for number, file in migrations().items() if number <= version}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate(model, steps)
        ours = json.dumps([name for (name,) in model.execute(_OURS)])
        return ours, _lines(model, ours)


def _lines(connection: sqlite3.Connection, ours: str) -> list[str]:
    return [" ".join(_COMMENT.sub("", line).split()) for (line,) in connection.execute(_SHAPE, {"ours": ours})]


def operator_mail(settings: SqliteSettings) -> OperatorMail:
    """Return the operator's inbox; each method opens the database for reading. A daemon may be using the database."""
    path, lookup = settings.path, operator_lookup(_OPERATOR_NAME)
    return OperatorMail(
        lambda page: read_database(path, lambda connection: reading.select_messages(connection, lookup, page)),
        lambda message_id, bounds: read_database(
            path,
            lambda connection: reading.select_message(connection, lookup, bounds, message_id=message_id, is_next=False),
        ),
        lambda: read_database(path, reading.operator_box),
    )


def summary(settings: SqliteSettings) -> Summary:
    """Return a summary of the stored data. Raises ``DatabaseError``."""
    return read_database(settings.path, partial(_summary, path=settings.path))


def secret(settings: SqliteSettings) -> bytes:
    """Return the database's secret, which is used as the key for hashes. Raises ``DatabaseError``."""
    return read_database(settings.path, _secret)


def _secret(connection: sqlite3.Connection) -> bytes:
    (hash_key,) = connection.execute("SELECT hash_key FROM daemon").fetchone()
    return bytes(hash_key)


def _summary(connection: sqlite3.Connection, path: Path) -> Summary:
    (clean_stop,) = connection.execute("SELECT clean_stop FROM daemon").fetchone()
    # The operator's inbox is not counted.
    sql = "SELECT count(*) - 1, coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"
    inboxes, messages = connection.execute(sql).fetchone()
    files = [file for file in (real(path), wal_of(path)) if file.exists()]
    return Summary(bool(clean_stop), inboxes, messages, sum(file.stat().st_size for file in files))


def read_database(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """Call ``read`` inside one read transaction and return its result. A daemon may be using the database.

    Neither the file nor its schema is changed, and a daemon never waits for a lock held by this function. Raises
    ``DatabaseError``.
    """
    _assert_readable(path)
    file, wal = real(path), wal_of(path)
    while True:
        # Without a WAL no process is writing, and "immutable" keeps SQLite from creating a WAL in order to read.
        immutable = not wal.exists()
        outcome: T | sqlite3.Error
        try:
            outcome = _read(file, path, read, immutable=immutable)
        except sqlite3.Error as error:
            outcome = error
        if immutable and wal.exists():
            continue  # a daemon has started in the meantime, and may have changed pages while they were read
        if isinstance(outcome, sqlite3.Error):
            raise errors.refusal(path, outcome, writing=False) from outcome
        return outcome


def _assert_readable(path: Path) -> None:
    """Raise an error that states the reason; SQLite would only report "unable to open database file".

    Does not open the file, because closing it would drop the locks that SQLite holds for this process.
    """
    try:
        path.stat()
        if not os.access(path, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise errors.refusal(path, error, writing=False) from error


def _read(file: Path, path: Path, read: Callable[[sqlite3.Connection], T], *, immutable: bool) -> T:
    with closing(open_to_read(file, immutable=immutable)) as connection:
        connection.execute("BEGIN")
        _check_version(connection, path)
        return read(connection)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    newest = max(migrations())
    version = check_identity(connection, path, newest)
    if version < newest:
        raise DatabaseError(
            f"{path}: schema version {version} is older than this tmpmaild's ({newest}); run tmpmaild migrate"
        )


@asynccontextmanager
async def open_storage(settings: SqliteSettings, clock: Clock | None = None) -> AsyncIterator[SqliteStorage]:
    """Lock, check, migrate and open the database; leaving the context closes it cleanly. Raises ``DatabaseError``.

    ``clock`` defaults to this machine's clock.
    """
    path, clock = settings.path, clock or MachineClock()
    with opening.lock(path, create=True) as descriptor:
        remove_unfinished(path)
        cap_bytes = settings.max_bytes or await asyncio.to_thread(sensible_cap_bytes, path)
        connection, applied = await asyncio.to_thread(prepare, path, clock(), cap_bytes)
        log_steps(path, applied)
        storage: SqliteStorage | None = None
        try:
            storage = await _assemble(settings, connection, descriptor, replace(settings, max_bytes=cap_bytes), clock)
            yield storage
        finally:
            with anyio.CancelScope(shield=True):
                if storage is not None:
                    await storage.close()
                await asyncio.to_thread(close, connection, clean=storage is not None and not storage.found_damage)


def assert_usable(path: Path) -> None:
    """Raise ``DatabaseError`` if a daemon would refuse the database at startup; its pages are not read."""
    checking.check(path, max(migrations()), difference, pages=False)
    checking.assert_writable(path)


def upgrade(settings: SqliteSettings) -> list[str]:
    """Migrate a database that is not in use to the newest schema; return the names of the migrations applied.

    Raises ``DatabaseError``.
    """
    with opening.lock(settings.path, create=True):
        connection, applied = prepare(settings.path, MachineClock()())
        close(connection, clean=True)
    return applied


async def _assemble(
    settings: SqliteSettings, connection: sqlite3.Connection, descriptor: int, limits: Limits, clock: Clock
) -> SqliteStorage:
    async with AsyncExitStack() as opened:
        readers = []
        try:
            for _ in range(2):
                readers.append(await reading.connect(settings.path))
                opened.push_async_callback(readers[-1].close)
            files = Files(settings.path)
            space = DiskSpace(files, connection, cap_bytes=limits.max_bytes, reserve_bytes=limits.reserve_bytes)
            hash_key = _secret(connection)
            # This is the last call that may fail, because the writer's thread then owns the connection.
            writer = Writer(connection, clock=clock, limits=limits, after_batch=space.measure, is_lost=files.check)
        except (OSError, sqlite3.Error) as error:
            raise errors.refusal(settings.path, error) from error
        opened.pop_all()
    reader, maintenance = reading.Reader(readers[0], files), readers[1]
    eraser = Eraser(writer, maintenance, space, descriptor)
    return SqliteStorage(
        writer, reader, maintenance, eraser, space, hash_key=hash_key, clock=clock, limits=limits, wanted=settings
    )


def prepare(path: Path, now_ms: int, max_bytes: int = 0) -> tuple[sqlite3.Connection, list[str]]:
    """Create, check and migrate a database that the caller has locked.

    Returns the connection and the names of the migrations applied. Expired data is deleted before the migration. The
    file size is unlimited if ``max_bytes`` is 0. Raises ``DatabaseError``.
    """
    steps = migrations()
    checking.check(path, max(steps), difference)
    connection = opening.connect(path)
    try:
        applied = bring_up_to_date(connection, steps, now_ms)
        if max_bytes:  # set only now, because a migration may need more pages than the cap allows
            cap_pages(connection, max_bytes)
        connection.execute("UPDATE daemon SET clean_stop = 0")
        erase_wal(connection)  # so that the file itself contains the flag, even if the WAL is lost
    except (OSError, sqlite3.Error) as error:
        connection.close()
        raise errors.refusal(path, error) from error
    except DatabaseError as error:
        connection.close()
        raise DatabaseError(f"{path}: {error}") from error
    return connection, applied


def bring_up_to_date(connection: sqlite3.Connection, steps: dict[int, Path], now_ms: int) -> list[str]:
    """Delete expired data, then apply the missing migrations and return their names.

    Nothing is swept from a database that is new or up to date. Raises ``DatabaseError`` or ``sqlite3.Error``.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if 0 < version < max(steps):
        connection.execute("UPDATE daemon SET clean_stop = 0")
        _sweep(connection, now_ms)
    return migrate(connection, steps)


def _sweep(connection: sqlite3.Connection, now_ms: int) -> None:
    """Sweep in small transactions, as the daemon does.

    This runs before the migrations, so the sweep's statements must work with every schema version.
    """
    step_size, more = sweep_step_size(), True
    while more:
        state = State(connection)
        with state.changing():
            more = Sweep(now_ms, step_size).apply(Batch(state, now_ms))


def close(connection: sqlite3.Connection, *, clean: bool) -> None:
    """Close the connection that ``prepare`` opened; after a ``clean`` stop, the next start skips the full check."""
    try:
        if clean:
            connection.execute("UPDATE daemon SET clean_stop = 1")
            erase_wal(connection)  # closing would delete the WAL without overwriting it
    except sqlite3.Error as error:
        log.error(  # noqa: TRY400 - caused by the disk, not by the code
            "the database could not be marked as cleanly closed (%s); the next start will check it", error
        )
    finally:
        connection.close()
