"""``tmpmaild wait``: one value out of one mail, for shell scripts."""

import time
from collections.abc import Mapping
from enum import StrEnum

from tmpmaild.client import Client, Inbox, RateLimited
from tmpmaild.commands import console, exits, records
from tmpmaild.terminal import shown


class Pick(StrEnum):
    """What is printed of the mail."""

    TEXT = "text"
    CODE = "code"
    LINK = "link"
    JSON = "json"


def wait(
    address: str,
    token: str | None,
    server: str | None,
    wanted: Mapping[str, str | None],
    *,
    pick: Pick,
    timeout_seconds: int,
) -> int:
    """Print what was waited for; return the exit code. ``wanted`` holds arguments of ``Inbox.wait_for``."""

    def work() -> int:
        with exits.arguments():
            client = Client(server)
        with client, exits.arguments():
            inbox, left_seconds = _find(client, address, token, timeout_seconds)
            console.say(_value(inbox, wanted, pick, left_seconds))
        return exits.DONE

    return exits.code_of(work)


def _find(client: Client, address: str, token: str | None, timeout_seconds: int) -> tuple[Inbox, int]:
    """Find the inbox, and tell what is left of the time: a refusal for our rate is waited out."""
    left_seconds = timeout_seconds
    while True:
        try:
            return client.inbox(address, token), left_seconds
        except RateLimited as error:
            pause_seconds = error.retry_after_seconds or 1
            if pause_seconds > left_seconds:
                raise
        time.sleep(pause_seconds)
        left_seconds -= pause_seconds


def _value(inbox: Inbox, wanted: Mapping[str, str | None], pick: Pick, timeout_seconds: float) -> str:
    """Wait, and return what is to be printed: harmless, whatever the mail says."""
    match pick:
        case Pick.CODE:
            return shown(inbox.wait_for_code(**wanted, timeout=timeout_seconds))
        case Pick.LINK:
            return shown(inbox.wait_for_link(**wanted, timeout=timeout_seconds))
    mail = inbox.wait_for(**wanted, timeout=timeout_seconds)
    if mail.truncated:
        mail.details()
    if pick is Pick.JSON:
        return records.line(records.mail(mail))
    return shown(mail.text, keep="\n\t").rstrip("\n")
