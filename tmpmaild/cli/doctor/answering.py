"""Whether the listeners answer a client on this machine: SMTP by its greeting and EHLO, HTTP by ``/healthz``."""

import errno
import hashlib
import http.client
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress

from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.places import connectable
from tmpmaild.config.kinds import parse_endpoint
from tmpmaild.config.settings import Config
from tmpmaild.peers import belongs

_SECONDS = 5.0
_DONE, _OK = 250, 200
_SMTP, _HTTP = "SMTP answers", "HTTP answers"
_SEE_LOG = "journalctl -u tmpmaild"


def check(config: Config, where: Mapping[str, Sequence[str]], leaf: bytes | None) -> Iterator[Finding]:
    """Connect to each place of the service. ``leaf`` is its certificate in the file, as DER, None if it has none."""
    for name in where.get("smtp.listen", ()):
        yield _smtp(name, leaf, _header(config, connectable(parse_endpoint(name))[0]))
    for name in where.get("smtp.tls_listen", ()):
        yield _smtp(name, leaf, _header(config, connectable(parse_endpoint(name))[0]), tls_first=True)
    for key in ("http.listen", "metrics.listen"):
        for name in where.get(key, ()):
            yield _http(name, config.http.allowed_hosts if key == "http.listen" else ())


def _header(config: Config, host: str) -> bytes:
    """Return the header that a trusted proxy must send before it is greeted, if this machine counts as one."""
    return b"PROXY UNKNOWN\r\n" if belongs(host, config.smtp.trusted_proxies) else b""


class _Sender(smtplib.SMTP):
    """A client that may have to send something, and to begin TLS, before the greeting comes."""

    def __init__(self, host: str, port: int, header: bytes, *, tls_first: bool) -> None:
        self._header = header
        self._tls_first = tls_first
        super().__init__(host, port, local_hostname="localhost", timeout=_SECONDS)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connection = socket.create_connection((host, port), timeout)
        connection.sendall(self._header)
        return _any_certificate().wrap_socket(connection) if self._tls_first else connection


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # what it shows is looked at, not trusted
    return context


def _smtp(name: str, leaf: bytes | None, header: bytes, *, tls_first: bool = False) -> Finding:
    try:
        host, port = connectable(parse_endpoint(name))
        with closing(_Sender(host, port, header, tls_first=tls_first)) as client:
            return _greeted(client, name, leaf)
    except smtplib.SMTPResponseException as error:
        return problem(_SMTP, f"{name}: {error.smtp_code} {_text(error.smtp_error)}", _SEE_LOG)
    except (OSError, smtplib.SMTPException) as error:
        return _untried(_SMTP, name, error) or problem(_SMTP, f"{name}: {_reason(error)}", _SEE_LOG)


def _greeted(client: smtplib.SMTP, name: str, leaf: bytes | None) -> Finding:
    code, _ = client.ehlo()
    if code != _DONE:
        return problem(_SMTP, f"{name}: EHLO is answered by {code}", _SEE_LOG)
    finding = _encrypted(client, name, leaf)
    with suppress(OSError, smtplib.SMTPException):
        client.quit()
    return finding


def _encrypted(client: smtplib.SMTP, name: str, leaf: bytes | None) -> Finding:
    """Compare the certificate in use with that of the file."""
    how = "TLS from the start" if isinstance(client.sock, ssl.SSLSocket) else "STARTTLS"
    if not isinstance(client.sock, ssl.SSLSocket):
        if not client.has_extn("starttls"):
            if leaf is None:
                return ok(_SMTP, f"{name}: greeting and EHLO, without STARTTLS")
            text = f"{name}: offers no STARTTLS, although a certificate is set"
            return warning(_SMTP, text, "systemctl reload tmpmaild")
        client.starttls(context=_any_certificate())
    assert isinstance(client.sock, ssl.SSLSocket)
    shown = client.sock.getpeercert(binary_form=True) or b""
    if leaf is not None and hashlib.sha256(shown).digest() != hashlib.sha256(leaf).digest():
        return warning(_SMTP, f"{name}: {how} with another certificate than the file's", "systemctl reload tmpmaild")
    return ok(_SMTP, f"{name}: greeting, EHLO and {how}")


def _http(name: str, allowed_hosts: Sequence[str]) -> Finding:
    host = allowed_hosts[0] if allowed_hosts else "localhost"
    try:
        with closing(_Client(name)) as client:
            client.request("GET", "/healthz", headers={"Host": host})
            status = client.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return _untried(_HTTP, name, error) or problem(_HTTP, f"{name}: {_reason(error)}", _SEE_LOG)
    if status != _OK:
        return problem(_HTTP, f"{name}: /healthz is answered by {status}", _SEE_LOG)
    return ok(_HTTP, f"{name}: /healthz")


def _untried(check: str, name: str, error: Exception) -> Finding | None:
    """Return a finding if the fault is not the service's: this machine or this user cannot connect there."""
    if isinstance(error, PermissionError) and name.startswith("unix:"):
        return ok(check, f"{name}: not tried, its mode lets only others connect, such as a proxy")
    if name.startswith("[::]:") and getattr(error, "errno", None) in (errno.EADDRNOTAVAIL, errno.ENETUNREACH):
        return ok(check, f"{name}: not tried, IPv6 is switched off on this machine")
    return None


class _Client(http.client.HTTPConnection):
    """A client that connects to TCP and to Unix sockets."""

    def __init__(self, name: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._endpoint = parse_endpoint(name)

    def connect(self) -> None:
        """Connect."""
        if not self._endpoint.path:
            self.sock = socket.create_connection(connectable(self._endpoint), _SECONDS)
            return
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._endpoint.path)


def _text(reply: bytes | str) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else reply


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
        return f"no answer within {_SECONDS:.0f} s"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
