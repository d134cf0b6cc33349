"""The service of a test session: the one that options name, or a daemon that we start and stop with pytest."""

import ipaddress
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

_START_SECONDS = 30
_STOP_SECONDS = 10
_MAX_LOG_CHARACTERS = 4000
_SETTINGS = {
    "TMPMAILD_HTTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
    "TMPMAILD_LOG__LEVEL": "warning",
    "TMPMAILD_CONTROL__LISTEN": "off",
}
_places = re.compile(r"HTTP on (\S+)\n *SMTP on (\S+)\n").search


class NoService(Exception):
    """There is no service to use; the text says why."""


class SmtpServer(NamedTuple):
    """Where to send mail."""

    host: str
    port: int


class Service(NamedTuple):
    """Where the API and the mail server are; an embedded one is never behind a proxy."""

    url: str
    smtp: SmtpServer
    is_embedded: bool = False


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
    return Service(url, _smtp_server(_option(config, "tmpmaild_smtp") or _in_brackets(host)))


def _option(config: pytest.Config, name: str) -> str:
    found = config.getoption(name) or config.getini(name) or os.environ.get(name.upper(), "")
    return str(found).strip()


def _smtp_server(text: str) -> SmtpServer:
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


@contextmanager
def embedded(folder: Path, *, accept_unknown: bool) -> Iterator[Service]:
    """Run a daemon on free ports, its database and its log in a folder. Raises ``NoService`` if it does not start."""
    (folder / "tmpmaild.toml").touch()  # or the machine's own configuration would be read
    log = folder / "stderr.txt"
    # A process group of its own: ctrl-C must not stop it before the inboxes are deleted. Its stdin ends when we do.
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "tmpmaild", "serve", "--stop-with-stdin"],
            cwd=folder,
            env=_environment(folder, accept_unknown=accept_unknown),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            process_group=0,
        ) as process,
    ):
        try:
            yield _announced(process, log)
        finally:
            _stop(process)


def _environment(folder: Path, *, accept_unknown: bool) -> dict[str, str]:
    own = {
        "TMPMAILD_STORAGE__PATH": str(folder / "tmpmaild.db"),
        "TMPMAILD_SMTP__ACCEPT_UNKNOWN": "create" if accept_unknown else "reject",
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    return {**clean, **_SETTINGS, **own}


def _announced(process: "subprocess.Popen[str]", log: Path) -> Service:
    """Wait until the banner says where the daemon listens."""
    too_late = threading.Timer(_START_SECONDS, process.kill)
    too_late.start()
    try:
        banner = ""
        while (places := _places(banner)) is None:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                said = log.read_text(errors="replace")[-_MAX_LOG_CHARACTERS:]
                raise NoService(f"the embedded daemon did not start (exit {process.wait()}); it said:\n{said}")
            banner += line
    finally:
        too_late.cancel()
    return Service(f"http://{places[1]}", _smtp_server(places[2]), is_embedded=True)


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
