"""``tmpmaild wait``: print one mail, or the code or link in it, for shell scripts."""

import math
import time
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Any

import httpx2

from tmpmaild.cli import console, exits, records
from tmpmaild.cli.console import shown
from tmpmaild.client import AddressNotFound, Client, Inbox, RateLimited, ServiceUnreachable, TmpmaildError

_SHORTEST_SECONDS = 1  # for one request, however little time is left


class WaitOutput(StrEnum):
    """What ``tmpmaild wait`` prints of the mail."""

    TEXT = "text"
    CODE = "code"
    LINK = "link"
    JSON = "json"


def wait(
    address: str,
    token: str | None,
    server: str | None,
    wanted: Mapping[str, Any],
    *,
    output: WaitOutput,
    timeout_seconds: float,
) -> int:
    """Wait for a mail and print it; return the exit code. ``wanted`` holds arguments of ``Inbox.wait_for``."""

    def work() -> int:
        deadline = time.monotonic() + timeout_seconds
        with httpx2.Client() as http, exits.arguments():
            client = Client(server, http=http)
            http.event_hooks = {"request": [partial(_bound, deadline)]}
            inbox = _find(client, address, token, deadline)
            http.event_hooks = {}
            left_seconds = max(0, math.ceil(10 * (deadline - time.monotonic())) / 10)  # a figure that can be read
            console.say(_value(inbox, wanted, output, left_seconds))
        return exits.DONE

    return exits.code_of(work)


def _find(client: Client, address: str, token: str | None, deadline: float) -> Inbox:
    """Find the inbox; repeat a request that the rate limit refused while there is time."""
    while True:
        started = time.monotonic()
        try:
            return client.inbox(address, token)
        except AddressNotFound as error:
            raise exits.address_not_found(error, client.url, address, token, _domains(client)) from error
        except RateLimited as error:
            pause_seconds = error.retry_after_seconds or 1
            if time.monotonic() + pause_seconds > deadline:
                raise
        except ServiceUnreachable as error:
            now = time.monotonic()
            if now < deadline or not isinstance(error.__cause__, httpx2.TimeoutException):
                raise
            raise ServiceUnreachable(f"{client.url}: no answer within {round(now - started)} s") from error
        time.sleep(pause_seconds)


def _domains(client: Client) -> list[str]:
    try:
        return client.domains()
    except TmpmaildError:  # only for a better message
        return []


def _bound(deadline: float, request: httpx2.Request) -> None:
    """Shorten the timeouts of a request to the time that is left."""
    left_seconds = max(_SHORTEST_SECONDS, deadline - time.monotonic())
    timeouts = request.extensions["timeout"]
    request.extensions["timeout"] = {
        phase: min(left_seconds, seconds or left_seconds) for phase, seconds in timeouts.items()
    }


def _value(inbox: Inbox, wanted: Mapping[str, Any], output: WaitOutput, timeout_seconds: float) -> str:
    """Wait, and return the text to print, without control characters."""
    match output:
        case WaitOutput.CODE:
            return shown(inbox.wait_for_code(**wanted, timeout=timeout_seconds))
        case WaitOutput.LINK:
            return shown(inbox.wait_for_link(**wanted, timeout=timeout_seconds))
    mail = inbox.wait_for(**wanted, timeout=timeout_seconds)
    if mail.truncated:
        mail.details()
    if output is WaitOutput.JSON:
        return records.line(records.mail(mail))
    return shown(mail.text, keep="\n\t").rstrip("\n")
