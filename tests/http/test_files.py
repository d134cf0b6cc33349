"""The files of the web pages: how they are served, and what they may hold."""

import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tmpmaild.http import files
from tmpmaild.http.files import DOCS_POLICY, StaticFile, docs_files
from tmpmaild.http.headers import CONTENT_SECURITY_POLICY
from tmpmaild.http.resource import Resource

from .conftest import Client

ROOT = Path(__file__).parents[2]
WEB = ROOT / "tmpmaild/web"
FILES = {"/docs": "docs.html", "/docs.css": "docs.css", "/docs.js": "docs.js"}
GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture
def anyio_backend():
    """One event loop will do: nothing here depends on it."""
    return "asyncio"


def serving(endpoints):
    app = Starlette(routes=[Route(path, Resource(get=endpoint)) for path, endpoint in endpoints.items()])
    app.router.redirect_slashes = False
    return app


@pytest.fixture
def app():
    return serving(docs_files())


@pytest.fixture
def client(app):
    return Client(app)


@pytest.mark.parametrize(("path", "name"), FILES.items())
async def test_a_file_comes_as_it_is_on_disk(client, path, name):
    answer = await client.get(path)
    assert answer.status == 200
    assert answer.body == (WEB / name).read_bytes()
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("content-encoding") is None
    assert answer.header("cache-control") == "no-cache"
    assert answer.header("vary") == "Accept-Encoding"


@pytest.mark.parametrize(("path", "kind"), [("/docs", "html"), ("/docs.css", "css"), ("/docs.js", "javascript")])
async def test_a_content_type_names_its_charset(client, path, kind):
    answer = await client.get(path)
    assert answer.header("content-type") == f"text/{kind}; charset=utf-8"


async def test_the_page_may_load_its_own_files_and_nothing_else(client):
    answer = await client.get("/docs")
    assert answer.header("content-security-policy") == DOCS_POLICY
    assert "unsafe" not in DOCS_POLICY
    assert DOCS_POLICY.startswith("default-src 'none'; ")


async def test_a_file_that_is_opened_by_itself_may_do_nothing(client):
    for path in ("/docs.css", "/docs.js"):
        answer = await client.get(path)
        assert answer.header("content-security-policy") == CONTENT_SECURITY_POLICY


async def test_no_other_path_leads_to_a_file(client):
    for path in ("/docs/", "/docs.html", "/docs/../docs.js", "/docs.js/", "/docs%2ejs%00", "/..%2fhttp%2ffiles.py"):
        assert (await client.get(path)).status == 404, path


WANTS_GZIP = [
    ("gzip", True),
    ("GZIP", True),
    ("deflate, gzip, br", True),
    ("gzip;q=0.5", True),
    ("gzip ; q=1.000", True),
    ("x-gzip", True),
    ("*", True),
    ("br;q=1, *;q=0.1", True),
    ("identity;q=0.5, gzip", True),
    ("gzip;q=0", False),
    ("gzip;Q=0.000", False),
    ("gzip;q=0, *", False),  # what is named is not meant by the star
    ("identity, gzip;q=0.5", False),
    ("br", False),
    ("identity", False),
    ("", False),
    (None, False),
    ("gzip;q=2", False),  # malformed: as if it were not there
    ("gzip;q=nan", False),
    ("gzip;level=9", False),
    ("gzipped", False),
]


@pytest.mark.parametrize(("accepted", "packed"), WANTS_GZIP)
async def test_gzip_goes_to_those_who_want_it(client, accepted, packed):
    answer = await client.get("/docs.js", {} if accepted is None else {"Accept-Encoding": accepted})
    assert answer.header("content-encoding") == ("gzip" if packed else None)
    plain = gzip.decompress(answer.body) if packed else answer.body
    assert plain == (WEB / "docs.js").read_bytes()
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("vary") == "Accept-Encoding"


async def test_what_gzip_does_not_make_smaller_is_never_packed(tmp_path, monkeypatch):
    (tmp_path / "tiny.css").write_text("a{}")
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    answer = await Client(serving({"/tiny.css": StaticFile("tiny.css")})).get("/tiny.css", GZIP)
    assert answer.body == b"a{}"
    assert answer.header("content-encoding") is None
    assert answer.header("vary") is None


async def test_each_representation_has_its_own_strong_entity_tag(client):
    tags = [(await client.get(path, headers)).header("etag") for path in FILES for headers in ({}, GZIP)]
    assert len(set(tags)) == 6
    assert [tag for tag in tags if not re.fullmatch(r'"[0-9a-f]{32}"', tag)] == []


async def test_an_entity_tag_stays_while_the_content_does_and_changes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    tags = []
    for text in ("a", "a", "b"):
        (tmp_path / "x.js").write_text(text)
        tags.append((await Client(serving({"/x": StaticFile("x.js")})).get("/x")).header("etag"))
    assert tags[0] == tags[1] != tags[2]


HOLDS = [
    ("{tag}", 304),
    ("W/{tag}", 304),  # a proxy that packs weakens the tag
    ('"other", {tag}', 304),
    ('"other",W/{tag} , "more"', 304),
    ("*", 304),
    ('"other"', 200),
    ('W/"other", "more"', 200),
    ('"{bare}x"', 200),
    ("{bare}", 200),  # a tag without quotes is none
    ('"', 200),
    ("", 200),
    ('"*"', 200),
    ('""' * 4000, 200),
]


@pytest.mark.parametrize(("held", "status"), HOLDS)
@pytest.mark.parametrize("coding", [{}, GZIP])
async def test_what_a_client_holds_is_not_sent_again(client, coding, held, status):
    tag = (await client.get("/docs", coding)).header("etag")
    header = held.replace("{tag}", tag).replace("{bare}", tag.strip('"'))
    answer = await client.get("/docs", {**coding, "If-None-Match": header})
    assert answer.status == status
    assert (answer.body == b"") == (status == 304)


async def test_the_plain_form_is_not_the_packed_one(client):
    tag = (await client.get("/docs")).header("etag")
    assert (await client.get("/docs", {**GZIP, "If-None-Match": tag})).status == 200


async def test_not_modified_says_what_a_cache_must_know(client):
    full = await client.get("/docs", GZIP)
    answer = await client.get("/docs", {**GZIP, "If-None-Match": full.header("etag")})
    for name in ("etag", "cache-control", "vary", "content-security-policy"):
        assert answer.header(name) == full.header(name), name
    for name in ("content-type", "content-length", "content-encoding"):
        assert answer.header(name) is None, name


async def test_head_tells_of_the_file_and_holds_nothing_of_it(app, serve):
    request = b"%s /docs.js HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    async with serve(app) as served:
        got, told = [await served.ask(request % method) for method in (b"GET", b"HEAD")]
    head, _, body = got.partition(b"\r\n\r\n")
    assert gzip.decompress(body) == (WEB / "docs.js").read_bytes()
    without_date = re.compile(rb"date: [^\r]*\r\n")
    assert without_date.sub(b"", told) == without_date.sub(b"", head) + b"\r\n\r\n"


async def test_another_method_is_told_what_is_allowed(client):
    answer = await client.ask("OPTIONS", "/docs")
    assert (answer.status, answer.header("allow")) == (204, "GET, HEAD, OPTIONS")


def test_a_file_that_is_missing_or_of_no_known_kind_stops_the_start(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        StaticFile("missing.html")
    monkeypatch.setattr(files, "_FOLDER", tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(KeyError):
        StaticFile("notes.txt")


def test_the_viewer_is_small():
    assert sum((WEB / name).stat().st_size for name in FILES.values()) < 30_000


def test_the_viewer_loads_nothing_from_elsewhere():
    html, css, script = [(WEB / name).read_text() for name in FILES.values()]
    named = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert {name for name in named if not name.startswith("data:image/svg+xml,")} == {
        "#content",
        "api/v1/openapi.json",
        "docs.css",
        "docs.js",
    }
    assert not re.search(r"@import|url\(", css)
    assert not re.search(r"""["'`](?:https?:)?//|\bimport\b|\bimportScripts|WebSocket|EventSource""", script)


def test_the_viewer_knows_no_path_from_the_root():
    """Below a path prefix only relative references lead to our files."""
    for name in FILES.values():
        assert not re.search(r"""["'(]/(?:docs|api)""", (WEB / name).read_text()), name


def test_the_viewer_makes_no_markup_and_no_code_of_text():
    html, _, script = [(WEB / name).read_text() for name in FILES.values()]
    assert not re.search(r"""<[^>]*\s(?:on\w+|style)\s*=|<style|<script(?![^>]*\ssrc=)|javascript:""", html)
    assert not re.search(r"\b(?:inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|srcdoc", script)


def test_the_viewer_stores_nothing():
    assert not re.search(r"\b(?:local|session)Storage|indexedDB|\.cookie\b|caches\.", (WEB / "docs.js").read_text())


def test_the_wheel_carries_the_files(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tmpmaild/web/")}
    assert packed == {f"tmpmaild/web/{path.name}" for path in WEB.iterdir()}
