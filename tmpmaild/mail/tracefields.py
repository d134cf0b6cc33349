"""The trace fields on top of a mail's source (RFC 5321 §4.4), made from the stored envelope when it is read."""

from datetime import UTC, datetime
from email.utils import format_datetime
from ipaddress import IPv6Address, ip_address

from tmpmaild import hostnames
from tmpmaild.mail import addresses
from tmpmaild.model import Envelope, Source


def fields(source: Source, hostname: str) -> bytes:
    """Return ``Return-Path`` and ``Received``, each ended by CRLF; UTF-8 if an address is (RFC 6531 §3.7.3).

    The envelope is what a stranger said: only what is a path, a host name or an address by the grammar gets in, so
    no line end of theirs and nothing longer than 255 octets. ``for`` names the one recipient of ``source``.
    """
    envelope = source.envelope
    recipient = _path(envelope.recipients[0])
    lines = [
        f"Return-Path: <{_path(envelope.sender)}>",
        f"Received: from {_client(envelope)}",
        f"\tby {hostname} with {_protocol(envelope)} id {source.id}",
        f"\t{f'for <{recipient}>' if recipient else ''}; {_date(source.received_at_ms)}",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode()


def _path(text: str) -> str:
    """Return a path as it was written, ``""`` for the null path and for what is none."""
    try:
        addresses.parse_path(text.encode(), utf8=True)
    except ValueError:  # UnicodeEncodeError of a lone surrogate too
        return ""
    return text


def _client(envelope: Envelope) -> str:
    """Return the Extended-Domain of ``from``: who the client said it is, and where it really was."""
    name, literal = _host(envelope.helo), _literal(envelope.remote_ip)
    if literal:
        return f"{name or literal} ({literal})"
    # Over a Unix socket there is no address, and a literal alone is not in the grammar.
    return name if name and not name.startswith("[") else "unknown"


def _host(helo: str) -> str:
    try:
        return hostnames.check_address_literal(helo) if helo.startswith("[") else hostnames.to_ascii(helo)
    except ValueError:
        return ""


def _literal(ip: str) -> str:
    """Return the address literal (RFC 5321 §4.1.3) of an IP address, ``""`` of anything else."""
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return f"[IPv6:{address}]" if isinstance(address, IPv6Address) else f"[{address}]"


def _protocol(envelope: Envelope) -> str:
    """Return the keyword of RFC 3848, or of RFC 6531 §4.3 where an address is in UTF-8."""
    if envelope.session.greeting == "HELO":
        return "SMTP"
    utf8 = not (envelope.sender + envelope.recipients[0]).isascii()
    return ("UTF8SMTP" if utf8 else "ESMTP") + ("S" if envelope.tls else "")


def _date(time_ms: int) -> str:
    return format_datetime(datetime.fromtimestamp(time_ms // 1000, UTC))
