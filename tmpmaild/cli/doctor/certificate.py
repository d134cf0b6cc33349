"""The certificate of STARTTLS: whether its key fits, which names it has, until when it is valid.

It is read by a TLS handshake in memory, as a sender would see it.
"""

import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tmpmaild.cli.doctor import files
from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.config.settings import Config, Smtp
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import load_certificate

_CHECK = "certificate"
_SOON_SECONDS = 14 * 86_400
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: the dates are looked at here


def check(config: Config, hostname: str, now_seconds: float | None = None) -> Iterator[Result]:
    """Look at the certificate that the configuration names. ``now_seconds`` is Unix time, by default the clock's."""
    if not config.smtp.tls_certificate:
        advice = "set smtp.tls_certificate and smtp.tls_key (docs/operations.md)"
        yield warning(_CHECK, "none, so senders transmit mail in clear text", advice)
        return
    file = config.smtp.tls_certificate
    if files.is_only_for_the_running_service(Path(file)):
        return  # as the check of the file says
    try:
        found = _shown(config.smtp)
    except (StartError, ssl.SSLError) as error:
        text = str(error) if isinstance(error, StartError) else f"{file}: not usable ({error})"
        yield problem(_CHECK, text, "correct the file or the setting")
        return
    yield _names(file, found, hostname)
    yield _dates(file, found, time.time() if now_seconds is None else now_seconds)


def leaf(config: Config) -> bytes | None:
    """Return the service's own certificate as DER, None if there is none that can be read."""
    if not config.smtp.tls_certificate:
        return None
    try:
        text = Path(config.smtp.tls_certificate).read_text("ascii", "replace")
        begin = text.index(ssl.PEM_HEADER)
        return ssl.PEM_cert_to_DER_cert(text[begin : text.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)])
    except (OSError, ValueError):
        return None


def covers(names: list[str], hostname: str) -> bool:
    """Return whether one of the names of a certificate is a host's (RFC 9525 §6.3)."""
    parent = "*." + hostname.partition(".")[2]
    return any(name.lower() in (hostname.lower(), parent.lower()) for name in names)


def _shown(smtp: Smtp) -> dict[str, Any]:
    """Return what a client sees of a certificate. Raises StartError and ssl.SSLError."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_certificate(server, smtp, password="")  # an encrypted key is refused, not asked for
    client.check_hostname = False
    client.load_verify_locations(smtp.tls_certificate)  # so that any authority's signature is trusted
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server)]
    for _ in range(4):
        for end in reversed(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1].getpeercert() or {}


def _names(file: str, found: dict[str, Any], hostname: str) -> Result:
    names = [value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"]
    if covers(names, hostname):
        return ok(_CHECK, f"{file}: is for {hostname}, its key fits")
    has = ", ".join(names) or "no name"
    return warning(
        _CHECK, f"{file}: is for {has}, not for {hostname}", "a certificate for the name in smtp.hostname and in the MX"
    )


def _dates(file: str, found: dict[str, Any], now_seconds: float) -> Result:
    begins, ends = (ssl.cert_time_to_seconds(found[name]) for name in ("notBefore", "notAfter"))
    if now_seconds < begins:
        return problem(_CHECK, f"{file}: is not valid before {_day(begins)}", "check the clock")
    if now_seconds >= ends:
        return problem(_CHECK, f"{file}: has expired on {_day(ends)}", "renew it")
    if ends - now_seconds < _SOON_SECONDS:
        return warning(_CHECK, f"{file}: expires soon, on {_day(ends)}", "look whether its renewal works")
    return ok(_CHECK, f"{file}: valid until {_day(ends)}")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
