"""The documentation as a site: no broken links, nothing from other hosts, and a working search."""

import functools
import http.server
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from playwright.sync_api import sync_playwright

import peers
from blocks import ROOT

SITE = ROOT / "build/site/html"


@pytest.fixture(scope="module")
def site():
    """Yield the URL of the newly built site."""
    subprocess.run([sys.executable, "tools/website.py"], cwd=ROOT, check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Page(HTMLParser):
    """A page's links, loaded files, ids, and any paragraphs that look like unrendered lists or code."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids = set(), set(), set()
        self.feed(text)
        self.broken_lists = re.findall(r"<p>\d+\. .*|<p>```.*|<code>```.*", text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        self.links.add(given.get("href") if tag == "a" else None)
        self.loaded.add(given.get("src") or (given.get("href") if tag == "link" else None))


def test_every_link_of_every_page_works(site):
    pages = {path.relative_to(SITE).as_posix(): Page(path.read_text()) for path in SITE.rglob("*.html")}
    assert len(pages) > 30
    ids = {page.removesuffix("index.html"): found.ids for page, found in pages.items()}
    for name, page in pages.items():
        assert page.broken_lists == [], name
        for link in filter(None, page.links | page.loaded):
            url, fragment = urldefrag(urljoin(f"{site}{name}", link))
            place = unquote(urlsplit(url).path).lstrip("/")
            if url.startswith(site) and name != "404.html":
                assert (SITE / place).exists(), (name, link)
                assert not fragment or place not in ids or unquote(fragment) in ids[place], (name, link)
        elsewhere = {link for link in filter(None, page.loaded) if urlsplit(urljoin(site, link)).netloc not in site}
        assert elsewhere == set(), name


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    pages = {path.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern)}
    assert named == pages | {"clients/typescript/README.md"}


@pytest.mark.needs("chromium")
def test_a_browser_contacts_no_other_host_and_the_search_works(site):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=peers.which("chromium-headless-shell"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("", "docs/api/", "docs/testing/pytest/"):
            page.goto(f"{site}{name}", wait_until="networkidle")
        page.keyboard.press("/")
        page.keyboard.type("greylisting")
        page.get_by_role("link", name=re.compile("When mail is refused")).first.wait_for()
        browser.close()
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
