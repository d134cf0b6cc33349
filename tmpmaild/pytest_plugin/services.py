"""The service of a test session as options and ini keys name it; ``embedded.py`` starts one where they name none."""

import ipaddress
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest


class NoService(Exception):
    """There is no service to use; the text says why."""


class SmtpServer(NamedTuple):
    """Where to send mail."""

    host: str
    port: int


class Service(NamedTuple):
    """Where the API and the mail server are; an embedded one is never behind a proxy.

    ``smtps`` takes mail over TLS from the first octet, ``ca_file`` holds the authority that issued its certificate;
    ``ended`` says why the service has ended, and nothing while it runs.
    """

    url: str
    smtp: SmtpServer
    is_embedded: bool = False
    smtps: SmtpServer | None = None
    ca_file: Path | None = None
    ended: Callable[[], str] = str


def given(config: pytest.Config) -> Service | None:
    """Return the service that options, ini keys or the environment name, in this order. Raises ``NoService``."""
    url = _option(config, "tmpmaild_url")
    if not url:
        return None
    from tmpmaild.client.transport import service_url  # noqa: PLC0415 - slow to import; an embedded daemon does not need it

    try:
        url = service_url(url, {})
    except ValueError as error:
        raise NoService(str(error)) from error
    host = urlsplit(url).hostname or ""
    return Service(url, smtp_server(_option(config, "tmpmaild_smtp") or _in_brackets(host)))


def _option(config: pytest.Config, name: str) -> str:
    found = config.getoption(name) or config.getini(name) or os.environ.get(name.upper(), "")
    return str(found).strip()


def smtp_server(text: str) -> SmtpServer:
    """Read ``HOST`` or ``HOST:PORT``; the default port is 1025 on this machine, else 25."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise NoService(f"{text!r} is not a mail server, expected HOST or HOST:PORT: {error}") from error
    if not host or port == 0 or parts.netloc != text:
        raise NoService(f"{text!r} is not a mail server, expected HOST or HOST:PORT")
    return SmtpServer(host, port or (1025 if _is_this_machine(host) else 25))


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
