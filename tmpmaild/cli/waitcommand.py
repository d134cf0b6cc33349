"""``tmpmaild wait``: print one mail, or the code or link in it, for shell scripts."""

from collections.abc import Mapping
from typing import Any

from tmpmaild.cli import console, display, exits
from tmpmaild.cli.console import shown
from tmpmaild.client import AddressNotFound, Client, Inbox, TmpmaildError


def wait(
    address: str,
    token: str | None,
    server: str | None,
    wanted: Mapping[str, Any],
    *,
    output: str,
    timeout_seconds: float,
) -> int:
    """Wait for a mail and print its "text", "code" or "link", or all of it ("json"); return the exit code.

    ``wanted`` holds arguments of ``Inbox.wait_for``.
    """

    def work() -> int:
        with exits.arguments(), Client(server) as client:
            # Without a look for the inbox first, which would cost a token of the rate limit.
            inbox = Inbox(client._remote.named(address, token), client._driver)  # noqa: SLF001 - see above
            try:
                console.say(_value(inbox, wanted, output, timeout_seconds))
            except AddressNotFound as error:
                raise exits.address_not_found(error, client.url, address, token, _domains(client)) from error
        return exits.DONE

    return exits.code_of(work)


def _domains(client: Client) -> list[str]:
    try:
        return client.domains()
    except TmpmaildError:  # only for a better message
        return []


def _value(inbox: Inbox, wanted: Mapping[str, Any], output: str, timeout_seconds: float) -> str:
    """Wait, and return the text to print, without control characters."""
    match output:
        case "code":
            return shown(inbox.wait_for_code(**wanted, timeout=timeout_seconds))
        case "link":
            return shown(inbox.wait_for_link(**wanted, timeout=timeout_seconds))
    mail = inbox.wait_for(**wanted, timeout=timeout_seconds)
    if mail.truncated:
        mail.details()
    if output == "json":
        return display.json_line(display.json_mail(mail))
    return shown(mail.text, keep="\n\t").rstrip("\n")
