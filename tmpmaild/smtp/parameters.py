"""Parses MAIL and RCPT (RFC 5321 §4.1.1.2 and 3); the state of a mail transaction (§3.3)."""

import re

from tmpmaild.mail.addresses import (
    Mailbox,
    NonAsciiPath,
    PathSyntaxError,
    parse_path,
    parse_recipient,
    plain_domain,
    split_path,
)
from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import Recipient, Reply

MAX_RECIPIENTS = 100  # RFC 5321 §4.5.3.1.8: at least 100

_PARAMETER = rb"[A-Za-z0-9][A-Za-z0-9-]*+(?:=[!-<>-~]++)?"  # RFC 5321 §4.1.2, esmtp-param
_are_parameters = re.compile(rb"%s(?: ++%s)* *+" % (_PARAMETER, _PARAMETER)).fullmatch
_is_xtext = re.compile(rb"(?:[!-*,-<>-~]|\+[0-9A-F]{2})+").fullmatch  # RFC 3461 §4
# Nearly all paths, without the grammar: they have at most 254 octets.
_PLAIN_PATH = rb":<(([A-Za-z0-9]{1,64}+)@([A-Za-z0-9.-]{1,189}+))>"
_plain_sender = re.compile(rb"(?i:FROM)%s(?: ((?i:SIZE)=([0-9]{1,18}+)))?" % _PLAIN_PATH).fullmatch
_plain_recipient = re.compile(rb"(?i:TO)%s" % _PLAIN_PATH).fullmatch
_is_number = re.compile(rb"[0-9]+").fullmatch
_PARAMETERS = frozenset({b"SIZE", b"BODY", b"SMTPUTF8"})
_PARAMETERS_WITH_AUTH = _PARAMETERS | {b"AUTH"}


class MailTransaction:
    """A mail transaction (RFC 5321 §3.3): the sender, the recipients accepted so far, and what MAIL declared.

    ``size_bytes`` is 0 where no size was declared; ``utf8``: addresses may be in UTF-8.
    ``parameters`` are those of MAIL, as they were written.
    """

    __slots__ = ("parameters", "recipients", "sender", "size_bytes", "utf8")

    def __init__(self, sender: str = "", size_bytes: int = 0, *, utf8: bool = False) -> None:
        self.sender = sender
        self.size_bytes = size_bytes
        self.utf8 = utf8
        self.parameters = ""
        self.recipients: list[Recipient] = []

    @property
    def full(self) -> bool:
        """Whether it takes no more recipients."""
        return len(self.recipients) >= MAX_RECIPIENTS


def parse_mail(  # noqa: PLR0911 - one check a line, next to its reply
    argument: bytes, max_message_bytes: int, *, extended: bool, auth: bool = False
) -> MailTransaction | Reply:
    """Parse what follows ``MAIL``, or return its refusal; parameters need EHLO (``extended``), AUTH= needs ``auth``."""
    plain = _plain_sender(argument)
    if plain is not None and plain_domain(plain[3]) is not None and (extended or plain[4] is None):
        return _plain_transaction(plain, max_message_bytes)
    if argument[:5].upper() != b"FROM:":
        return replies.BAD_ARGUMENT
    try:
        path, parameters = split_path(argument[5:])
        transaction = _declared(parameters, max_message_bytes, auth=auth) if parameters else MailTransaction()
        if not isinstance(transaction, MailTransaction):
            return transaction
        if parameters and not extended:
            return replies.BAD_PARAMETER
        if path and not parse_path(path, utf8=transaction.utf8).domain:
            return replies.BAD_SENDER
    except NonAsciiPath:
        return replies.UTF8_NOT_ASKED_FOR
    except PathSyntaxError:
        return replies.BAD_SENDER
    transaction.sender = path.decode()
    if parameters:
        transaction.parameters = parameters.decode()
    return transaction


def _plain_transaction(found: re.Match[bytes], max_message_bytes: int) -> MailTransaction | Reply:
    transaction = MailTransaction(found[1].decode())
    if found[4] is not None:
        transaction.size_bytes, transaction.parameters = int(found[5]), found[4].decode()
        if transaction.size_bytes > max_message_bytes:
            return replies.MESSAGE_TOO_BIG
    return transaction


def parse_rcpt(argument: bytes, *, utf8: bool) -> Recipient | Reply:
    """Parse what follows ``RCPT``, or return the reply that refuses it."""
    plain = _plain_recipient(argument)
    if plain is not None and (domain := plain_domain(plain[3])) is not None:
        return Recipient(Mailbox(plain[2].decode(), domain), plain[1].decode())
    if argument[:3].upper() != b"TO:":
        return replies.BAD_ARGUMENT
    try:
        path, parameters = split_path(argument[3:])
        mailbox = parse_recipient(path, utf8=utf8)
    except NonAsciiPath:
        return replies.UTF8_NOT_ASKED_FOR
    except PathSyntaxError:
        return replies.BAD_RECIPIENT
    if parameters:
        return replies.BAD_PARAMETER if _are_parameters(parameters) else replies.BAD_RECIPIENT
    return Recipient(mailbox, path.decode())


def _declared(parameters: bytes, max_message_bytes: int, *, auth: bool) -> MailTransaction | Reply:
    """Parse SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531) and AUTH (RFC 4954 §5), or return their refusal."""
    given = _given(parameters)
    if given is None:
        return replies.BAD_ARGUMENT
    supported = _PARAMETERS_WITH_AUTH if auth else _PARAMETERS
    if given.keys() - supported or given.get(b"BODY", b"7BIT").upper() not in (b"7BIT", b"8BITMIME"):
        return replies.BAD_PARAMETER
    size = given.get(b"SIZE", b"0")
    if given.get(b"SMTPUTF8") or not _is_number(size) or not _is_xtext(given.get(b"AUTH", b"<>")):
        return replies.BAD_ARGUMENT
    return _sized(size.lstrip(b"0") or b"0", max_message_bytes, utf8=b"SMTPUTF8" in given)


def _given(parameters: bytes) -> dict[bytes, bytes] | None:
    """Return the values by their names in upper case, b"" where there is none; None: malformed, or given twice."""
    if not _are_parameters(parameters):
        return None
    given: dict[bytes, bytes] = {}
    for parameter in parameters.split():
        name, _, value = parameter.partition(b"=")
        if name.upper() in given:
            return None
        given[name.upper()] = value
    return given


def _sized(digits: bytes, max_message_bytes: int, *, utf8: bool) -> MailTransaction | Reply:
    # The length is compared first: int() on thousands of digits is slow.
    if len(digits) > len(str(max_message_bytes)) or int(digits) > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return MailTransaction(size_bytes=int(digits), utf8=utf8)
