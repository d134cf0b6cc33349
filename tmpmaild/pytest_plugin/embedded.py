"""The daemon of a test session: its settings, its start, where it listens, why it ended."""

import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tmpmaild.pytest_plugin.services import NoService, Service, smtp_server

_START_SECONDS = 30
_STOP_SECONDS = 10
_MAX_LOG_CHARACTERS = 4000
_DEFAULTS = {
    "http.listen": "127.0.0.1:0",
    "smtp.listen": "127.0.0.1:0",
    "smtp.auth": "any",
    "smtp.faults": "true",
    "smtp.max_message_bytes": "104857600",
    "smtp.max_inflight_bytes": "536870912",
    "addresses.max_messages": "10000",
    "addresses.max_bytes": "10737418240",
    "addresses.max_share_per_client": "1.0",
    "addresses.max_lifetime_seconds": "315360000",
    "rate_limit.requests_per_minute": "0",
    "limits.exempt": "0.0.0.0/0,::/0",
    "log.level": "warning",
}
"""The limits of a tester: the application under test is trusted, and is not slowed down."""

_places = re.compile(r"HTTP on (.+)\n *SMTP on (.+)\n").search
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - read, not bound


class Wanted(NamedTuple):
    """What the ini keys say of the embedded daemon; ``ini`` is where they are."""

    domains: tuple[str, ...] = ()
    config_file: Path | None = None
    accept_unknown: bool = False
    has_tls: bool = False
    ini: str = "pytest.ini"


class Tls(NamedTuple):
    """The files of a certificate, and of the authority that issued it."""

    certificate: Path
    key: Path
    ca: Path


def wanted(config: pytest.Config) -> Wanted:
    """Return what the ini keys say. A relative file is meant from the folder of the ini file."""
    file_name = config.getini("tmpmaild_config").strip()
    given = (item.split(",") for item in config.getini("tmpmaild_domain"))
    return Wanted(
        tuple(domain for domains in given for domain in domains if domain),
        (config.inipath.parent if config.inipath else config.rootpath) / file_name if file_name else None,
        accept_unknown=config.getini("tmpmaild_accept_unknown"),
        has_tls=config.getini("tmpmaild_tls"),
        ini=str(config.inipath),
    )


@contextmanager
def daemon(folder: Path, wanted: Wanted) -> Iterator[Service]:
    """Run a daemon, its database and its log in a folder. Raises ``NoService`` if it does not start."""
    tls = _issued(folder) if wanted.has_tls else None
    config_file = wanted.config_file or folder / "tmpmaild.toml"
    if wanted.config_file is None:
        config_file.touch()  # or the machine's own configuration would be read
    log = folder / "stderr.txt"
    # A process group of its own: ctrl-C must not stop it before the inboxes are deleted. Its stdin ends when we do.
    with (
        log.open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - our interpreter, our program
            [sys.executable, "-P", "-m", "tmpmaild", "serve", "--stop-with-stdin", "--config", config_file],
            cwd=folder,
            env=_environment(folder, wanted, tls),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            process_group=0,
        ) as process,
    ):
        try:
            yield _announced(process, log, wanted, tls)
        finally:
            _stop(process)


def _environment(folder: Path, wanted: Wanted, tls: Tls | None) -> dict[str, str]:
    """Return the machine's environment with our settings: those of the file go before defaults, nothing before ours."""
    in_file = _keys(wanted.config_file) if wanted.config_file else set()
    settings = {key: value for key, value in _DEFAULTS.items() if key not in in_file}
    settings |= {"storage.path": str(folder / "tmpmaild.db"), "control.listen": "off"}
    if wanted.domains:
        settings["domains"] = ",".join(wanted.domains)
    if wanted.accept_unknown:
        settings["smtp.accept_unknown"] = "create"
    if tls is not None:
        settings |= {"smtp.tls_certificate": str(tls.certificate), "smtp.tls_key": str(tls.key)}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    return clean | {_variable(key): value for key, value in settings.items()}


def _variable(key: str) -> str:
    return f"TMPMAILD_{key.upper().replace('.', '__')}"


def _keys(config_file: Path) -> set[str]:
    """Return the dotted keys in a file; what is wrong with it is the daemon's to say."""
    try:
        tree = tomllib.loads(config_file.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return set()
    sections = {name: section for name, section in tree.items() if isinstance(section, dict)}
    return set(tree) | {f"{name}.{key}" for name, section in sections.items() for key in section}


def _issued(folder: Path) -> Tls:
    """Issue a certificate for the names under which this machine is reached, also from its containers."""
    try:
        import trustme  # noqa: PLC0415 - an extra
    except ImportError:
        raise NoService('tmpmaild_tls needs trustme: pip install "tmpmaild[tls]"') from None
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", "::1", "host.docker.internal", "host.containers.internal")
    tls = Tls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(tls.certificate, append=number > 0)
    issued.private_key_pem.write_to_path(tls.key)
    authority.cert_pem.write_to_path(tls.ca)
    return tls


def _announced(process: "subprocess.Popen[str]", log: Path, wanted: Wanted, tls: Tls | None) -> Service:
    """Wait until the banner says where the daemon listens."""
    too_late = threading.Timer(_START_SECONDS, process.kill)
    too_late.start()
    try:
        banner = ""
        while (places := _places(banner)) is None:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                said = _said(log).replace("TMPMAILD_DOMAINS: domains", f"{wanted.ini}: tmpmaild_domain")
                raise NoService(f"the embedded daemon did not start (exit {process.wait()}); it said:\n{said}")
            banner += line
    finally:
        too_late.cancel()
    smtp = smtp_server(_reachable(places[2].split(", ")))
    return Service(
        f"http://{_http_place(places[1].split(', '), wanted)}",
        smtp,
        is_embedded=True,
        ca_file=tls.ca if tls else None,
        ended=lambda: _ending(process, log),
    )


def _http_place(listening: list[str], wanted: Wanted) -> str:
    over_tcp = [place for place in listening if not place.startswith("unix:")]
    if not over_tcp:
        raise NoService(f"{wanted.config_file}: http.listen: the tests need a HOST:PORT, found only {listening[0]!r}")
    return _reachable(over_tcp)


def _reachable(listening: list[str]) -> str:
    host, _, port = listening[0].rpartition(":")
    return f"{_LOOPBACKS.get(host, host)}:{port}"


def _ending(process: "subprocess.Popen[str]", log: Path) -> str:
    """Say how the daemon ended; nothing while it runs."""
    status = process.poll()
    if status is None:
        return ""
    return f"the embedded daemon ended before the tests did (exit {status}); it said:\n{_said(log) or 'nothing'}"


def _said(log: Path) -> str:
    return log.read_text(errors="replace")[-_MAX_LOG_CHARACTERS:]


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
