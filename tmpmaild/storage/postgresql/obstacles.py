"""What is wrong with a database or its server, as the errors of ``tmpmaild.errors``; nothing of the mail is in them."""

import logging
from typing import Final

import asyncpg

from tmpmaild.errors import StorageFull, StorageUnavailable

FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What a connection raises when the server, its disk or the network is at fault."""

_REPEATABLE: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

log = logging.getLogger(__name__)


def reason(error: BaseException) -> str:
    """Return the reason of a failure in a few words: never the details of the server, which may quote a row."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, asyncpg.PostgresError):
        return str(error.args[0]) if error.args else type(error).__name__
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def translate(error: Exception) -> Exception:
    """Turn an operational error into one of ``tmpmaild.errors``; a programming error is returned as it is."""
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull("the disk of the database is full")
    if isinstance(error, asyncpg.DataError | asyncpg.SyntaxOrAccessError) or not isinstance(error, FAILURES):
        return error
    log.error("the database did not answer as it should: %s", reason(error))
    return StorageUnavailable(reason(error))


def is_repeatable(error: Exception) -> bool:
    """Return whether nothing has been changed and the same statement may succeed at once."""
    return isinstance(error, _REPEATABLE)


def is_of_one_row(error: Exception) -> bool:
    """Return whether a statement failed, and changed nothing, because of what one of its operations holds."""
    return isinstance(error, asyncpg.PostgresError | ValueError | TypeError | OverflowError) and not isinstance(
        error,
        asyncpg.PostgresConnectionError
        | asyncpg.InsufficientResourcesError
        | asyncpg.OperatorInterventionError
        | asyncpg.PostgresSystemError,
    )
