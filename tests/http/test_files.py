"""The files of the web pages and how they are served; ``test_files_web.py`` checks their content."""

import gzip
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tmpmaild.http import files
from tmpmaild.http.files import (
    CONTENT_SECURITY_POLICY,
    DOCS_POLICY,
    INBOX_POLICY,
    WORKER_POLICY,
    docs_files,
    static_file,
    web_files,
)
from tmpmaild.http.routing import Resource

from .conftest import Client

ROOT = Path(__file__).parents[2]
WEB = ROOT / "tmpmaild/web"
PAGE = b"<title>x</title>" * 9
FILES = {"/docs": PAGE, "/docs.css": (WEB / "docs.css").read_bytes()}
INBOX = {
    name: text * times
    for name, text, times in [
        (
            "index.html",
            '<html lang="en"><link rel="icon" href="web/icon.svg"><script type="module" src="web/app.js"></script>',
            9,
        ),
        ("app.js", "// What it does.\nrun(1, 2);\n", 9),
        ("styles/card.css", "/* A card. */\nb { top: 0; }\n", 9),
        ("styles/page.css", "a { top: 0; }\n", 9),
        ("docs.css", "", 1),
        ("notes.txt", "", 1),
        ("icon.svg", "<svg/>", 9),
        ("manifest.webmanifest", '{"name": "x"}', 9),
        ("worker.js", 'keep("", "web/app.js");\n', 9),
        (
            "messages/en.js",
            '"Hello. ";"Hello. ";"Hello. ";"Hello. ";"Hello. ";"Hello. ";"Hello. ";"Hello. ";"Hello. ";\n',
            1,
        ),
        (
            "messages/de.js",
            '"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";"Hallo. ";\n',
            1,
        ),
        ("messages/pt-BR.js", '"Olá."\n', 1),
    ]
}
GZIP = {"Accept-Encoding": "gzip"}


def serving(endpoints):
    app = Starlette(routes=[Route(path, Resource(get=endpoint)) for path, endpoint in endpoints.items()])
    app.router.redirect_slashes = False
    return app


@pytest.fixture
def app():
    return serving(docs_files(PAGE))


@pytest.fixture
def client(app):
    return Client(app)


@pytest.mark.parametrize(("path", "content"), FILES.items())
async def test_a_file_is_served_as_on_disk_and_a_page_as_rendered(client, path, content):
    answer = await client.get(path)
    assert answer.status == 200
    assert answer.body == content
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("content-encoding") is None
    assert answer.header("cache-control") == "no-cache"
    assert answer.header("vary") == "Accept-Encoding"


async def test_the_description_may_load_its_style_and_run_nothing_and_a_file_by_itself_may_do_nothing(client):
    answer = await client.get("/docs")
    assert answer.header("content-security-policy") == DOCS_POLICY
    assert set(DOCS_POLICY.split("; ")) == {
        "default-src 'none'",
        "style-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    }
    answer = await client.get("/docs.css")
    assert answer.header("content-security-policy") == CONTENT_SECURITY_POLICY


async def test_cacheable_files_have_strong_entity_tags_and_are_compressed_only_if_that_makes_them_smaller(
    client, tmp_path, monkeypatch
):
    tags = [(await client.get(path, headers)).header("etag") for path in FILES for headers in ({}, GZIP)]
    assert len(set(tags)) == 4
    assert [tag for tag in tags if not re.fullmatch(r'"[\w-]{12}"', tag)] == []
    (tmp_path / "tiny.css").write_text("a{}")
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    answer = await Client(serving({"/tiny.css": static_file("tiny.css")})).get("/tiny.css", GZIP)
    assert answer.body == b"a{}"
    assert answer.header("content-encoding") is None
    assert answer.header("vary") is None


HOLDS = [
    ("{tag}", 304),
    ("W/{tag}", 304),  # a compressing proxy turns the tag into a weak tag
    ('"other", {tag}', 304),
    ('"other",W/{tag} , "more"', 304),
    ("*", 304),
    ('"other"', 200),
    ('W/"other", "more"', 200),
    ('"{bare}x"', 200),
    ("{bare}", 200),  # a tag without quotes is invalid
    ('"', 200),
    ("", 200),
    ('"*"', 200),
    ('""' * 4000, 200),
]


async def test_a_cached_file_is_not_sent_again(client, subtests):
    for held, status in HOLDS:
        for coding in [{}, GZIP]:
            with subtests.test(held=held):
                tag = (await client.get("/docs", coding)).header("etag")
                header = held.replace("{tag}", tag).replace("{bare}", tag.strip('"'))
                answer = await client.get("/docs", {**coding, "If-None-Match": header})
                assert answer.status == status
                assert (answer.body == b"") == (status == 304)


async def test_head_describes_the_file_without_its_content(app, serve):
    request = b"%s /docs.css HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    async with serve(app) as served:
        got, told = [await served.ask(request % method) for method in (b"GET", b"HEAD")]
    head, _, body = got.partition(b"\r\n\r\n")
    assert gzip.decompress(body) == (WEB / "docs.css").read_bytes()
    without_date = re.compile(rb"date: [^\r]*\r\n")
    assert without_date.sub(b"", told) == without_date.sub(b"", head) + b"\r\n\r\n"


def test_a_missing_file_or_a_file_of_unknown_type_prevents_startup(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        static_file("missing.html")
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(KeyError):
        static_file("notes.txt")


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Return a folder with a small inbox page, from which the files are served."""
    for name, text in INBOX.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    return tmp_path


class InboxClient(Client):
    """A client that requests ``/web/app.js`` and other files at their versioned paths, as the page does."""

    def __init__(self):
        page, files = web_files()
        endpoints = {"/": page(3600), **files}
        super().__init__(serving(endpoints))
        self.versioned = {re.sub("^/web/[0-9a-f]{16}/", "/web/", path): path for path in endpoints}

    async def ask(self, method, target, *args, **more):
        return await super().ask(method, self.versioned.get(target, target), *args, **more)


@pytest.fixture
def inbox(web):
    return InboxClient()


async def test_scripts_and_styles_are_cached_permanently_below_a_version_that_changes_with_any_of_them(web):
    pages = []
    for changed in (None, "styles/card.css", "messages/de.js", "app.js", "index.html"):
        if changed:
            (web / changed).write_text((web / changed).read_text() + "\n")
        client = InboxClient()
        pages.append((await client.get("/")).body.decode())
        assert client.versioned["/web/app.js"].removeprefix("/") in pages[-1]
        assert 'href="web/icon.svg"' in pages[-1]
        for path in ("/web/app.js", "/web/inbox.css", "/web/messages.js"):
            assert (await client.get(path)).header("cache-control") == "public, max-age=31536000, immutable"
            assert (await Client(client.app).get(path)).status == 404
    assert len(set(pages)) == 5


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("/web/app.js", "run(1,2);" * 9 + "\n", "text/javascript; charset=utf-8"),
        ("/web/inbox.css", "a{top:0}" * 9 + "b{top:0}" * 9 + "\n", "text/css; charset=utf-8"),
        ("/web/icon.svg", INBOX["icon.svg"], "image/svg+xml"),
        ("/manifest.webmanifest", INBOX["manifest.webmanifest"], "application/manifest+json"),
    ],
)
async def test_the_inbox_consists_of_its_page_its_scripts_and_one_style_sheet(inbox, path, text, kind):
    answer = await inbox.get(path)
    assert (answer.status, answer.body.decode()) == (200, text)
    assert answer.header("content-type") == kind
    assert (answer.header("cache-control") == "no-cache") == (not path.endswith(("app.js", ".css")))
    assert gzip.decompress((await inbox.get(path, GZIP)).body).decode() == text


async def test_the_worker_names_the_version_of_its_cache_and_is_always_revalidated(inbox):
    answer = await inbox.get("/worker.js")
    app = inbox.versioned["/web/app.js"].removeprefix("/")
    assert answer.body.decode() == f'keep("","{app}");' * 9 + "\n"
    assert answer.header("content-type") == "text/javascript; charset=utf-8"
    assert answer.header("cache-control") == "no-cache"
    assert answer.header("content-security-policy") == WORKER_POLICY
    assert WORKER_POLICY.startswith("default-src 'none'; ")
    assert WORKER_POLICY.endswith("; connect-src 'self'")


async def test_no_other_path_leads_to_a_file_of_the_inbox(inbox):
    for path in (
        "/index.html",
        "/app.js",
        "/web",
        "//",
        "/%2e",
        *(
            f"/web/{name}"
            for name in [
                "",
                "index.html",
                "docs.css",
                "styles/page.css",
                "notes.txt",
                "messages/",
                "messages/en.js",
                "worker.js",
                "manifest.webmanifest",
                "app.js/",
                "../app.js",
            ]
        ),
    ):
        assert (await inbox.get(path)).status == 404, path


async def test_a_new_file_is_served_without_changes_to_python_code(web):
    (web / "new.js").write_text("x")
    (web / "messages/fr.js").write_text("bonjour")
    client = InboxClient()
    assert (await client.get("/web/new.js")).body == b"x"
    assert (await client.get("/web/messages.js", {"Accept-Language": "fr"})).body == b"bonjour\n"


async def test_the_inbox_may_load_its_own_files_frame_its_own_pages_and_nothing_else(inbox):
    policy = (await inbox.get("/")).header("content-security-policy")
    assert policy == INBOX_POLICY
    assert set(policy.split("; ")) == {
        "default-src 'self'",
        "object-src 'none'",
        "media-src 'none'",
        "font-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "frame-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types worker",
    }
    for path in ("/web/app.js", "/web/inbox.css", "/web/messages.js"):
        assert (await inbox.get(path)).header("content-security-policy") == "default-src 'none'"
    assert (await inbox.get("/web/icon.svg")).header("content-security-policy") == CONTENT_SECURITY_POLICY


async def test_a_page_is_isolated_from_other_windows_and_uses_no_devices(client, inbox):
    for answer in (await client.get("/docs"), await inbox.get("/")):
        assert answer.header("cross-origin-opener-policy") == "same-origin"
        assert "camera=()" in answer.header("permissions-policy")
        assert "clipboard-write" not in answer.header("permissions-policy")


async def test_the_texts_are_served_in_the_readers_language(inbox, subtests):
    for wanted, language in [
        (None, "en"),
        ("de-AT, en;q=0.5", "de"),
        ("pt-br", "pt-BR"),
        ("pt-PT, en", "pt-BR"),  # pt-BR is the only variant of Portuguese
        ("fr", "en"),
        ("§", "en"),
    ]:
        for coding in [{}, GZIP]:
            with subtests.test(wanted=wanted):
                answer = await inbox.get("/web/messages.js", coding | ({"Accept-Language": wanted} if wanted else {}))
                body = gzip.decompress(answer.body) if answer.header("content-encoding") else answer.body
                assert body.decode() == INBOX[f"messages/{language}.js"]
                assert answer.header("content-language") == language
                assert answer.header("content-type") == "text/javascript; charset=utf-8"
                shrinks = language != "pt-BR"
                assert answer.header("vary") == ("Accept-Encoding, Accept-Language" if shrinks else "Accept-Language")


@pytest.mark.parametrize(
    ("wanted", "language", "marked"),
    [
        (None, "en", '<html lang="en">'),
        ("pt", "pt-BR", '<html lang="pt-BR">'),
        ("ar-EG", "ar", '<html lang="ar" dir="rtl">'),
    ],
)
async def test_the_page_names_its_language_and_direction_before_a_script_runs(web, wanted, language, marked):
    (web / "messages/ar.js").write_text("مرحبا")
    answer = await InboxClient().get("/", {"Accept-Language": wanted} if wanted else {})
    assert answer.body.decode().startswith(marked)
    assert answer.header("content-language") == language
    assert answer.header("vary") == "Accept-Encoding, Accept-Language"
    assert answer.header("cache-control") == "no-cache"


def test_an_inbox_without_its_page_or_its_default_language_prevents_startup(web):
    for name in ("index.html", "worker.js", "messages/en.js"):
        (web / name).rename(web / "kept")
        with pytest.raises(FileNotFoundError):
            web_files()
        (web / "kept").rename(web / name)


async def test_the_application_serves_the_inbox_with_its_headers_wherever_a_proxy_puts_it(world):
    for public_url in ("", "https://host.example/mail"):
        answer = await world.client(public_url=public_url).get("/")
        page, noscript = [(WEB / name).read_text() for name in ("index.html", "noscript.html")]
        written = page.replace("<!-- noscript -->\n", noscript.replace("{lifetime}", "1 hour"))
        written = re.sub("\n +<", "\n<", re.sub("\n *<!-- (icons|links) -->", "", written))
        assert re.sub("web/[0-9a-f]{16}/", "web/", answer.body.decode()) == written
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("set-cookie") is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (90, "90 seconds"),
        (600, "10 minutes"),
        (3600, "1 hour"),
        (5400, "90 minutes"),
        (172_800, "2 days"),
    ],
)
async def test_the_page_states_the_lifetime_of_an_address_without_javascript(world, seconds, words):
    page = await world.client(lifetime_seconds=seconds).get("/")
    assert f"An address expires after {words}." in page.body.decode()


LANGUAGES = [path.stem for path in sorted((WEB / "messages").iterdir())]
API_OCTETS_OF_A_VISIT = 1_000
"""The size of the responses that create an address and start its stream, including their headers."""


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_first_visit_fetches_little_in_every_language(world, language):
    """A visit transfers less than 50,000 bytes with all response headers, and less than 150,000 bytes uncompressed."""
    client = world.client()
    wanted = {"Accept-Language": language}
    page = (await client.get("/", wanted)).body.decode()
    paths = ["/", *(f"/{path}" for path in re.findall(r'"(web/[0-9a-f]{16}/[\w.]+)"', page)), "/worker.js"]
    assert len(paths) == 5
    packed = [await client.get(path, wanted | GZIP) for path in paths]
    unpacked = [await client.get(path, wanted) for path in paths]
    on_the_wire = sum(map(size_of, packed)) + API_OCTETS_OF_A_VISIT
    assert on_the_wire < 50_000
    assert sum(len(answer.body) for answer in unpacked) + API_OCTETS_OF_A_VISIT < 150_000


def size_of(answer):
    """Return the size of a response in bytes when it is sent over HTTP/1.1."""
    date = "date: Tue, 24 Nov 2026 13:51:36 GMT"
    lines = ["HTTP/1.1 200 ", date, *(f"{name}: {value}" for name, value in answer.headers), ""]
    return sum(len(line) + 2 for line in lines) + len(answer.body)
