"""Serves the files of the web pages in ``tmpmaild/web``, which are read once at startup; ``app.py`` adds the routes.

The files are listed at startup, so path traversal is impossible. Scripts and style sheets are bundled and minified:
comments, indentation and spaces are removed, names are kept. There is no full parser here: each function reads the
syntax that our own files use, and rejects any other syntax that it recognises. ``test_files_minified.py`` and
``test_served_files.py`` check that a JavaScript parser and a browser read the same from both forms.
"""

import gzip
import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.http.pages import best_language, is_held, prefers_gzip
from tmpmaild.http.routing import Endpoint

CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
WORKER_POLICY = f"{CONTENT_SECURITY_POLICY}; connect-src 'self'"
"""The service worker asks for the files of the page."""
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
_MANIFEST, _WORKER = "manifest.webmanifest", "worker.js"
"""They are served at the root: the scope of a service worker is the folder that contains it."""
_DEFAULT_LANGUAGE = "en"
_TAG_BYTES = 9  # of a hash; enough for our own files
_CHOSEN_BY = ("Accept-Language",)
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_FROM_THE_RIGHT = {"ar", "fa", "he", "ur"}
"""Languages that are laid out from right to left, including some that are not translated yet."""
_LOCKED_DOWN = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
# A browser that opens a script or style sheet directly shows it as text, so this short policy is enough. Every first
# visit downloads it with each file.
_KEPT_FOR_GOOD = {
    "Content-Security-Policy": "default-src 'none'",
    "Cache-Control": "public, max-age=31536000, immutable",
}
_PAGE = {
    # A page that opened this one, or was opened by it, can neither navigate it nor count its frames.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), clipboard-read=(), display-capture=(), geolocation=(), microphone=(), payment=()",
}
_OF_THE_CONTENT = ("Content-Encoding", "Content-Language")
_indentation = re.compile(r"^ +(?=<)", re.MULTILINE)
_versioned_references = re.compile(r'(?<=")web/(?=[\w.-]+\.(?:css|js)")')

_IMPORT = re.compile(r'^import \{ ?((?:\w+, )*\w+) ?\} from "\./([\w-]+)\.js";$')
_later_imports = re.compile(r'\bimport\("\./([\w-]+)\.js"\)').findall
_OUTER_IMPORT = re.compile(r'^import \w+ from "\./[\w-]+\.js";$')
_EXPORT = re.compile(r"^export ((?:const|class|function|async function) \w+.*)$", re.DOTALL)
_declared = re.compile(r"^(?:const|let|class|function|async function) +(?:(\w+)|[\[{]([\w, ]+))").match
_PARTS = re.compile(
    r"""
    (?P<kept>
        "(?:[^"\\\n]|\\.)*"
        # A template; in its ${…} may be one level of braces, and templates without parts of their own in braces.
      | `(?:[^`\\$]|\\.|\$(?!\{)|\$\{(?:[^`{}]|`[^`]*`|\{[^{}]*\})*\})*`
        # A regular expression, where a value begins; elsewhere the sign divides.
      | (?:(?<=[(\[!])|(?<=[=,:?&|({]\ )|(?<=return\ ))/(?![/*\ ])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/
    )
    | (?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)
    | (?P<unread>["'`])
    """,
    re.DOTALL | re.VERBOSE,
)
_is_of_a_word = re.compile(r"[\w$#]").match
_GOES_ON = ("{([,;", "})],;.?:")
"""After the first and before the second characters a line end is only white space: no statement ends there."""
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_TEXT = re.compile(r'("[^"]*")')
_SPACES = re.compile(r"\s+")
_AROUND_SIGNS = re.compile(r"\s*([{};,])\s*")
_AFTER_COLON = re.compile(r"(?<=[\w-]:) +")


class _Representation(Struct, frozen=True):
    """The body and the header of a response, in one content coding."""

    body: bytes
    headers: dict[str, str]


class StaticContent:
    """An endpoint for content that never changes, for use as ``Resource(get=…)``.

    ``headers`` are added to each response; ``varies`` lists the request fields by which this content was selected. The
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
        if is_held(request.headers, chosen.headers["ETag"]):
            # Send the policy too: it may be newer than the one with the cached copy.
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
    """An endpoint for translated content: serves the client's preferred language of ``contents``, by language tag.

    Content for only one region also serves other regions: ``pt-PT`` finds ``pt-BR`` through ``pt``.
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
    """Return the endpoints for ``/docs``, by path: ``page``, which describes the API in HTML, and its style sheet."""
    return {
        "/docs": StaticContent(page, "text/html", _PAGE | {"Content-Security-Policy": DOCS_POLICY}),
        "/docs.css": _docs_style(),
    }


@cache
def _docs_style() -> StaticContent:
    """Read the file once per process: after an upgrade, the file on disk belongs to a different version."""
    return static_file("docs.css")


class WebFiles(NamedTuple):
    """A function that returns the inbox page, and the files that the page loads, by path.

    The function takes the lifetime of addresses in seconds: the page mentions it for browsers without JavaScript.
    """

    page: Callable[[int], Endpoint]
    loaded: dict[str, Endpoint]


def web_files() -> WebFiles:
    """Return the inbox page, which is served at ``/``, and the files that it loads.

    These are all scripts and images in the folder, all style sheets in ``styles`` and all languages in ``messages``.
    The scripts that the page starts with are bundled into one. Each script that it imports later (``import()``) is
    bundled with the modules that only this script needs. All style sheets are joined into one.

    The paths contain a version, which changes with any of these files and with the page. So a browser that has cached
    the files does not request them again, and each version has a different service worker, because the worker contains
    the paths. Raises ``OSError`` if a file is missing, such as the texts of the default language.
    """
    tags = sorted({_DEFAULT_LANGUAGE, *(path.stem for path in (_FOLDER / "messages").glob("*.js"))})
    scripts = [path.name for path in sorted(_FOLDER.glob("*.js")) if path.name != _WORKER]
    joined = {name: minify_script(text).encode() for name, text in join(_FOLDER, "app").items()}
    images = [path.name for path in sorted(_FOLDER.iterdir()) if path.suffix in _IMAGES]
    web = f"web/{_version()}/"
    page, worker = (
        _versioned_references.sub(web, (_FOLDER / name).read_text("utf-8")) for name in ("index.html", _WORKER)
    )
    loaded: dict[str, Endpoint] = {
        f"/{_MANIFEST}": static_file(_MANIFEST),
        f"/{_WORKER}": StaticContent(
            minify_script(worker).encode(), "text/javascript", {"Content-Security-Policy": WORKER_POLICY}
        ),
        **{f"/web/{name}": static_file(name) for name in images},
        **{f"/{web}{name}": static_file(name, _KEPT_FOR_GOOD) for name in scripts},
        **{f"/{web}{name}.js": StaticContent(text, "text/javascript", _KEPT_FOR_GOOD) for name, text in joined.items()},
        f"/{web}inbox.css": StaticContent(_joined_styles(), "text/css", _KEPT_FOR_GOOD),
        f"/{web}messages.js": Translated({tag: _words_in(tag) for tag in tags}),
    }
    return WebFiles(partial(_page_saying, page, tags), loaded)


def _page_saying(page: str, tags: Sequence[str], lifetime_seconds: int) -> Endpoint:
    filled = _indentation.sub("", page).replace("{lifetime}", _lasting(lifetime_seconds))
    return Translated({tag: _page_in(tag, filled) for tag in tags})


def _lasting(seconds: int) -> str:
    """Format a duration in the largest unit that gives a whole number: 3600 is "1 hour", 5400 is "90 minutes"."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}{'' if seconds == size else 's'}"


def _page_in(tag: str, page: str) -> StaticContent:
    """Return the page with its language and direction set, so that it is never first drawn in the wrong direction."""
    direction = ' dir="rtl"' if tag.partition("-")[0] in _FROM_THE_RIGHT else ""
    marked = page.replace('<html lang="en"', f'<html lang="{tag}"{direction}', 1)
    headers = _PAGE | {"Content-Security-Policy": INBOX_POLICY, "Content-Language": tag}
    return StaticContent(marked.encode(), "text/html", headers, _CHOSEN_BY)


def _words_in(tag: str) -> StaticContent:
    words = minify_script((_FOLDER / f"messages/{tag}.js").read_text("utf-8"))
    return StaticContent(words.encode(), "text/javascript", _KEPT_FOR_GOOD | {"Content-Language": tag}, _CHOSEN_BY)


def _version() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for kind in ("js", "css", "html") for path in _FOLDER.rglob(f"*.{kind}")):
        digest.update(f"{path.relative_to(_FOLDER)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _joined_styles() -> bytes:
    """Join the style sheets of the inbox, to save requests: first ``page.css``, then the others by name."""
    paths = sorted((_FOLDER / "styles").glob("*.css"), key=lambda path: (path.name != "page.css", path.name))
    return minify_style("\n".join(path.read_text("utf-8") for path in paths)).encode()


def _represent(body: bytes, headers: dict[str, str]) -> _Representation:
    # Include the language: the same text in two languages is still two representations (RFC 9110 §8.8.1).
    digest = hashlib.sha256(headers.get("Content-Language", "").encode() + b"\n" + body).digest()
    tag = urlsafe_b64encode(digest[:_TAG_BYTES]).decode()  # a first visit downloads five of them
    return _Representation(body, {**headers, "ETag": f'"{tag}"'})


def join(folder: Path, name: str) -> dict[str, str]:
    """Return the scripts for a page that loads the module ``name``, by name and not minified.

    The first script is ``name`` joined with all its imports. Each module that is loaded with ``import()`` becomes a
    further script. It contains the imports that are not in the first script, and imports the rest from it.

    Raises ``UnreadableScriptError`` for an unsupported form of ``import`` or ``export`` (a default import is kept: the
    server selects that file by the reader's language), for circular imports, for a module that two later scripts would
    contain, and for a name that two modules declare, since the modules of a script share one scope.
    """
    first = _Bundle(folder, name)
    later: dict[str, _Bundle] = {}
    wanted = list(first.later)
    for one in wanted:
        if one not in later and one not in first.added:
            later[one] = _Bundle(folder, one, first)
            wanted += later[one].later
    modules = [module for bundle in later.values() for module in bundle.added]
    if twice := {module for module in modules if modules.count(module) > 1}:
        raise UnreadableScriptError(f"{', '.join(sorted(twice))}.js: in several scripts that are loaded later")
    shared = {needed for bundle in later.values() for needed in bundle.needed}
    return {name: first.text(exported=shared)} | {one: bundle.text() for one, bundle in later.items()}


class _Bundle:
    """A module joined with all its imports, in the order in which a browser would run them."""

    def __init__(self, folder: Path, name: str, first: "_Bundle | None" = None) -> None:
        self._folder = folder
        self.name = name
        self._first = first
        self._declarers: dict[str, str] = {}
        self._exports: list[str] = []
        self._outer_imports: dict[str, None] = {}
        self._lines: list[str] = []
        self.added: set[str] = set()
        self.needed: set[str] = set()
        """Names that are imported from the first script."""
        self.later: list[str] = []
        """Modules that the script loads with ``import()``."""
        self._add(name, ())

    def text(self, exported: Iterable[str] = ()) -> str:
        """Return the script. The first script exports ``exported``, a later one the exports of its module."""
        names = self._exports if self._first else sorted(exported)
        lines = [*self._outer_imports, *self._lines, ""]
        if self._first and self.needed:
            lines.insert(0, f'import {{ {", ".join(sorted(self.needed))} }} from "./{self._first.name}.js";')
        if names:
            lines.insert(-1, f"export {{ {', '.join(names)} }};")
        return "\n".join(lines)

    def _add(self, name: str, importers: tuple[str, ...]) -> None:
        """Add a module after its imports."""
        if name in importers:
            raise UnreadableScriptError(f"{name}.js imports itself by way of {', '.join(importers)}")
        if name in self.added:
            return
        self.added.add(name)
        kept: list[str] = []
        for line in (self._folder / f"{name}.js").read_text("utf-8").splitlines():
            if imported := _IMPORT.match(line):
                self._import(imported[2], imported[1].split(", "), (*importers, name))
            elif _OUTER_IMPORT.match(line):
                self._outer_imports[line] = None
            else:
                kept.append(self._line(line, name))
                self.later += _later_imports(line)
        self._lines += kept

    def _import(self, name: str, names: Sequence[str], importers: tuple[str, ...]) -> None:
        if self._first and name in self._first.added:
            self.needed.update(names)
        else:
            self._add(name, importers)

    def _line(self, line: str, name: str) -> str:
        """Return a line without ``export``."""
        if exports := _EXPORT.match(line):
            line = exports[1]
            if name == self.name and (exported := _declared(line)):
                self._exports.append(exported[1])
        if line.startswith(("import", "export")) or line.count("`") % 2:
            raise UnreadableScriptError(f"{name}.js: {line}")
        if found := _declared(line):
            for declared in (found[1] or found[2]).replace(",", " ").split():
                if self._declarers.setdefault(declared, name) != name:
                    raise UnreadableScriptError(
                        f"{name}.js: {declared} is a name in {self._declarers[declared]}.js too"
                    )
        return line


class UnreadableScriptError(Exception):
    """A script contains syntax that this project's tools do not support."""


def minify_script(script: str) -> str:
    """Return an equivalent, shorter JavaScript module. Raises ``UnreadableScriptError``."""
    return _PARTS.sub(_shorten, script).strip() + "\n"


def _shorten(part: re.Match[str]) -> str:
    """Return a string or regular expression unchanged, or the necessary part of the space between two tokens."""
    if part["unread"]:
        raise UnreadableScriptError(part.string[part.start() : part.start() + 80])
    if part["kept"]:
        return part["kept"]
    before, after = part.string[max(0, part.start() - 1) : part.start()], part.string[part.end() : part.end() + 1]
    if "\n" in part["space"] and before not in _GOES_ON[0] and after not in _GOES_ON[1]:
        return "\n"
    is_needed = (_is_of_a_word(before) and _is_of_a_word(after)) or before + after in ("++", "--", "//")
    return " " if is_needed else ""


def minify_style(style: str) -> str:
    """Return an equivalent style sheet in which only spaces that may be significant are kept."""
    parts = _STYLE_TEXT.split(_STYLE_COMMENT.sub("", style))
    parts[::2] = map(_without_spaces, parts[::2])
    return "".join(parts).strip() + "\n"


def _without_spaces(part: str) -> str:
    part = _AROUND_SIGNS.sub(r"\1", _SPACES.sub(" ", part))
    return _AFTER_COLON.sub("", part).replace(";}", "}")
