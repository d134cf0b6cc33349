"""Whether browsers reach the service at ``http.public_url``, and accept its certificate."""

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
    """Request ``/healthz`` of an ``https`` URL as a browser would; others have no certificate to check.

    A thread does it: looking a name up, and a server that sends an octet now and then, have no time limit of their own.
    """
    if not url.startswith("https://"):
        return
    found: list[Result] = []
    asking = threading.Thread(target=lambda: found.append(_asked(url)), daemon=True)
    asking.start()
    asking.join(seconds)
    yield found[0] if found else _unreachable(url, "no answer in time")


def _asked(url: str) -> Result:
    parts = urlsplit(url)
    connection = HTTPSConnection(
        parts.hostname or "", parts.port, timeout=_STEP_SECONDS, context=ssl.create_default_context()
    )
    try:
        connection.request("GET", f"{parts.path}/healthz")
        status = connection.getresponse().status
    except ssl.SSLCertVerificationError as error:
        text = f"{url}: browsers refuse its certificate: {error.verify_message}"
        return problem(CHECK, text, "let the proxy get a certificate of a public authority for this name")
    except ssl.SSLError as error:
        text = f"{url}: does not speak TLS as browsers do: {error.reason or error}"
        return problem(CHECK, text, "let the proxy serve this name by HTTPS, with a certificate")
    except (OSError, UnicodeError) as error:
        return _unreachable(url, getattr(error, "strerror", "") or str(error))
    except HTTPException:
        return problem(CHECK, f"{url}: what answers does not speak HTTP", "let the proxy serve this name by HTTPS")
    finally:
        connection.close()
    if status != _OK:
        text = f"{url}: its certificate is accepted, but {parts.path}/healthz has the status {status}"
        return problem(CHECK, text, "let the proxy pass requests on to http.listen, and Host with them")
    return ok(CHECK, f"{url}: answers, and its certificate is accepted here")


def _unreachable(url: str, why: str) -> Result:
    """Warn only: behind NAT a machine may not reach its own public address."""
    advice = f"start the proxy, and publish the name; if that is done, try from elsewhere: curl -I {url}/healthz"
    return warning(CHECK, f"{url}: cannot be reached from here: {why}", advice)
