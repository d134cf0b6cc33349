"""Checks whether browsers can reach the service at ``http.public_url`` and accept its certificate."""

import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from tmpmaild.cli.doctor import Result, ok, problem, warning

CHECK: Final = "site"
_STEP_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 10.0
_OK: Final = 200


def check(url: str, seconds: float = _ALL_SECONDS) -> Iterator[Result]:
    """Request ``/healthz`` at an ``https`` URL as a browser would; other URLs have no certificate to check.

    A thread sends the request, because name lookups have no time limit and a response may arrive byte by byte.
    """
    if not url.startswith("https://"):
        return
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(_request_health(url)), daemon=True)
    thread.start()
    thread.join(seconds)
    yield found[0] if found else _unreachable(url, "no response in time")


def _request_health(url: str) -> Result:
    parts = urlsplit(url)
    connection = HTTPSConnection(
        parts.hostname or "", parts.port, timeout=_STEP_SECONDS, context=ssl.create_default_context()
    )
    try:
        connection.request("GET", f"{parts.path}/healthz")
        status = connection.getresponse().status
    except ssl.SSLCertVerificationError as error:
        text = f"{url}: browsers reject its certificate: {error.verify_message}"
        return problem(CHECK, text, "configure the proxy with a certificate from a public authority for this name")
    except ssl.SSLError as error:
        text = f"{url}: the TLS handshake fails: {error.reason or error}"
        return problem(CHECK, text, "configure the proxy to serve this name over HTTPS, with a certificate")
    except (OSError, UnicodeError) as error:
        return _unreachable(url, getattr(error, "strerror", "") or str(error))
    except HTTPException:
        return problem(
            CHECK, f"{url}: the server does not speak HTTP", "configure the proxy to serve this name over HTTPS"
        )
    finally:
        connection.close()
    if status != _OK:
        text = f"{url}: its certificate is accepted, but {parts.path}/healthz returns status {status}"
        return problem(CHECK, text, "configure the proxy to forward requests and Host to http.listen")
    return ok(CHECK, f"{url}: responds, and its certificate is accepted here")


def _unreachable(url: str, why: str) -> Result:
    """Return only a warning: behind NAT a machine may be unable to reach its own public address."""
    advice = (
        f"start the proxy and publish the name; if both are done, test from a different network: curl -I {url}/healthz"
    )
    return warning(CHECK, f"{url}: cannot be reached from here: {why}", advice)
