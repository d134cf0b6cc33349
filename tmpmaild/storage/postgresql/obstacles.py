"""What is wrong with a database or its server, as the errors of ``tmpmaild.errors``; nothing of the mail is in them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import StorageFull, StorageUnavailable

T = TypeVar("T")

FAILURES: Final = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(OSError, TimeoutError),
)
"""What a connection raises when the server, its disk or the network is at fault."""

_REPEATABLE: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_PAUSES_SECONDS: Final = (0.01, 0.02, 0.04, 0.08)
_OF_ONE_ROW: Final = (
    *(asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError),
    *(asyncpg.InternalServerError, ValueError, TypeError, OverflowError),
)

_OF_OTHERS: Final = (
    *(asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError),
    *(asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError),
)
"""What a statement of ours meets where somebody has changed the schema under a running daemon, or restores a dump."""

log = logging.getLogger(__name__)


def reason(error: BaseException) -> str:
    """Return the reason of a failure in a few words: never the details of the server, which may quote a row."""
    match error:
        case TimeoutError():
            text = "no answer"
        case asyncpg.ProtocolViolationError():
            text = f"{error.args[0]}; connect to the server itself, without a pooler"
        case asyncpg.InternalClientError():  # the driver has read that it will end, but it is still open
            text = "the server has ended the connection"
        case asyncpg.PostgresError():
            text = str(error.args[0]) if error.args else type(error).__name__
        case OSError():
            text = error.strerror or str(error)
        case ValueError():  # the driver quotes it
            text = "a value that the database does not take"
        case _:
            text = str(error)
    return text


def advice(error: BaseException) -> str:
    """Return the reason, and what to do if that is clear."""
    if isinstance(error, asyncpg.UndefinedTableError):
        return "it has no tables of tmpmaild yet; tmpmaild migrate creates them"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return f"the role has not enough rights ({reason(error)}); use the one that owns database and tables"
    return reason(error)


def translate(error: Exception) -> Exception:
    """Turn an operational error into one of ``tmpmaild.errors``; a programming error is returned as it is."""
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull("the disk of the database is full")
    is_ours = isinstance(error, asyncpg.DataError | asyncpg.SyntaxOrAccessError) and not isinstance(error, _OF_OTHERS)
    if is_ours or not isinstance(error, FAILURES):
        return error
    log.error("the database did not answer as it should: %s", reason(error))
    return StorageUnavailable(reason(error))


async def repeated(run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``run``; call it again when the server has undone it in favour of another session."""
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return await run()
        except _REPEATABLE as error:
            log.debug("a statement is repeated: %s", reason(error))
            await asyncio.sleep(pause_seconds)  # or it may be first again to lock what the other one waits for
    return await run()


def is_of_one_row(error: Exception) -> bool:
    """Return whether a statement failed, and changed nothing, because of what one of its operations holds."""
    return isinstance(error, _OF_ONE_ROW)
