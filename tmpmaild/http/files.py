"""Serves the files of the web pages in ``tmpmaild/web``, read once at start; ``app.py`` gives each its route.

Files are listed at start; path traversal is impossible. Scripts and style sheets are joined and made smaller: comments,
indentation and spaces are left out, names stay as they are. Nothing here is a parser of them: each function reads the
forms that our own files use and refuses any other that it recognises. ``test_files_minified.py`` and
``test_served_files.py`` compare what a JavaScript parser and a browser read in both forms.
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
"""They lie at the root: the scope of a service worker is the folder that it lies in."""
_DEFAULT_LANGUAGE = "en"
_TAG_BYTES = 9  # of a hash: our own files need no more
_CHOSEN_BY = ("Accept-Language",)
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_FROM_THE_RIGHT = {"ar", "fa", "he", "ur"}
"""Languages whose page is laid out from right to left, whether they are there yet or not."""
_LOCKED_DOWN = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
# Scripts and styles are text where they are opened by themselves, and come with each first visit: this is enough.
_KEPT_FOR_GOOD = {
    "Content-Security-Policy": "default-src 'none'",
    "Cache-Control": "public, max-age=31536000, immutable",
}
_PAGE = {
    # A page that opened this one, or was opened by it, can neither steer it nor count its frames.
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
"""After the ones and before the others a line end is only a space: no statement ends there."""
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_TEXT = re.compile(r'("[^"]*")')
_SPACES = re.compile(r"\s+")
_AROUND_SIGNS = re.compile(r"\s*([{};,])\s*")
_AFTER_COLON = re.compile(r"(?<=[\w-]:) +")


class _Representation(Struct, frozen=True):
    """A file as it leaves, under one content coding."""

    body: bytes
    headers: dict[str, str]


class StaticContent:
    """The endpoint of content that never changes, to be given to ``Resource(get=…)``.

    ``headers`` go with each answer; ``varies`` names request fields that chose this content among others. Making one
    compresses the content: do it at start, and off the event loop.
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
        """Answer GET and HEAD."""
        codings = request.headers.getlist("accept-encoding")
        chosen = self._packed if self._packed and prefers_gzip(codings) else self._plain
        if is_held(request.headers, chosen.headers["ETag"]):
            # The policy goes along: it may be newer than the copy that the client holds.
            kept = {name: value for name, value in chosen.headers.items() if name not in _OF_THE_CONTENT}
            return Response(status_code=304, headers=kept)
        return Response(chosen.body, headers=chosen.headers, media_type=self._media_type)


def static_file(name: str, headers: Mapping[str, str] = _LOCKED_DOWN) -> StaticContent:
    """Read a file of ``tmpmaild/web``, and return its endpoint.

    Raises ``OSError`` when the file is missing, ``KeyError`` when its suffix has no media type here.
    """
    path = _FOLDER / name
    return StaticContent(path.read_bytes(), _MEDIA_TYPES[path.suffix], headers)


class Translated:
    """The endpoint of content that exists once a language: ``contents`` by language tag, of which the client chooses.

    What is there for one region only serves the others too: ``pt-PT`` finds ``pt-BR``, by way of ``pt``.
    """

    def __init__(self, contents: Mapping[str, StaticContent]) -> None:
        self._contents = {tag.lower(): content for tag, content in contents.items()}
        for tag, content in list(self._contents.items()):
            self._contents.setdefault(tag.partition("-")[0], content)

    async def __call__(self, request: Request) -> Response:
        """Answer GET and HEAD."""
        wanted = request.headers.getlist("accept-language")
        return await self._contents[best_language(wanted, tuple(self._contents), _DEFAULT_LANGUAGE)](request)


def docs_files(page: bytes) -> dict[str, Endpoint]:
    """Return what ``/docs`` consists of by path: ``page``, the API's description as HTML, and its style sheet."""
    return {
        "/docs": StaticContent(page, "text/html", _PAGE | {"Content-Security-Policy": DOCS_POLICY}),
        "/docs.css": _docs_style(),
    }


@cache
def _docs_style() -> StaticContent:
    """Read once a process: after an upgrade the file on disk is that of another version."""
    return static_file("docs.css")


class WebFiles(NamedTuple):
    """What makes the page of the inbox for a lifetime of addresses in seconds, and by their paths the files it loads.

    The page names the lifetime where there is no JavaScript.
    """

    page: Callable[[int], Endpoint]
    loaded: dict[str, Endpoint]


def web_files() -> WebFiles:
    """Return the page of the inbox, which is ``/``, and the files that it loads.

    Every script and image in the folder belongs to it, every style sheet in ``styles`` and every language in
    ``messages``. The page loads all scripts that it begins with as one, each that it imports later (``import()``) as
    one with those that only this one needs, and all style sheets as one, without comments and spaces. They lie
    below a version, which changes with any of them and with the page: a browser that has them asks for none, and the
    service worker, which names them, is another with each version. Raises ``OSError`` when a file is missing, such as
    the words of the default language.
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
    """Return 3600 as "1 hour", and 5400 as "90 minutes": in the largest unit of which it is a whole number."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}{'' if seconds == size else 's'}"


def _page_in(tag: str, page: str) -> StaticContent:
    """Return the page with its language and direction in it: so nothing is drawn the wrong way round at first."""
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
    """Return the style sheets of the inbox as one, for one request: that of the whole page first, then by name."""
    paths = sorted((_FOLDER / "styles").glob("*.css"), key=lambda path: (path.name != "page.css", path.name))
    return minify_style("\n".join(path.read_text("utf-8") for path in paths)).encode()


def _represent(body: bytes, headers: dict[str, str]) -> _Representation:
    # With the language: one text in two languages would still be two representations (RFC 9110 §8.8.1).
    digest = hashlib.sha256(headers.get("Content-Language", "").encode() + b"\n" + body).digest()
    tag = urlsafe_b64encode(digest[:_TAG_BYTES]).decode()  # each first visit carries five of them
    return _Representation(body, {**headers, "ETag": f'"{tag}"'})


def join(folder: Path, name: str) -> dict[str, str]:
    """Return the scripts that a page with the module ``name`` loads, by name, before anything is left out.

    One is ``name`` with all that it imports. Each module that ``import()`` names is one more, with what it imports and
    the first has not; it imports the rest from the first.

    Raises ``UnreadableScriptError`` for another form of ``import`` or ``export`` (a default import stays: the server
    chooses that file by the reader's language), for modules that import each other in a circle, for a module that
    two later scripts would have, and for a name that two modules declare, since those of a script share one scope.
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
    """A module joined with all that it imports, in the order in which a browser would run them."""

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
        """Names of the first script."""
        self.later: list[str] = []
        """Modules that are imported where the script runs."""
        self._add(name, ())

    def text(self, exported: Iterable[str] = ()) -> str:
        """Return the script; without a first one it exports these names, else those of its module."""
        names = self._exports if self._first else sorted(exported)
        lines = [*self._outer_imports, *self._lines, ""]
        if self._first and self.needed:
            lines.insert(0, f'import {{ {", ".join(sorted(self.needed))} }} from "./{self._first.name}.js";')
        if names:
            lines.insert(-1, f"export {{ {', '.join(names)} }};")
        return "\n".join(lines)

    def _add(self, name: str, importers: tuple[str, ...]) -> None:
        """Join a module after those that it imports."""
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
    """A script has something that this project's tools do not read."""


def minify_script(script: str) -> str:
    """Return a JavaScript module that means the same. Raises ``UnreadableScriptError``."""
    return _PARTS.sub(_shorten, script).strip() + "\n"


def _shorten(part: re.Match[str]) -> str:
    """Return what stays of a text or regular expression (all), or of the space between two tokens."""
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
    """Return a style sheet that means the same: of spaces only those stay that may mean something."""
    parts = _STYLE_TEXT.split(_STYLE_COMMENT.sub("", style))
    parts[::2] = map(_without_spaces, parts[::2])
    return "".join(parts).strip() + "\n"


def _without_spaces(part: str) -> str:
    part = _AROUND_SIGNS.sub(r"\1", _SPACES.sub(" ", part))
    return _AFTER_COLON.sub("", part).replace(";}", "}")
