"""The validators of configuration values; ``settings.py`` assigns a validator to each key."""

import re
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from tmpmaild import hostnames, webhooktargets
from tmpmaild.clients import parse_network
from tmpmaild.config import databaseurl
from tmpmaild.validation import Validator

MIB: Final = 1 << 20

_MAX_WHOLE: Final = 10**15  # far below the maximum integer in SQLite, and the maximum exact integer in a double
_MAX_PORT: Final = 65_535
MAX_SOCKET_PATH_BYTES: Final = 107
"""The size of sun_path in unix(7), without its NUL."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_HOST_AND_PORT = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?").fullmatch
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#@\s]+)((?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*)/?").fullmatch


class Endpoint(Struct, frozen=True):
    """An address to listen on: ``host`` and ``port`` (0 means any free port), or the ``path`` of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""


def parse_endpoint(text: str) -> Endpoint:
    """Parse ``host:port``, ``[IPv6]:port`` or ``unix:PATH``; raises ValueError."""
    if text.startswith("unix:"):
        return Endpoint(path=_socket_path(text.removeprefix("unix:")))
    host, port = _host_and_port(text)
    if port is None:
        raise ValueError("no port")
    return Endpoint(host=host, port=port)


def whole(least: int, most: int = _MAX_WHOLE) -> Validator:
    """Return a validator for whole numbers from ``least`` to ``most``, inclusive."""

    def parse(value: int) -> int:
        if not least <= value <= most:
            raise ValueError("out of range")
        return value

    limits = f"{least} or more" if most == _MAX_WHOLE else f"from {least} to {most}"
    return Validator(f"a whole number, {limits}", int, parse)


def one_of(*words: str) -> Validator:
    """Return a validator that accepts only these words."""

    def parse(value: str) -> str:
        if value not in words:
            raise ValueError("unknown word")
        return value

    return Validator("one of " + ", ".join(words), str, parse)


def _listen(text: str) -> str:
    parse_endpoint(text)
    return text


def _control_listen(text: str) -> str:
    if text not in ("", "off") and not parse_endpoint(text).path:
        raise ValueError("commands need a Unix socket")
    return text


def _tcp_listen(text: str) -> str:
    if parse_endpoint(text).path:
        raise ValueError("SMTP listens only on TCP")
    return text


def _socket_path(path: str) -> str:
    if not 0 < len(path.encode(errors="surrogateescape")) <= MAX_SOCKET_PATH_BYTES or "\0" in path:
        raise ValueError("not the path of a Unix socket")
    return path


def _host_and_port(text: str) -> tuple[str, int | None]:
    match = _HOST_AND_PORT(text)
    if match is None:
        raise ValueError("not a host and a port")
    v6, name, digits = match.groups()
    port = None if digits is None else int(digits)
    if port is not None and port > _MAX_PORT:
        raise ValueError("no such port")
    return str(IPv6Address(v6)) if v6 else hostnames.to_ascii(name), port


def _url(text: str) -> tuple[str, str]:
    """Return the origin and the path in the form that browsers use: no default port, no trailing slash."""
    match = _URL(text)
    if match is None:
        raise ValueError("not a URL with a scheme, host, port and path")
    scheme = match[1].lower()
    host, port = _host_and_port(match[2])
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port in {None, _DEFAULT_PORTS.get(scheme)} else f":{port}"
    return f"{scheme}://{shown_host}{shown_port}", match[3]


def _public_url(text: str) -> str:
    origin, path = _url(text)
    if not origin.startswith(("http://", "https://")):
        raise ValueError("not http or https")
    return origin + path


def _origin(text: str) -> str:
    origin, path = _url(text)
    if path or text.endswith("/"):
        raise ValueError("an origin has no path")
    return origin


def _host(text: str) -> str:
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        return hostnames.to_ascii(text.removesuffix("."))


def _storage_bytes(value: int) -> int:
    if value != 0 and not MIB <= value <= _MAX_WHOLE:
        raise ValueError("out of range")
    return value


def _database_url(text: str) -> str:
    databaseurl.parse(text)
    return text


def _path(text: str) -> str:
    if not PurePath(text).name or "\0" in text:  # "", "." and "/" have no name
        raise ValueError("not a file path")
    return text


def _or_empty(expected: str, parse: Callable[[str], str], *, secret: bool = False) -> Validator:
    """Return a validator that also accepts an empty string."""
    return Validator(f"{expected}, or an empty string", str, lambda text: parse(text) if text else text, secret=secret)


def _share(value: float) -> float:
    if not 0 < value <= 1:  # this comparison also rejects nan
        raise ValueError("out of range")
    return float(value)


def _resolver(text: str) -> str:
    if text not in ("", "system"):
        ip_address(parse_endpoint(text).host)
    return text


SWITCH = Validator("true or false", bool, bool)
SHARE = Validator("a number above 0, at most 1", float, _share)
STORAGE_BYTES = Validator(f"0, or a whole number of at least {MIB}", int, _storage_bytes)
PATH = Validator("the path of a file", str, _path)
OPTIONAL_PATH = _or_empty("the path of a file", _path)
DATABASE_URL = _or_empty("postgresql://[user@]host[:port][,…]/database", _database_url, secret=True)
OPTIONAL_HOST_NAME = _or_empty("a host name", hostnames.to_ascii)
PUBLIC_URL = _or_empty("http(s)://host[:port][/path]", _public_url)
DOMAINS = Validator("a domain name", str, hostnames.to_ascii_or_wildcard, many=True, least=1)
LISTENS = Validator("host:port, [IPv6]:port or unix:PATH", str, _listen, many=True, least=1)
OPTIONAL_LISTEN = _or_empty("host:port, [IPv6]:port or unix:PATH", _listen)
CONTROL_LISTEN = Validator("unix:PATH, off, or an empty string", str, _control_listen)
OPTIONAL_TCP_LISTENS = Validator("host:port or [IPv6]:port", str, _tcp_listen, many=True)
TCP_LISTENS = Validator("host:port or [IPv6]:port", str, _tcp_listen, many=True, least=1)
ORIGINS = Validator("scheme://host[:port]", str, _origin, many=True)
HOSTS = Validator("a host name or an IP address, without port", str, _host, many=True)
RESOLVER = Validator("an address and port such as 127.0.0.1:53, system, or an empty string", str, _resolver)
WEBHOOK_TARGETS = Validator(
    "a host name, *.NAME or a network, each with :port or without", str, webhooktargets.parse_rule, many=True
)
NETWORKS = Validator("a network such as 10.0.0.0/8 or 2001:db8::/32, no host bits set", str, parse_network, many=True)
