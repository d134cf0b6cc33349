"""Rules for requests from pages on other origins: whether to refuse them, and the CORS fields in their responses."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.types import Scope

_VIEWS = "/view/"
_FRAMES = (b"iframe", b"frame", b"object", b"embed")
_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}
_READING = ("GET", "HEAD")
_SAFE = (*_READING, "OPTIONS")  # RFC 9110 §9.2.1
_VARY = (b"vary", b"Origin")
_EXPOSED = (b"access-control-expose-headers", b"Link, Location, RateLimit, RateLimit-Policy, Retry-After")
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
    (b"access-control-max-age", b"600"),
)


class CrossSite:
    """Rules for pages on other origins: only the origins in ``cors_origins`` may use the API and views.

    ``public_url`` determines our own origin if a proxy changes the Host field.
    """

    def __init__(self, public_url: str = "", cors_origins: Sequence[str] = ()) -> None:
        self._permitted = frozenset(origin.encode() for origin in cors_origins)
        self._public_origin = b"%s://%s" % urlsplit(public_url.encode())[:2]

    def fields(self, scope: Scope) -> Sequence[tuple[bytes, bytes]]:
        """Return the CORS fields to add to every response, including errors, so that pages can read them."""
        if not self._permitted:
            return ()
        origin = dict(scope["headers"]).get(b"origin")
        if origin not in self._permitted:
            return (_VARY,)
        preflight = _PREFLIGHT if scope["method"] == "OPTIONS" else ()
        return (_VARY, (b"access-control-allow-origin", origin), _EXPOSED, *preflight)

    def refuses(self, scope: Scope) -> bool:
        """Return whether to refuse a request because it comes from a page on an origin that is not allowed."""
        if scope["path"].startswith("/api/"):
            return self._refuses_call(scope["method"], dict(scope["headers"]))
        return scope["path"].startswith(_VIEWS) and self._refuses_view(dict(scope["headers"]))

    def _refuses_call(self, method: str, headers: Mapping[bytes, bytes]) -> bool:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin in self._permitted:
            return False
        if site == b"same-origin":
            # Our own pages do not load images from the API, but a message displayed in a frame may try to.
            return headers.get(b"sec-fetch-dest") == b"image"
        if headers.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return True  # Chromium sends "none" here, although any page can trigger a prefetch with speculation rules
        if site is not None:
            return site in (b"cross-site", b"same-site") and not _is_followed_link(method, headers)
        # A WebSocket handshake is a GET, and Chromium sends no Sec-Fetch-Site with it, not even to localhost.
        is_safe = method in _SAFE and b"sec-websocket-key" not in headers
        return origin is not None and not is_safe and not self._is_own(origin, headers.get(b"host", b""))

    def _refuses_view(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether to refuse a page's request for a view.

        The view's policy lists the origins that may frame it.
        """
        site = headers.get(b"sec-fetch-site")
        if site != b"same-origin" and headers.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return True
        if site not in (b"cross-site", b"same-site"):
            return False
        if self._permitted and headers.get(b"sec-fetch-dest") in _FRAMES:
            return False
        scheme, _, rest = headers.get(b"referer", b"").partition(b"://")
        return not self._permitted & {headers.get(b"origin"), b"%s://%s" % (scheme, rest.partition(b"/")[0])}

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        scheme, _, authority = origin.partition(b"://")
        default_port = _DEFAULT_PORTS.get(scheme)
        if default_port is None:
            return False
        return origin == self._public_origin or authority == host.lower().removesuffix(default_port)


def _is_followed_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the request comes from a browser tab that navigates to the API.

    The mode alone is not enough: forms and frames also send ``navigate``.
    """
    return (
        method in _READING
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )
