"""Serves the files of the web pages in ``tmpmaild/web``, which are read once at startup; ``app.py`` adds the routes.

The files are listed at startup, so path traversal is impossible. ``bundling.py`` joins and minifies the scripts and
style sheets.
"""

import gzip
import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.http.bundling import join, minify_script, minify_style
from tmpmaild.http.pages import PAGE_HEADERS, best_language, is_not_modified, prefers_gzip
from tmpmaild.http.routing import Endpoint

CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
WORKER_POLICY = f"{CONTENT_SECURITY_POLICY}; connect-src 'self'"
"""The policy for the service worker, which requests the page's files."""
DOCS_POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
INBOX_POLICY = (
    "default-src 'self'; object-src 'none'; media-src 'none'; font-src 'none'; "
    "script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types worker; "
    "frame-src 'self'; worker-src 'self'"
)
"""It frames views, which have a policy of their own; ``blob:`` is for previews of attached images.

The manifest is loaded by ``default-src``, since WebKit complains of ``manifest-src``.

The policy of trusted types names the one URL of the worker (``web/browser.js``) and makes no markup.
"""

_FOLDER = Path(__file__).parents[1] / "web"
_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_IMAGES = (".png", ".svg")
_CATCHER = "catcher"
_START = '<html lang="en"'
"""Files that only a catcher's pages use."""
_MANIFEST, _WORKER = "manifest.webmanifest", "worker.js"
"""They are served at the root, because the scope of a service worker is the folder that contains it."""
_DEFAULT_LANGUAGE = "en"
_TAG_BYTES = 9  # the length of a truncated hash, which is sufficient for our own files
_CHOSEN_BY = ("Accept-Language",)
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_FROM_THE_RIGHT = {"ar", "fa", "he", "ur"}
"""Languages that are written from right to left, including some for which there is no translation yet."""
_LOCKED_DOWN = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
# A browser that opens a script or style sheet directly shows it as text, so this short policy is enough. On a first
# visit, the policy is downloaded with every file.
_KEPT_FOR_GOOD = {
    "Content-Security-Policy": "default-src 'none'",
    "Cache-Control": "public, max-age=31536000, immutable",
}
_OF_THE_CONTENT = ("Content-Encoding", "Content-Language")
_indentation = re.compile(r"^ +(?=<)", re.MULTILINE)
_part = re.compile(r"^ *<!-- (\w+) -->\n", re.MULTILINE)
_versioned_references = re.compile(r'(?<=")web/(?=[\w.-]+\.(?:css|js)")')


class _Representation(Struct, frozen=True):
    """The body and the header of a response, in one content coding."""

    body: bytes
    headers: dict[str, str]


class StaticContent:
    """An endpoint for content that never changes, for use as ``Resource(get=…)``.

    ``headers`` are added to each response; ``varies`` lists the request fields that selected this content. The
    constructor compresses the content: call it at startup, outside the event loop.
    """

    def __init__(
        self, plain: bytes, media_type: str, headers: Mapping[str, str] = _LOCKED_DOWN, varies: tuple[str, ...] = ()
    ) -> None:
        self._media_type = media_type
        packed = gzip.compress(plain, 9, mtime=0)
        shrinks = len(packed) < len(plain)
        fields = [*(["Accept-Encoding"] if shrinks else []), *varies]
        always = {"Cache-Control": "no-cache", **({"Vary": ", ".join(fields)} if fields else {}), **headers}
        self._plain = _represent(plain, always)
        self._packed = _represent(packed, {**always, "Content-Encoding": "gzip"}) if shrinks else None

    async def __call__(self, request: Request) -> Response:
        """Respond to GET and HEAD."""
        codings = request.headers.getlist("accept-encoding")
        chosen = self._packed if self._packed and prefers_gzip(codings) else self._plain
        if is_not_modified(request.headers, chosen.headers["ETag"]):
            # Send the policy too, because it may be newer than the policy of the cached copy.
            kept = {name: value for name, value in chosen.headers.items() if name not in _OF_THE_CONTENT}
            return Response(status_code=304, headers=kept)
        return Response(chosen.body, headers=chosen.headers, media_type=self._media_type)


def static_file(name: str, headers: Mapping[str, str] = _LOCKED_DOWN) -> StaticContent:
    """Read a file from ``tmpmaild/web`` and return an endpoint for it.

    Raises ``OSError`` if the file is missing, and ``KeyError`` if no media type is known for its suffix.
    """
    path = _FOLDER / name
    return StaticContent(path.read_bytes(), _MEDIA_TYPES[path.suffix], headers)


class Translated:
    """Serves translated content in the client's preferred language; ``contents`` is keyed by language tag.

    Content for one region is also served for other regions: ``pt-PT`` falls back to ``pt-BR`` via ``pt``.
    """

    def __init__(self, contents: Mapping[str, StaticContent]) -> None:
        self._contents = {tag.lower(): content for tag, content in contents.items()}
        for tag, content in list(self._contents.items()):
            self._contents.setdefault(tag.partition("-")[0], content)

    async def __call__(self, request: Request) -> Response:
        """Respond to GET and HEAD."""
        wanted = request.headers.getlist("accept-language")
        return await self._contents[best_language(wanted, tuple(self._contents), _DEFAULT_LANGUAGE)](request)


def docs_files(page: bytes) -> dict[str, Endpoint]:
    """Return the endpoints for the HTML page that describes the API and for its style sheet, keyed by path."""
    return {
        "/docs": StaticContent(page, "text/html", PAGE_HEADERS | {"Content-Security-Policy": DOCS_POLICY}),
        "/docs.css": _docs_style(),
    }


@cache
def _docs_style() -> StaticContent:
    """Read the file once per process: after an upgrade, the file on disk belongs to a different version."""
    return static_file("docs.css")


class WebFiles(NamedTuple):
    """A function that returns the inbox page, and the files that the page loads, keyed by path.

    The function's argument is the address lifetime in seconds, which the page shows in browsers without JavaScript.
    """

    page: Callable[[int], Endpoint]
    loaded: dict[str, Endpoint]


class CatcherPage(NamedTuple):
    """Data for the all-messages page: addresses that accept mail, and whether other machines can reach the page."""

    smtp: str
    is_public: bool


def web_files() -> WebFiles:
    """Return the inbox page, which is served at ``/``, and the files that it loads.

    These are all scripts and images in the folder, all style sheets in ``styles`` and all languages in ``messages``.
    The scripts that the page loads first are bundled into one. Each script that it imports later (``later()``) is
    bundled with the modules that only this script needs. All style sheets are joined into one.

    The paths contain a version, which changes with any of these files and with the page. Therefore, a browser that has
    cached the files does not request them again. Each version also has a different service worker, because the worker
    contains the paths. Raises ``OSError`` if a file is missing, such as the default language's texts.
    """
    tags = _languages()
    scripts = [path.name for path in sorted(_FOLDER.glob("*.js")) if path.name != _WORKER]
    images = [path.name for path in sorted(_FOLDER.iterdir()) if path.suffix in _IMAGES]
    web = f"web/{_version()}/"
    loaded: dict[str, Endpoint] = {
        f"/{_MANIFEST}": static_file(_MANIFEST),
        f"/{_WORKER}": _worker(web),
        **{f"/web/{name}": static_file(name) for name in images},
        **{f"/{web}{name}": static_file(name, _KEPT_FOR_GOOD) for name in scripts},
        **_scripts(web, "app"),
        f"/{web}inbox.css": StaticContent(_joined_styles(), "text/css", _KEPT_FOR_GOOD),
        f"/{web}messages.js": Translated({tag: _words_in(tag, _words(tag)) for tag in tags}),
    }
    return WebFiles(partial(_page_saying, _page(web), tags), loaded)


def catcher_files(lifetime_seconds: int, catcher: CatcherPage) -> dict[str, Endpoint]:
    """Return the additional files of a service that catches all mail, keyed by path.

    The page for all messages is at ``/``, and the inbox page is at ``/inboxes``. The page for all messages shares
    modules, styles and texts with the inbox, but it is built separately, so that the inbox page does not become larger.
    Its files are under ``web/<version>/all/``. They have the same names as those under ``web/<version>/``, because the
    modules import each other by these names.
    """
    web, tags = f"web/{_version()}/", _languages()
    inbox = _page(web, links=f"{_CATCHER}/links.html")
    page = _page(f"{web}all/", icons=f"{_CATCHER}/icons.html", noscript=f"{_CATCHER}/noscript.html")
    about = f' data-smtp="{escape(catcher.smtp)}"{" data-public" if catcher.is_public else ""}'
    page = page.replace("/app.js", f"/{_CATCHER}.js").replace(_START, _START + about, 1)
    return {
        "/": _page_saying(page, tags, lifetime_seconds),
        "/inboxes": _page_saying(inbox, tags, lifetime_seconds),
        f"/{_WORKER}": _worker(f"{web}all/", _CATCHER),
        **_catcher_scripts(),
    }


@cache
def _catcher_scripts() -> dict[str, Endpoint]:
    """Return the scripts, styles and texts of the page for all messages; they are read once per process."""
    web = f"web/{_version()}/all/"
    style = _joined_styles() + minify_style(_read(f"{_CATCHER}/{_CATCHER}.css")).encode()
    return {
        **_scripts(web, _CATCHER),
        f"/{web}inbox.css": StaticContent(style, "text/css", _KEPT_FOR_GOOD),
        f"/{web}messages.js": Translated({tag: _words_in(tag, _catcher_words(tag)) for tag in _languages()}),
    }


def _languages() -> list[str]:
    return sorted({_DEFAULT_LANGUAGE, *(path.stem for path in (_FOLDER / "messages").glob("*.js"))})


def _page(web: str, noscript: str = "noscript.html", **parts: str) -> str:
    """Return the page with its parts, which are files; each replaces the comment in ``index.html`` that names it."""
    files = {"noscript": noscript, **parts}
    page = _part.sub(lambda line: _read(files[line[1]]) if line[1] in files else "", _read("index.html"))
    return _versioned_references.sub(web, page)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _worker(web: str, script: str = "app") -> Endpoint:
    text = _read(_WORKER).replace('"web/app.js"', f'"web/{script}.js"')
    worker = minify_script(_versioned_references.sub(web, text)).encode()
    return StaticContent(worker, "text/javascript", {"Content-Security-Policy": WORKER_POLICY})


def _scripts(web: str, name: str) -> dict[str, Endpoint]:
    """Return the scripts for a page that loads the module ``name``, keyed by path."""
    joined = {one: minify_script(text).encode() for one, text in join(_FOLDER, name).items()}
    return {f"/{web}{one}.js": StaticContent(text, "text/javascript", _KEPT_FOR_GOOD) for one, text in joined.items()}


def _page_saying(page: str, tags: Sequence[str], lifetime_seconds: int) -> Endpoint:
    filled = _indentation.sub("", page).replace("{lifetime}", _lasting(lifetime_seconds))
    return Translated({tag: _page_in(tag, filled) for tag in tags})


def _lasting(seconds: int) -> str:
    """Format a duration in the largest unit that yields a whole number: 3600 is "1 hour", 5400 is "90 minutes"."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}{'' if seconds == size else 's'}"


def _page_in(tag: str, page: str) -> StaticContent:
    """Return the page with its language and text direction set, so that it is never rendered in the wrong direction."""
    direction = ' dir="rtl"' if tag.partition("-")[0] in _FROM_THE_RIGHT else ""
    marked = page.replace(_START, f'<html lang="{tag}"{direction}', 1)
    headers = PAGE_HEADERS | {"Content-Security-Policy": INBOX_POLICY, "Content-Language": tag}
    return StaticContent(marked.encode(), "text/html", headers, _CHOSEN_BY)


def _words(tag: str) -> str:
    return _read(f"messages/{tag}.js")


def _catcher_words(tag: str) -> str:
    """Return the inbox's texts, with some of them replaced by the catcher's texts."""
    added = _read(f"{_CATCHER}/messages/{tag}.js")
    return _words(tag).rstrip().removesuffix("};") + added.partition("export default {")[2]


def _words_in(tag: str, words: str) -> StaticContent:
    script = minify_script(words).encode()
    return StaticContent(script, "text/javascript", _KEPT_FOR_GOOD | {"Content-Language": tag}, _CHOSEN_BY)


def _version() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for kind in ("js", "css", "html") for path in _FOLDER.rglob(f"*.{kind}")):
        digest.update(f"{path.relative_to(_FOLDER)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _joined_styles() -> bytes:
    """Join the inbox's style sheets, ``page.css`` first and the others by name, to reduce the number of requests."""
    paths = sorted((_FOLDER / "styles").glob("*.css"), key=lambda path: (path.name != "page.css", path.name))
    return minify_style("\n".join(path.read_text("utf-8") for path in paths)).encode()


def _represent(body: bytes, headers: dict[str, str]) -> _Representation:
    # Include the language, because the same text in two languages counts as two representations (RFC 9110 §8.8.1).
    digest = hashlib.sha256(headers.get("Content-Language", "").encode() + b"\n" + body).digest()
    tag = urlsafe_b64encode(digest[:_TAG_BYTES]).decode()  # short, because a first visit downloads five tags
    return _Representation(body, {**headers, "ETag": f'"{tag}"'})
