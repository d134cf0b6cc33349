"""What a command says, and the exit code it leaves with, when it cannot do what it was asked; never a traceback."""

import signal
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
NO_OUTPUT = 4
HUNG_UP = 128 + signal.SIGHUP


def code_of(work: Callable[[], int]) -> int:
    """Return the exit code of work, after a line on standard error if it failed."""
    try:
        console.expect_output()
        return work()
    except TmpmaildError as error:
        hint = "; is the service older than this command?" if isinstance(error, NotFound) else ""
        console.complain(f"{error}{hint}")
        return _code(error)
    except BrokenPipeError:
        console.forget_output()
        return DONE
    except OSError as error:
        return _without_output(error)


def _without_output(error: OSError) -> int:
    # SIGHUP may still be on its way when a write to the closed terminal fails.
    code = HUNG_UP if console.is_hang_up(error) else NO_OUTPUT
    if code == NO_OUTPUT:
        console.complain(f"cannot write: {error.strerror or error}")
    console.forget_output()
    return code


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
