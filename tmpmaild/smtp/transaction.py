"""The state between MAIL and the dot (RFC 5321 §3.3), and the parameters of MAIL that it begins with."""

import re

from msgspec import Struct

from tmpmaild.smtp import replies
from tmpmaild.smtp.questions import Recipient

_is_number = re.compile(rb"[0-9]+").fullmatch


class Parameters(Struct, frozen=True):
    """What MAIL declared: the size (0: nothing), and whether addresses may be in UTF-8."""

    size_bytes: int = 0
    utf8: bool = False


class Transaction:
    """One sender and the recipients that have been accepted so far."""

    __slots__ = ("parameters", "recipients", "sender")

    def __init__(self, sender: str, parameters: Parameters) -> None:
        self.sender = sender
        self.parameters = parameters
        self.recipients: list[Recipient] = []


_NONE = Parameters()


def parse_parameters(text: bytes, max_message_bytes: int) -> Parameters | str:
    """Read SIZE (RFC 1870), BODY (RFC 6152) and SMTPUTF8 (RFC 6531), or return the reply that refuses them."""
    if not text:
        return _NONE
    given: dict[bytes, bytes | None] = {}
    for parameter in text.upper().split():
        name, equals, value = parameter.partition(b"=")
        if name in given:
            return replies.BAD_ARGUMENT
        given[name] = value if equals else None
    if given.keys() - {b"SIZE", b"BODY", b"SMTPUTF8"} or given.get(b"BODY", b"7BIT") not in (b"7BIT", b"8BITMIME"):
        return replies.BAD_PARAMETER
    if given.get(b"SMTPUTF8") is not None:
        return replies.BAD_ARGUMENT
    size = given.get(b"SIZE", b"0")
    if size is None or not _is_number(size):
        return replies.BAD_ARGUMENT
    return _sized(size.lstrip(b"0") or b"0", max_message_bytes, utf8=b"SMTPUTF8" in given)


def _sized(digits: bytes, max_message_bytes: int, *, utf8: bool) -> Parameters | str:
    # Thirty digits are a legal way to say "too big"; int() on thousands of them would cost.
    if len(digits) > len(str(max_message_bytes)) or int(digits) > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return Parameters(int(digits), utf8)
