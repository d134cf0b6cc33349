"""What a command says, and the exit code it leaves with, when it cannot do what it was asked; never a traceback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from tmpmaild.client import (
    AddressExpired,
    AddressNotFound,
    NotFound,
    TmpmaildError,
    WaitTimeout,
)
from tmpmaild.commands import console

DONE = 0
TIMEOUT = 1
NO_ADDRESS = 3
NO_SERVICE = 4


def code_of(work: Callable[[], int]) -> int:
    """Return the exit code of work, after a line on standard error if it failed."""
    try:
        return work()
    except TmpmaildError as error:
        hint = "; is the service older than this command?" if isinstance(error, NotFound) else ""
        console.complain(f"{error}{hint}")
        return _code(error)
    except BrokenPipeError:
        console.forget_output()
        return DONE


def _code(error: TmpmaildError) -> int:
    match error:
        case WaitTimeout():
            return TIMEOUT
        case AddressNotFound() | AddressExpired():
            return NO_ADDRESS
        case _:
            return NO_SERVICE


@contextmanager
def arguments() -> Iterator[None]:
    """Around what is handed the arguments of the command line: its ValueError is wrong usage."""
    try:
        yield
    except UnicodeError as error:
        raise click.UsageError("an argument is no text") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
