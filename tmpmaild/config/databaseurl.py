"""PostgreSQL database URLs in libpq's format, including several hosts and TLS options. The password is never shown."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

DEFAULT_PORT: Final = 5432
MAX_HOSTS: Final = 16
OPTIONS: Final = (
    "host", "port", "user", "password", "dbname", "target_session_attrs", "sslmode", "sslrootcert", "sslcert", "sslkey",
    "sslcrl",
)  # fmt: skip
# urlsplit is not used: it supports only one host, and newer versions reject an IPv6 address that is not the first host.
_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<login>[^/?#]*)@)?(?P<places>[^/?#@]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?"
)
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class DatabaseUrl(Struct, frozen=True, repr_omit_defaults=True):
    """The location of a database.

    ``hosts`` and ``ports`` correspond by position; a host that starts with a slash is a directory. ``tls`` contains the
    libpq options that start with "ssl". ``str()`` omits the password.
    """

    hosts: tuple[str, ...]
    ports: tuple[int, ...]
    database: str
    user: str | None = None
    password: str | None = None
    tls: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        places = (
            (f"[{host}]" if ":" in host else host) + ("" if port == DEFAULT_PORT else f":{port}")
            for host, port in zip(self.hosts, self.ports, strict=True)
        )
        return f"postgresql://{user}{','.join(places)}/{self.database}"

    __repr__ = __str__


def parse(text: str) -> DatabaseUrl:
    """Parse a URL. Raises ValueError, without any part of the URL in its text."""
    url = _URL.fullmatch(text)
    if url is None:
        raise ValueError("not a PostgreSQL URL")
    options = _options(url["query"] or "")
    if options.get("target_session_attrs", "read-write") not in ("read-write", "primary"):
        raise ValueError("the server must accept writes")
    if options.get("sslmode", "prefer") not in _SSL_MODES:
        raise ValueError("no such sslmode")
    user, _, password = (url["login"] or "").partition(":")
    hosts, ports = _places(options.get("host", url["places"]), options.get("port", ""))
    return DatabaseUrl(
        hosts=hosts,
        ports=ports,
        database=options.get("dbname") or unquote(url["path"] or "") or _missing(),
        user=options.get("user") or unquote(user) or None,
        password=options.get("password") or unquote(password) or None,
        tls=_tls(options),
    )


def _options(query: str) -> dict[str, str]:
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError:
        raise ValueError("not a URL") from None
    if not set(options) <= set(OPTIONS):
        raise ValueError("an unknown option")
    return options


def _missing() -> str:
    raise ValueError("no database name")


def _tls(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in options.items() if name.startswith("ssl"))


def _places(text: str, default_ports: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    places = [_host_and_port(place) for place in text.split(",")]
    defaults = [_port(port) for port in default_ports.split(",")] if default_ports else [DEFAULT_PORT]
    if len(defaults) == 1:
        defaults *= len(places)
    if len(defaults) != len(places) or len(places) > MAX_HOSTS:
        raise ValueError("expected one port, or as many ports as hosts")
    ports = [default if port is None else port for (_, port), default in zip(places, defaults, strict=True)]
    return tuple(host for host, _ in places), tuple(ports)


def _host_and_port(text: str) -> tuple[str, int | None]:
    if text.startswith("/"):
        return text, None
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host = unquote(host if colon else text)
    is_bracketed = host.startswith("[")
    host = host.removeprefix("[").removesuffix("]") if is_bracketed == host.endswith("]") else ""
    if not host or (":" in host) != is_bracketed:
        raise ValueError("no host")
    return host, _port(port) if colon else None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):  # noqa: PLR2004 - the largest port is 65535
        raise ValueError("no such port")
    return int(text)
