"""Converts the errors of commands to messages and exit codes, so that no traceback is printed."""

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from tmpmaild import client, hostnames
from tmpmaild.cli import console
from tmpmaild.cli.configured import NO_OUTPUT
from tmpmaild.cli.console import shown

DONE = 0
TIMEOUT = 1
NO_ADDRESS = 3
NO_SERVICE = 4
_OPTIONS = {
    "/local_part": "--name",
    "/domain": "--domain",
    "/expires_in_seconds": "--lifetime",
    "/faults": "--fault",
    "/webhook": "--webhook",
    "after": "--after",
    "subject": "--subject",
    "from": "--from",
    "q": "--text",
}
HUNG_UP = 128 + signal.SIGHUP


def code_of(work: Callable[[], int]) -> int:
    """Run a function and return its exit code; if it fails, print a line on standard error first."""
    try:
        console.expect_output()
        return work()
    except client.TmpmaildError as error:
        if isinstance(error, client.InvalidRequest):
            _raise_usage_error(error)
        console.print_to_stderr(f"{error}{_hint(error)}")
        return _code(error)
    except BrokenPipeError:
        console.forget_output()
        return DONE
    except OSError as error:
        return _without_output(error)


def _without_output(error: OSError) -> int:
    # A write to a closed terminal may fail before SIGHUP arrives.
    code = HUNG_UP if console.is_hang_up(error) else NO_OUTPUT
    if code == NO_OUTPUT:
        console.print_to_stderr(f"cannot write: {error.strerror or error}")
    console.forget_output()
    return code


def _hint(error: client.TmpmaildError) -> str:
    match error:
        case client.ConnectionLost():
            return ""
        case client.ServiceUnreachable():
            return " (--server or $TMPMAILD_URL selects a different service)"
        case client.NotFound():
            return "; is the URL right?"
        case client.RateLimited(retry_after_seconds=int(seconds)):
            return f"; try again in {seconds} s"
        case _:
            return ""


def _code(error: client.TmpmaildError) -> int:
    match error:
        case client.WaitTimeout(__cause__=None):
            return TIMEOUT
        case client.AddressNotFound() | client.AddressExpired():
            return NO_ADDRESS
        case _:
            return NO_SERVICE


def _raise_usage_error(error: client.InvalidRequest) -> None:
    """Raise UsageError if the service rejected the values of options."""
    # An error in /webhook/url belongs to the option for /webhook.
    named = [(re.sub(r"(?<=.)/.*", "", one.pointer), one.detail) for one in error.errors]
    mistakes = [(_OPTIONS[pointer], detail) for pointer, detail in named if pointer in _OPTIONS]
    if mistakes:
        text = "; ".join(f"Invalid value for '{option}': {detail}" for option, detail in mistakes)
        raise click.UsageError(shown(text)) from error


@contextmanager
def arguments() -> Iterator[None]:
    """Wrap calls that use command-line arguments: convert ValueError to a usage error."""
    try:
        yield
    except UnicodeError as error:
        raise click.UsageError("an argument is not valid text") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def address_not_found(
    error: client.AddressNotFound, url: str, address: str, token: str | None, domains: Sequence[str]
) -> client.AddressNotFound:
    """Return the error with a more helpful message. ``domains`` are the service's domains, empty if unknown."""
    if domains and address.rpartition("@")[2].lower() not in hostnames.Domains(domains):
        hint = f"; it serves {', '.join(domains)}"
    elif token is None:
        hint = ", or it is private: then set --token or $TMPMAILD_TOKEN"
    else:
        hint = ", or the token belongs to a different address"
    return client.AddressNotFound(error.status, error.code, f"{url} has no address {address}{hint}")
