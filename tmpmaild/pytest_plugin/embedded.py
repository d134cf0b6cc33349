"""The daemon of a test session: its settings, its start, where it listens, why it ended."""

import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tmpmaild.pytest_plugin.services import NoService, Service, smtp_server

if TYPE_CHECKING:
    from tmpmaild.pytest_plugin.zones import Zones

_START_SECONDS = 30
_STOP_SECONDS = 10
_MAX_LOG_CHARACTERS = 4000
_DEFAULTS = {
    "http.listen": "127.0.0.1:0",
    "smtp.listen": "127.0.0.1:0",
    "smtp.auth": "any",
    "smtp.faults": "true",
    "smtp.keep_refusals": "true",
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

_places = re.compile(r"HTTP on (.+)\n *SMTP on (.+)\n(?: *SMTPS on (.+)\n)?").search
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - read, not bound


class Wanted(NamedTuple):
    """What the ini keys say of the embedded daemon; ``ini`` is where they are."""

    domains: tuple[str, ...] = ()
    config_file: Path | None = None
    accept_unknown: bool = False
    has_tls: bool = False
    zone_file: Path | None = None
    ini: str = "pytest.ini"


def wanted(config: pytest.Config) -> Wanted:
    """Return what the ini keys say. A relative file is meant from the folder of the ini file."""
    folder = config.inipath.parent if config.inipath else config.rootpath
    file_name, zone_name = (config.getini(key).strip() for key in ("tmpmaild_config", "tmpmaild_dns"))
    given = (item.split(",") for item in config.getini("tmpmaild_domain"))
    return Wanted(
        tuple(domain for domains in given for domain in domains if domain),
        folder / file_name if file_name else None,
        accept_unknown=config.getini("tmpmaild_accept_unknown"),
        has_tls=config.getini("tmpmaild_tls"),
        zone_file=folder / zone_name if zone_name else None,
        ini=str(config.inipath),
    )


class Tls(NamedTuple):
    """The files of a certificate, and of the authority that issued it."""

    certificate: Path
    key: Path
    ca: Path


def issued(folder: Path) -> Tls:
    """Issue a certificate for the names under which this machine is reached, also from its containers.

    Raises ``NoService`` if trustme is not installed.
    """
    try:
        import trustme  # noqa: PLC0415 - an extra
    except ImportError:
        raise NoService("tmpmaild_tls needs trustme: pip install trustme") from None
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", "::1", "host.docker.internal", "host.containers.internal")
    tls = Tls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(tls.certificate, append=number > 0)
    issued.private_key_pem.write_to_path(tls.key)
    authority.cert_pem.write_to_path(tls.ca)
    return tls


def served_zones(file: Path) -> "Zones":
    """Serve the zones of a master file. Raises ``NoService``."""
    try:
        from dns.exception import DNSException  # noqa: PLC0415 - an extra

        from tmpmaild.pytest_plugin.zones import Zones  # noqa: PLC0415 - needs the extra
    except ImportError:
        raise NoService("tmpmaild_dns needs pip install 'dkimpy[ed25519]' dnspython publicsuffixlist pyspf") from None
    try:
        return Zones(file.read_text("utf-8"))
    except (OSError, ValueError, DNSException) as error:
        raise NoService(f"tmpmaild_dns: {file}: {error}") from error


@contextmanager
def daemon(folder: Path, wanted: Wanted) -> Iterator[Service]:
    """Run a daemon, its database and its log in a folder. Raises ``NoService`` if it does not start."""
    in_file = _settings_in(wanted.config_file) if wanted.config_file else {}
    if wanted.has_tls and "smtp.tls_certificate" in in_file:
        other = "tmpmaild_tls makes one too; remove one of the two"
        raise NoService(f"{wanted.config_file}: smtp.tls_certificate: {other}")
    tls = issued(folder) if wanted.has_tls else None
    config_file = wanted.config_file or folder / "tmpmaild.toml"
    if wanted.config_file is None:
        config_file.touch()  # or the machine's own configuration would be read
    log = folder / "stderr.txt"
    # A process group of its own: ctrl-C must not stop it before the inboxes are deleted. Its stdin ends when we do.
    with (
        served_zones(wanted.zone_file) if wanted.zone_file else nullcontext() as zones,
        log.open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - our interpreter, our program
            [sys.executable, "-P", "-m", "tmpmaild", "serve", "--stop-with-stdin", "--config", config_file],
            cwd=folder,
            env=_environment(folder, wanted, tls, in_file, zones),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            process_group=0,
        ) as process,
    ):
        try:
            running = _Running(process, log)
            places = running.announced(wanted, has_smtps=bool(tls or in_file.get("smtp.tls_listen")))
            yield Service(
                f"http://{_http_place(places[1].split(', '), wanted)}",
                smtp_server(_reachable(places[2].split(", "))),
                smtps=smtp_server(_reachable(places[3].split(", "))) if places[3] else None,
                is_embedded=True,
                ca_file=tls.ca if tls else None,
                ended=running.ending,
            )
        finally:
            _stop(process)


class _Running(NamedTuple):
    """A daemon's process and its log."""

    process: "subprocess.Popen[str]"
    log: Path

    def announced(self, wanted: Wanted, *, has_smtps: bool) -> "re.Match[str]":
        """Wait until the banner says where the daemon listens."""
        too_late = threading.Timer(_START_SECONDS, self.process.kill)
        too_late.start()
        try:
            banner = ""
            while (places := _places(banner)) is None or (has_smtps and places[3] is None):
                line = self.process.stdout.readline() if self.process.stdout else ""
                if not line:
                    said = self._said().replace("TMPMAILD_DOMAINS: domains", f"{wanted.ini}: tmpmaild_domain")
                    status = self.process.wait()
                    raise NoService(f"the embedded daemon did not start (exit {status}); it said:\n{said}")
                banner += line
        finally:
            too_late.cancel()
        return places

    def ending(self) -> str:
        """Return how the daemon ended; nothing while it runs."""
        status = self.process.poll()
        if status is None:
            return ""
        said = self._said() or "nothing"
        return f"the embedded daemon ended before the tests did (exit {status}); it said:\n{said}"

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-_MAX_LOG_CHARACTERS:]


def _environment(
    folder: Path, wanted: Wanted, tls: Tls | None, in_file: Mapping[str, object], zones: "Zones | None"
) -> dict[str, str]:
    """Return the machine's environment with our settings: those of the file go before defaults, nothing before ours."""
    defaults = _DEFAULTS if tls is None else _DEFAULTS | {"smtp.tls_listen": "127.0.0.1:0"}
    settings = {key: value for key, value in defaults.items() if key not in in_file}
    settings |= {"control.listen": "off", "log.format": "text"}  # the banner is not written with json
    if "storage.url" not in in_file:
        settings["storage.path"] = str(folder / "tmpmaild.db")
    if wanted.domains:
        settings["domains"] = ",".join(wanted.domains)
    if zones is not None:
        settings["senders.resolver"] = zones.place
    if wanted.accept_unknown:
        settings["smtp.accept_unknown"] = "create"
    if tls is not None:
        settings |= {"smtp.tls_certificate": str(tls.certificate), "smtp.tls_key": str(tls.key)}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    return clean | {_variable(key): value for key, value in settings.items()}


def _variable(key: str) -> str:
    return f"TMPMAILD_{key.upper().replace('.', '__')}"


def _settings_in(config_file: Path) -> dict[str, object]:
    """Return the values of a file by dotted key; what is wrong with it is the daemon's to say."""
    try:
        tree = tomllib.loads(config_file.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    sections = {name: section for name, section in tree.items() if isinstance(section, dict)}
    return tree | {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}


def _http_place(listening: list[str], wanted: Wanted) -> str:
    over_tcp = [place for place in listening if not place.startswith("unix:")]
    if not over_tcp:
        raise NoService(f"{wanted.config_file}: http.listen: the tests need a HOST:PORT, found only {listening[0]!r}")
    return _reachable(over_tcp)


def _reachable(listening: list[str]) -> str:
    host, _, port = listening[0].rpartition(":")
    return f"{_LOOPBACKS.get(host, host)}:{port}"


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
