"""Serves the files of the web pages in ``tmpmaild/web``, read once at start; ``app.py`` gives each its route.

There is no path to look up, so there is none to walk out of.
"""

import gzip
import hashlib
import re
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.http.headers import CONTENT_SECURITY_POLICY

DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_FOLDER = Path(__file__).parents[1] / "web"
_MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}
_entity_tags = re.compile(r'"[^"]*"').findall
_weighted_coding = re.compile(r"([a-z0-9*_-]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?").fullmatch


class _Representation(Struct, frozen=True):
    """A file as it leaves, under one content coding."""

    body: bytes
    headers: dict[str, str]


class StaticFile:
    """The endpoint of one file of ``tmpmaild/web``, to be given to ``Resource(get=…)``.

    ``policy`` is its Content-Security-Policy. Making one reads the file: do it at start, and off the event loop.
    Raises ``OSError`` when the file is missing, ``KeyError`` when its suffix has no media type here.
    """

    def __init__(self, name: str, policy: str = CONTENT_SECURITY_POLICY) -> None:
        path = _FOLDER / name
        self._media_type = _MEDIA_TYPES[path.suffix]
        plain = path.read_bytes()
        packed = gzip.compress(plain, 9, mtime=0)
        always = {"Cache-Control": "no-cache", "Content-Security-Policy": policy}
        self._packed = None
        if len(packed) < len(plain):
            always["Vary"] = "Accept-Encoding"
            self._packed = _represent(packed, {**always, "Content-Encoding": "gzip"})
        self._plain = _represent(plain, always)

    async def __call__(self, request: Request) -> Response:
        """Answer GET and HEAD."""
        chosen = self._packed if self._packed and _prefers_gzip(request.headers) else self._plain
        if _is_held(request.headers, chosen.headers["ETag"]):
            # The policy goes along: it may be newer than the copy that the client holds.
            kept = {name: value for name, value in chosen.headers.items() if name != "Content-Encoding"}
            return Response(status_code=304, headers=kept)
        return Response(chosen.body, headers=chosen.headers, media_type=self._media_type)


def docs_files() -> dict[str, StaticFile]:
    """Return the files of ``/docs``, the viewer of the API's description, by their paths."""
    return {
        "/docs": StaticFile("docs.html", DOCS_POLICY),
        "/docs.css": StaticFile("docs.css"),
        "/docs.js": StaticFile("docs.js"),
    }


def _represent(body: bytes, headers: dict[str, str]) -> _Representation:
    return _Representation(body, {**headers, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'})


def _is_held(headers: Headers, entity_tag: str) -> bool:
    """Tell whether the client has this very representation: If-None-Match, compared weakly (RFC 9110 §13.1.2)."""
    held = ",".join(headers.getlist("if-none-match"))
    return held.strip() == "*" or entity_tag in _entity_tags(held)


def _prefers_gzip(headers: Headers) -> bool:
    """Tell whether Accept-Encoding (RFC 9110 §12.5.3) allows gzip, and not below the plain form."""
    weights = {}
    for item in ",".join(headers.getlist("accept-encoding")).lower().split(","):
        coding = _weighted_coding(item.strip())
        if coding:
            weights[coding[1]] = float(coding[2] or 1)
    gzip_weight = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0)))
    return gzip_weight > 0 and gzip_weight >= weights.get("identity", 0)
