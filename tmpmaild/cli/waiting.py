"""The command ``wait``: waits for a message and prints it, or its code or link."""

from contextlib import suppress

import httpx2
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import client
from tmpmaild.cli import console, display, exits
from tmpmaild.cli.console import shown
from tmpmaild.cli.display import json_line
from tmpmaild.cli.live import service_at
from tmpmaild.client import sync, transport, waiting
from tmpmaild.client.remote import Feature, Filter, RemoteInbox
from tmpmaild.client.transport import Steps
from tmpmaild.client.views import wanted as filter_of
from tmpmaild.client.waiting import Waiting


class WaitOptions(Struct, frozen=True):
    """The options of ``tmpmaild wait`` that filter messages."""

    subject: str | None
    sender: str | None
    text: str | None
    has: tuple[Feature, ...]
    after: str | None
    verdict: bool


def wait(
    address: str,
    token: str | None,
    server: str | None,
    options: WaitOptions,
    *,
    output: str,
    timeout_seconds: float,
) -> int:
    """Wait for a message and print its "text", "code" or "link", or all of it ("json"); return the exit code."""
    wanted = filter_of(
        subject=options.subject,
        sender=options.sender,
        text=options.text,
        has=options.has,
        after=options.after,
        verdict=options.verdict,
    )

    def work() -> int:
        with exits.arguments():
            service = service_at(server)
        with exits.arguments(), transport.opened(httpx2.Client, service.url) as http:
            driver = sync.Driver(http)
            # Do not request the inbox first, because that would use a rate-limit token.
            found = _awaited(service.named(address, token), wanted, output, timeout_seconds)
            try:
                console.say(driver.run(found))
            except client.AddressNotFound as error:
                domains: list[str] = []
                with suppress(client.TmpmaildError):  # domains only improve the error message
                    domains = driver.run(service.domains())
                raise exits.address_not_found(error, service.url, address, token, domains) from error
        return exits.DONE

    return exits.code_of(work)


def _awaited(inbox: RemoteInbox, wanted: Filter, output: str, timeout_seconds: float) -> Steps[str]:
    """Wait for the message; return the text to print, without control characters."""
    match output:
        case "code":
            return shown((yield from Waiting(inbox, wanted, waiting.code(None), timeout_seconds).steps()))
        case "link":
            return shown((yield from Waiting(inbox, wanted, waiting.link(None, None), timeout_seconds).steps()))
    message = yield from Waiting(inbox, wanted, waiting.MAIL, timeout_seconds).steps()
    if message.truncated:
        details = yield from inbox.details(message.id)
        message = replace(message, text=details.text, truncated=False)
    if output == "json":
        return json_line(display.json_mail(message))
    return shown(message.text, keep="\n\t").rstrip("\n")
