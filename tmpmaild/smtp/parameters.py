"""Parses what follows MAIL and RCPT (RFC 5321 §4.1.1.2 and 3): a path, and parameters."""

import re

from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import Mailbox, parse_path, parse_recipient, plain_domain, split_path
from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import MailFrom, Recipient, Reply

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


def parse_mail(argument: bytes, max_message_bytes: int, *, extended: bool, auth: bool = False) -> MailFrom | Reply:
    """Parse what follows ``MAIL``, or return its refusal; parameters need EHLO (``extended``), AUTH= needs ``auth``."""
    plain = _plain_sender(argument)
    if plain is None or plain_domain(plain[3]) is None or (plain[4] is not None and not extended):
        return _parse_any_mail(argument, max_message_bytes, extended=extended, auth=auth)
    if plain[4] is None:
        return MailFrom(plain[1].decode())
    size_bytes = int(plain[5])
    if size_bytes > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return MailFrom(plain[1].decode(), size_bytes, plain[4].decode())


def _parse_any_mail(  # noqa: PLR0911 - one check a line, next to its reply
    argument: bytes, max_message_bytes: int, *, extended: bool, auth: bool
) -> MailFrom | Reply:
    if argument[:5].upper() != b"FROM:":
        return replies.BAD_ARGUMENT
    size_bytes, utf8 = 0, False
    try:
        path, parameters = split_path(argument[5:])
        if parameters:
            declared = _declared(parameters, max_message_bytes, auth=auth)
            if isinstance(declared, Reply):
                return declared
            if not extended:
                return replies.BAD_PARAMETER
            size_bytes, utf8 = declared
        if path and not parse_path(path, utf8=utf8).domain:
            return replies.BAD_SENDER
    except addresses.NonAsciiPath:
        return replies.UTF8_NOT_ASKED_FOR
    except addresses.PathSyntaxError:
        return replies.BAD_SENDER
    return MailFrom(path.decode(), size_bytes, parameters.decode(), utf8)


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
    except addresses.NonAsciiPath:
        return replies.UTF8_NOT_ASKED_FOR
    except addresses.PathSyntaxError:
        return replies.BAD_RECIPIENT
    if parameters:
        return replies.BAD_PARAMETER if _are_parameters(parameters) else replies.BAD_RECIPIENT
    return Recipient(mailbox, path.decode())


def _declared(parameters: bytes, max_message_bytes: int, *, auth: bool) -> tuple[int, bool] | Reply:
    """Return the size and whether SMTPUTF8 is given, or the reply that refuses these parameters.

    They are SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531) and AUTH (RFC 4954 §5).
    """
    given = _given(parameters)
    if given is None:
        return replies.BAD_ARGUMENT
    supported = _PARAMETERS_WITH_AUTH if auth else _PARAMETERS
    if given.keys() - supported or given.get(b"BODY", b"7BIT").upper() not in (b"7BIT", b"8BITMIME"):
        return replies.BAD_PARAMETER
    size = given.get(b"SIZE", b"0")
    if given.get(b"SMTPUTF8") or not _is_number(size) or not _is_xtext(given.get(b"AUTH", b"<>")):
        return replies.BAD_ARGUMENT
    digits = size.lstrip(b"0") or b"0"
    # The length is compared first: int() on thousands of digits is slow.
    if len(digits) > len(str(max_message_bytes)) or int(digits) > max_message_bytes:
        return replies.MESSAGE_TOO_BIG
    return int(digits), b"SMTPUTF8" in given


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
