"""All sockets that the daemon listens on, and the SMTP certificate.

Sockets that systemd passes (sd_listen_fds(3)) stay open across a restart, so no client is refused. Other sockets are
bound as configured.
"""

import errno
import logging
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from tmpmaild.config.settings import Config, Smtp
from tmpmaild.config.validators import Endpoint, parse_endpoint
from tmpmaild.errors import CannotListen, ConfigError, StartError
from tmpmaild.metrics import Gauge, Metric

# A name may resolve to addresses that this machine does not have, such as ::1 without IPv6, or another machine's
# address.
_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_TCP: Final = (socket.AF_INET, socket.AF_INET6)
FAMILIES: Final = {"http": (*_TCP, socket.AF_UNIX), "smtp": _TCP, "smtps": _TCP, "metrics": (*_TCP, socket.AF_UNIX)}
"""The names of passed sockets: the section whose ``listen`` is replaced, or smtps for ``smtp.tls_listen``."""

_FIRST_DESCRIPTOR: Final = 3
_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: dates are checked elsewhere
CREDENTIALS: Final = Path("/run/credentials")
"""The folder that contains the files that systemd provides with ``LoadCredential=``."""
_MISMATCHES: Final = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}

log = logging.getLogger(__name__)


class Sockets(NamedTuple):
    """The listening sockets."""

    http: list[socket.socket]
    smtp: list[socket.socket]
    smtps: list[socket.socket]
    metrics: list[socket.socket]


def bind(config: Config) -> Sockets:
    """Bind all sockets; if any of them cannot be bound, close the others and raise ``StartError``."""
    taken_over = take_passed(os.environ)
    if "smtps" in taken_over and not config.smtp.tls_certificate:
        raise StartError("passed socket 'smtps': smtp.tls_certificate and smtp.tls_key must be set for it")
    sockets = Sockets(*(taken_over.get(name, []) for name in Sockets._fields))
    metrics = [config.metrics.listen] if config.metrics.listen else []
    places = {
        "http.listen": config.http.listen,
        "smtp.listen": config.smtp.listen,
        "smtp.tls_listen": config.smtp.tls_listen,
        "metrics.listen": metrics,
    }
    for bound, (key, texts) in zip(sockets, places.items(), strict=True):
        try:
            if not bound:
                bound.extend(bind_all(texts))
        except CannotListen as error:
            for listener in chain.from_iterable(sockets):
                listener.close()
            raise CannotListen(f"{key}: {error}") from error
    return sockets


def names(sockets: Iterable[socket.socket]) -> list[str]:
    """Return the addresses that clients connect to."""
    return [name(one) for one in sockets]


def ports(sockets: Sockets) -> frozenset[int]:
    """Return the TCP ports of all sockets."""
    return frozenset(one.getsockname()[1] for one in chain.from_iterable(sockets) if one.family in _TCP)


def name(listener: socket.socket) -> str:
    """Return the address that a client connects to, with the port that was assigned."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"


def bind_all(texts: Sequence[str]) -> list[socket.socket]:
    """Bind all endpoints, or no endpoint if any of them fails; a name is bound at each of its addresses.

    Raises ``CannotListen`` with the endpoint that cannot be bound. Without IPv6 on this host, ``[::]`` is left out if
    0.0.0.0 is also listed.
    """
    endpoints = {text: parse_endpoint(text) for text in texts}
    sockets: list[socket.socket] = []
    for text, endpoint in endpoints.items():
        try:
            sockets += _bind(endpoint)
        except OSError as error:
            if error.errno in _NOT_OURS and _has_ipv4_twin(endpoint, endpoints.values()):
                log.warning("not listening on %s, because this machine has no IPv6: %s", text, error.strerror)
                continue
            for bound in sockets:
                bound.close()
            reason = f"{error.strerror or error}{_hint(endpoint, error)}"
            raise CannotListen(f"cannot listen on {text}: {reason}") from error
    return sockets


def _hint(endpoint: Endpoint, error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return "; this machine does not have this address"
    if error.errno == errno.EACCES and endpoint.port:
        return "; a port below 1024 requires root or CAP_NET_BIND_SERVICE, which the systemd unit grants"
    return ""


def reachable(name: str) -> str:
    """Convert the name of a socket into an address that a client on this machine can connect to."""
    host, _, port = name.rpartition(":")
    return f"{ {'0.0.0.0': '127.0.0.1', '[::]': '[::1]'}.get(host, host) }:{port}"  # noqa: S104 - only compared


def _has_ipv4_twin(endpoint: Endpoint, others: Iterable[Endpoint]) -> bool:
    return endpoint.host == "::" and Endpoint(host="0.0.0.0", port=endpoint.port) in others  # noqa: S104


def _bind(endpoint: Endpoint) -> list[socket.socket]:
    if endpoint.path:
        return [_bind_unix(endpoint.path)]
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    missing: list[OSError] = []
    with ExitStack() as until_all_are:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                bound.append(until_all_are.enter_context(_bind_address(family, address)))
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise
                missing.append(error)
        if not bound:
            raise missing[0]
        until_all_are.pop_all()
    return bound


def _bind_address(family: int, address: tuple[Any, ...]) -> socket.socket:
    with ExitStack() as unbound:
        listener = unbound.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # the operator may list 0.0.0.0 too
        listener.bind(address)
        unbound.pop_all()
    return listener


def _bind_unix(path: str) -> socket.socket:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(Path(path).stat().st_mode):  # stale: if it were in use, the database would be locked
            Path(path).unlink()
    with ExitStack() as unbound:
        listener = unbound.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(path)
        os.chmod(path, 0o660)  # noqa: PTH101 - a proxy in the socket's group may connect
        unbound.pop_all()
    return listener


def take_passed(environ: MutableMapping[str, str]) -> dict[str, list[socket.socket]]:
    """Return the passed sockets by name; remove their variables, and prevent child processes from inheriting them.

    Raises a ``ConfigError`` that lists each descriptor that does not match its name.
    """
    process, count, names = (environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if process != str(os.getpid()) or not count.isdecimal():
        return {}
    descriptors = range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count))
    named = list(zip(descriptors, names.split(":") + [""] * len(descriptors), strict=False))
    mistakes = [f"passed socket {name!r}: {wrong}" for number, name in named if (wrong := _mistake(number, name))]
    if mistakes:
        raise ConfigError(mistakes)
    found = _sockets(named)
    if found:
        log.info("listening for %s on sockets passed by systemd", ", ".join(found))
    return found


def _mistake(descriptor: int, name: str) -> str:
    """Return the reason why a descriptor cannot be used, or ""."""
    if name not in FAMILIES:
        return f"expected FileDescriptorName= of its unit to be one of {', '.join(FAMILIES)}"
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return "is not a socket"
        with socket.socket(fileno=os.dup(descriptor)) as passed:
            if passed.family not in FAMILIES[name]:
                return f"expected {'TCP' if FAMILIES[name] == _TCP else 'TCP or a Unix socket'}"
            if passed.type != socket.SOCK_STREAM or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return "expected a listening stream socket (ListenStream=, Accept=no)"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _sockets(named: Iterable[tuple[int, str]]) -> dict[str, list[socket.socket]]:
    found: dict[str, list[socket.socket]] = {}
    for descriptor, name in named:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
        found.setdefault(name, []).append(socket.socket(fileno=descriptor))
    return found


class Certificate(NamedTuple):
    """The TLS context for SMTP (None without a certificate), and details of the certificate in ``file``."""

    tls: ssl.SSLContext | None = None
    file: str = ""
    serial: str = ""
    expires_at_seconds: int = 0


def certificate(config: Config) -> Certificate:
    """Load the configured certificate. Call this in a thread, since it reads files. Raises ``StartError``."""
    file = config.smtp.tls_certificate
    if not file:
        return Certificate()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, config.smtp)
    found: dict[str, Any] = {}
    with suppress(OSError):  # such as a certificate that fails verification (ssl.SSLError)
        found = presented(context, file)
    expires_at_seconds = ssl.cert_time_to_seconds(found["notAfter"]) if found else 0
    return Certificate(context, file, found.get("serialNumber", ""), expires_at_seconds)


def load_certificate(context: ssl.SSLContext, smtp: Smtp) -> None:
    """Load the configured certificate and its key. Raises ``StartError``, which specifies the file that cannot be used.

    An encrypted key cannot be used.
    """
    try:
        # Without a password, OpenSSL would ask for one on the terminal, and a reload would wait for it.
        context.load_cert_chain(smtp.tls_certificate, smtp.tls_key, password="")
    except OSError as error:  # including ssl.SSLError
        raise StartError(_fault(smtp.tls_certificate, smtp.tls_key, error)) from error


def presented(server: ssl.SSLContext, file: str) -> dict[str, Any]:
    """Return the certificate in ``file`` as a client sees it (``getpeercert``). Raises ``ssl.SSLError``."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(file)  # trust the certificate itself, regardless of its issuer
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server)]
    for _ in range(4):
        for end in reversed(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1].getpeercert() or {}


class ShownCertificate:
    """The certificate that SMTP presents: its expiry, and whether a reload has changed it."""

    def __init__(self, shown: Certificate) -> None:
        self._shown = shown

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metric for the certificate's expiry."""
        help_text = "Expiry of the SMTP certificate, as Unix time; 0 without a certificate."
        return (Gauge("smtp_certificate_expires_timestamp_seconds", help_text, lambda: self._shown.expires_at_seconds),)

    def change(self, shown: Certificate) -> str:
        """Record the new certificate; return a notice if it is the same as the previous certificate, else ""."""
        before, self._shown = self._shown, shown
        if not shown.serial or shown.serial != before.serial:
            return ""
        until = time.strftime("%Y-%m-%d", time.gmtime(shown.expires_at_seconds))
        text = f"the certificate is unchanged, valid until {until}"
        if Path(shown.file).is_relative_to(CREDENTIALS):
            text += "; systemd provides a renewed certificate only after a restart"
        return text


def _fault(certificate: str, key: str, error: OSError) -> str:
    """Return the setting and file at fault, which the error itself does not specify, and the reason."""
    named_certificate, named_key = f"smtp.tls_certificate {certificate}", f"smtp.tls_key {key}"
    for named, file in ((named_certificate, certificate), (named_key, key)):
        try:
            Path(file).open("rb").close()
        except OSError as unreadable:
            return f"{named}: {unreadable.strerror}"
    reason = getattr(error, "reason", None) or ""
    if reason in _MISMATCHES:
        return f"{named_key}: does not match {named_certificate}"
    if "_TOO_" in reason:  # the key is too short, or the digest too weak
        return f"{named_certificate}: {error}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except OSError:
        return f"{named_certificate}: expected a certificate in PEM"
    return f"{named_key}: expected a private key in PEM, without a password"
