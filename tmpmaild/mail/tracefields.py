"""The trace fields that precede a message's raw source (RFC 5321 §4.4, RFC 8601), from its envelope and verdict."""

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from ipaddress import IPv6Address, ip_address

from tmpmaild import hostnames
from tmpmaild.mail import addresses
from tmpmaild.model import DkimVerdict, Envelope, FullMessage

_PVALUE = re.compile(r"[A-Za-z0-9._-]{1,255}")
_NOT_QUOTABLE = re.compile(r"[^ !#-\[\]-~]")


def trace_fields(full: FullMessage, hostname: str) -> bytes:
    """Return ``Return-Path`` and ``Received``, terminated by CRLF; in UTF-8 if an address uses UTF-8 (RFC 6531 §3.7.3).

    The envelope is untrusted: only well-formed paths, host names and addresses are written. Therefore, it cannot inject
    line ends or values longer than 255 bytes. The ``for`` clause contains the only recipient of ``full``.
    """
    envelope = full.envelope
    recipient = _path(envelope.recipients[0])
    lines = [
        f"Return-Path: <{_path(envelope.sender)}>",
        f"Received: from {_client(envelope)}",
        f"\tby {hostname} with {_protocol(envelope)} id {full.message.id}",
        f"\t{f'for <{recipient}>' if recipient else ''}; {_date(full.message.received_at_ms)}",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode()


def authentication_results(full: FullMessage, hostname: str) -> bytes:
    """Return the ``Authentication-Results`` field (RFC 8601), terminated by CRLF; empty if there is no verdict yet."""
    found = full.message.authentication
    if found is None:
        return b""
    by = "smtp.mailfrom" if full.envelope.sender else "smtp.helo"
    methods = [_method("spf", found.spf.result, found.spf.reason, {by: found.spf.domain})]
    methods += [
        _method("dkim", one.result, one.reason, {"header.d": one.domain, "header.s": one.selector})
        for one in found.dkim or (DkimVerdict("none"),)
    ]
    methods += [
        _method("dmarc", found.dmarc.result, found.dmarc.reason, {"header.from": found.dmarc.domain}),
        _method("arc", found.arc.result, found.arc.reason, {}),
    ]
    return "".join([f"Authentication-Results: {hostname}", *[f";\r\n\t{one}" for one in methods], "\r\n"]).encode()


def _method(name: str, result: str, reason: str, properties: dict[str, str]) -> str:
    """Return the result of a method; characters and values that are unsafe in a header field are omitted."""
    shown = "".join(_NOT_QUOTABLE.split(reason))
    parts = [f"{name}={result}", *([f'reason="{shown}"'] if shown else [])]
    return " ".join([*parts, *[f"{key}={value}" for key, value in properties.items() if _PVALUE.fullmatch(value)]])


def _path(text: str) -> str:
    """Return a path as written, or ``""`` for the null path and for a malformed path."""
    try:
        addresses.parse_path(text.encode(), utf8=True)
    except ValueError:  # including UnicodeEncodeError for a lone surrogate
        return ""
    return text


def _client(envelope: Envelope) -> str:
    """Return the Extended-Domain of ``from``: the name that the client claimed, and the client's address."""
    name, literal = _host(envelope.helo), _literal(envelope.remote_ip)
    if literal:
        return f"{name or literal} ({literal})"
    # A Unix socket has no client address, and the grammar does not allow an address literal without a host name.
    return name if name and not name.startswith("[") else "unknown"


def _host(helo: str) -> str:
    try:
        return hostnames.check_address_literal(helo) if helo.startswith("[") else hostnames.to_ascii(helo)
    except ValueError:
        return ""


def _literal(ip: str) -> str:
    """Return the address literal (RFC 5321 §4.1.3) of an IP address, or ``""`` for any other text."""
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return f"[IPv6:{address}]" if isinstance(address, IPv6Address) else f"[{address}]"


def _protocol(envelope: Envelope) -> str:
    """Return the protocol keyword of RFC 3848, or of RFC 6531 §4.3 if an address uses UTF-8."""
    if envelope.session.greeting == "HELO":
        return "SMTP"
    utf8 = not (envelope.sender + envelope.recipients[0]).isascii()
    return ("UTF8SMTP" if utf8 else "ESMTP") + ("S" if envelope.tls else "")


def _date(time_ms: int) -> str:
    return format_datetime(datetime.fromtimestamp(time_ms // 1000, UTC))
