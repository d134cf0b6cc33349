"""The service for a test session: a configured service, or a daemon that is started for the session."""

import ipaddress
import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from tmpmaild.pytest_plugin.zones import Zones

_START_SECONDS = 30
_STOP_SECONDS = 10
_MAX_LOG_CHARACTERS = 4000


class NoService(Exception):
    """Raised if no service can be used; the message states the reason."""


class SmtpServer(NamedTuple):
    """The address of an SMTP server."""

    host: str
    port: int


class Service(NamedTuple):
    """The addresses of the API and the SMTP server.

    ``smtps`` listens with implicit TLS; ``ca_file`` contains the authority that issued the certificate. ``ended``
    returns the reason why the service has stopped, or "" while it runs.
    """

    url: str
    smtp: SmtpServer
    smtps: SmtpServer | None = None
    ca_file: Path | None = None
    ended: Callable[[], str] = str


def given(config: pytest.Config) -> Service | None:
    """Return the service set by an option, an ini key or the environment, in this order. Raises ``NoService``."""
    url = _option(config, "tmpmaild_url")
    if not url:
        return None
    from tmpmaild.client.transport import service_url  # noqa: PLC0415 - not needed for an embedded daemon

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
    """Read ``HOST`` or ``HOST:PORT``; the default port is 1025 if the host is this machine, otherwise 25."""
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


class Wanted(NamedTuple):
    """The ini keys for the embedded daemon; ``ini`` is the path of the ini file."""

    domains: tuple[str, ...] = ()
    config_file: Path | None = None
    accept_unknown: bool = False
    catch_all: bool = False
    has_tls: bool = False
    zone_file: Path | None = None
    ini: str = "pytest.ini"


def wanted(config: pytest.Config) -> Wanted:
    """Read the ini keys. Relative file names are resolved from the folder of the ini file."""
    folder = config.inipath.parent if config.inipath else config.rootpath
    file_name, zone_name = (config.getini(key).strip() for key in ("tmpmaild_config", "tmpmaild_dns"))
    given = (item.split(",") for item in config.getini("tmpmaild_domain"))
    return Wanted(
        tuple(domain for domains in given for domain in domains if domain),
        folder / file_name if file_name else None,
        catch_all=config.getini("tmpmaild_catch_all"),
        accept_unknown=config.getini("tmpmaild_accept_unknown"),
        has_tls=config.getini("tmpmaild_tls"),
        zone_file=folder / zone_name if zone_name else None,
        ini=str(config.inipath),
    )


class Tls(NamedTuple):
    """The files of a certificate and of the authority that issued it."""

    certificate: Path
    key: Path
    ca: Path


@contextmanager
def daemon(folder: Path, wanted: Wanted) -> Iterator[Service]:
    """Run a daemon with its database and log in a folder. Raises ``NoService`` if it does not start."""
    in_file = _settings_in(wanted.config_file) if wanted.config_file else {}
    if wanted.has_tls and "smtp.tls_certificate" in in_file:
        other = "tmpmaild_tls also creates a certificate; remove one of the two settings"
        raise NoService(f"{wanted.config_file}: smtp.tls_certificate: {other}")
    tls = issued(folder) if wanted.has_tls else None
    with served_zones(wanted.zone_file) if wanted.zone_file else nullcontext() as zones:
        environment = _environment(folder, wanted, tls, in_file, zones)
        options = ["--catch-all"] if wanted.catch_all else []
        options += ["--config", str(wanted.config_file)] if wanted.config_file else []
        with _started(folder, options, environment) as running:
            places = running.announced(wanted)
            if places["http"].startswith("unix:"):
                place = places["http"]
                raise NoService(f"{wanted.config_file}: http.listen: the tests need a HOST:PORT, found only {place!r}")
            yield Service(
                places["http"],
                smtp_server(places["smtp"]),
                smtps=smtp_server(places["smtps"]) if places["smtps"] else None,
                ca_file=tls.ca if tls else None,
                ended=running.ending,
            )


@contextmanager
def _started(folder: Path, options: Sequence[str], environment: Mapping[str, str]) -> Iterator["_Running"]:
    """Run the process in its own process group, because ctrl-C must not stop it before the inboxes are deleted.

    Its standard input closes when this process ends.
    """
    command = [sys.executable, "-P", "-m", "tmpmaild", "serve", "--for-tests", *options]
    log = folder / "stderr.txt"
    pipe = subprocess.PIPE
    with (
        log.open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - runs our program with our interpreter
            command,
            cwd=folder,
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            process_group=0,
            encoding="utf-8",
        ) as process,
    ):
        try:
            yield _Running(process, log)
        finally:
            _stop(process)


class _Running(NamedTuple):
    """A daemon's process and its log."""

    process: "subprocess.Popen[str]"
    log: Path

    def announced(self, wanted: Wanted) -> dict[str, str]:
        """Wait until the daemon prints its listening addresses, and return them. Raises ``NoService``."""
        too_late = threading.Timer(_START_SECONDS, self.process.kill)
        too_late.start()
        try:
            line = self.process.stdout.readline() if self.process.stdout else ""
        finally:
            too_late.cancel()
        if not line:
            output = self._output().replace("TMPMAILD_DOMAINS: domains", f"{wanted.ini}: tmpmaild_domain")
            raise NoService(f"the embedded daemon did not start (exit {self.process.wait()}); its output:\n{output}")
        places: dict[str, str] = json.loads(line)
        return places

    def ending(self) -> str:
        """Return a description of how the daemon exited, or "" while it runs."""
        status = self.process.poll()
        if status is None:
            return ""
        output = self._output() or "nothing"
        return f"the embedded daemon stopped before the tests finished (exit {status}); its output:\n{output}"

    def _output(self) -> str:
        return self.log.read_text(errors="replace", encoding="utf-8")[-_MAX_LOG_CHARACTERS:]


def _environment(
    folder: Path, wanted: Wanted, tls: Tls | None, in_file: Mapping[str, object], zones: "Zones | None"
) -> dict[str, str]:
    """Return the environment with our settings, which override those in the file."""
    settings = {"control.listen": "off"}
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
        settings |= {} if "smtp.tls_listen" in in_file else {"smtp.tls_listen": "127.0.0.1:0"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    return clean | {f"TMPMAILD_{key.upper().replace('.', '__')}": value for key, value in settings.items()}


def _settings_in(config_file: Path) -> dict[str, object]:
    """Return the values in a file by dotted key; the daemon reports errors in it."""
    try:
        tree = tomllib.loads(config_file.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    sections = {name: section for name, section in tree.items() if isinstance(section, dict)}
    return tree | {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}


def issued(folder: Path) -> Tls:
    """Issue a certificate for this machine's names, including the names that its containers use for it.

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

        from tmpmaild.pytest_plugin.zones import Zones  # noqa: PLC0415 - imports packages that the extra installs
    except ImportError:
        raise NoService("tmpmaild_dns needs pip install 'dkimpy[ed25519]' dnspython publicsuffixlist pyspf") from None
    try:
        return Zones(file.read_text("utf-8"))
    except (OSError, ValueError, DNSException) as error:
        raise NoService(f"tmpmaild_dns: {file}: {error}") from error


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
