"""Browsers, the pages opened in them, and real daemons for those pages.

A test fails if its page logs an error or sends a request to a different site.
"""

import json
import re
import socket
import urllib.request
from contextlib import AsyncExitStack
from email.message import EmailMessage
from functools import wraps
from inspect import iscoroutinefunction
from types import SimpleNamespace
from urllib.parse import urljoin

import anyio
import pytest
from services import opened_service

import daemons
import peers
from daemons import NO_LIMITS
from tmpmaild.http.server import HttpServer
from warm import Program

QUIET = {"TMPMAILD_LOG__LEVEL": "warning"}
# The headless shell has no windows and no desktop features, which saves a third of the CPU time.
WITHOUT_WINDOWS = peers.which("chromium-headless-shell")
CHROMIUM = peers.which("chromium")
# Settings for Firefox. By default, every site and sandboxed frame runs in its own process, which takes a second of
# processor time to start. The spare processes that Firefox keeps ready take just as long. Firefox would also paint
# sixty times a second, which is slow without a GPU.
PREFERENCES = {
    "ui.prefersReducedMotion": 1,
    "ui.caretBlinkTime": 0,
    "layout.frame_rate": 20,
    "fission.autostart": False,
    "dom.ipc.processCount": 1,
    "dom.ipc.processPrelaunch.enabled": False,
    "browser.tabs.remote.separatePrivilegedContentProcess": False,
    "extensions.webextensions.remote": False,
    "browser.sessionstore.interval": 3_600_000,
    "browser.download.alwaysOpenPanel": False,  # the panel would receive the focus shortly after a file is saved
}
SWITCHES = [
    "--no-sandbox",
    "--disable-site-isolation-trials",  # otherwise each frame would have its own process, which is slow to start
    "--disable-gpu",
    "--force-prefers-reduced-motion",  # an animation would be painted sixty times a second
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",  # one process per profile: starting a process takes as long as drawing a page
    # Host names other than localhost.
    "--host-resolver-rules=MAP inbox.example 127.0.0.1, MAP elsewhere.example 127.0.0.1",
]
EXPECTED = (
    "Failed to load resource",  # a response with status 400 or higher, which the page handles
    "The Cross-Origin-Opener-Policy header has been ignored, because the URL's origin was untrustworthy",  # plain HTTP
    "Service Worker registration blocked by Playwright",  # logged when a test blocks service workers
)
OWN = ("http://127.0.0.1:", "http://localhost:", "blob:http://127.0.0.1:", "http://inbox.example:", "data:")


@pytest.fixture(scope="session")
def anyio_backend():
    """Use one event loop for all tests in this folder: the browser is bound to it."""
    return "asyncio"


@pytest.fixture(scope="session")
def saved_in(tmp_path_factory):
    """Return the folder in which browsers other than Chromium save files."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="session")
async def launch(saved_in, share_daemon):
    """Return a function that starts a browser."""
    from playwright.async_api import async_playwright  # the import takes a third of a second

    async with async_playwright() as playwright, AsyncExitStack() as running:

        async def launch(path):
            browser = await playwright.chromium.launch(executable_path=path, args=SWITCHES)
            running.push_async_callback(browser.close)
            return browser

        async def launch_firefox():
            (saved_in / "firefox").mkdir()
            blocked = share_daemon("daemon", **NO_LIMITS).url.replace("127.0.0.1", "localhost")
            permissions = f"data:text/plain,origin%09cookie%092%09{blocked}%0A"  # 2 means that cookies are blocked
            browser = await playwright.firefox.launch(
                channel="moz-firefox",
                executable_path=peers.which("firefox-esr"),
                firefox_user_prefs={**PREFERENCES, "permissions.manager.defaultsUrl": permissions},
                downloads_path=saved_in / "firefox",
            )
            running.push_async_callback(browser.close)
            return browser

        async def launch_webkit():
            import webkit

            (saved_in / "webkit").mkdir()
            browser = webkit.WebkitBrowser(saved_in / "webkit")
            running.push_async_callback(browser.close)
            return browser

        launch.firefox, launch.webkit = launch_firefox, launch_webkit
        yield launch


@pytest.fixture(scope="session")
async def browser(named_browser):
    return await named_browser("chromium")


@pytest.fixture
def browser_name():
    return "chromium"


@pytest.fixture(scope="session")
def named_browser(launch):
    """Return a function that returns a browser by name and starts it on first use."""
    running = {}

    async def named_browser(name):
        if name not in running:
            running[name] = await (
                launch(WITHOUT_WINDOWS or CHROMIUM) if name == "chromium" else getattr(launch, name)()
            )
        return running[name]

    return named_browser


def pytest_generate_tests(metafunc):
    """Also run tests with the ``browsers`` mark in the browsers that the mark names.

    Only Chromium supports touch, a fake clock, and the interception of requests while the page is at a different URL.
    Only Chromium never moves the focus to its toolbars when Tab is pressed. WebKit's driver does not report requests,
    console messages or new tabs, and has only one profile.
    """
    if mark := metafunc.definition.get_closest_marker("browsers"):
        metafunc.parametrize("browser_name", ["chromium", *mark.args])


PATIENCE_MS = 30_000  # other tests may be using the CPU at the same time
LONGEST_TEST_SECONDS = 120  # Playwright waits for the page's script, which may never finish
# Our pages are isolated from other origins, so navigating to them from about:blank would start another process.
LEFT = {
    "body": "<!doctype html><link rel=icon href='data:,'>",
    "content_type": "text/html",
    "headers": {"Cross-Origin-Opener-Policy": "same-origin"},
}
WIDE = {"width": 1440, "height": 900}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Abort a test that runs too long."""
    run = pyfuncitem.obj
    if iscoroutinefunction(run):

        @wraps(run)
        async def run_bounded(*args, **kwargs):
            with anyio.fail_after(LONGEST_TEST_SECONDS):
                await run(*args, **kwargs)

        pyfuncitem.obj = run_bounded


def name_of(page):
    return page.context.browser.browser_type.name


async def go_left(page, url):
    """Go to an empty page with the same origin."""
    if name_of(page) == "webkit":
        await page.goto(urljoin(url, "/left"))  # this page does not exist
        return
    await page.route("**/left", lambda route: route.fulfill(**LEFT))
    await page.goto(urljoin(url, "/left"))
    await page.unroute("**/left")


class Pages:
    """Opens empty pages, each in its own profile, except tabs opened next to an existing page."""

    def __init__(self, browser, left):
        self._browser = browser
        self._left = left
        self._contexts = []
        self._borrowed = []
        self._complaints = []

    async def open(self, beside=None, **options):
        context = beside.context if beside else await self._new_context(options)
        if not beside:
            self._contexts.append(context)
        return await self._new_page(context)

    async def borrow(self, **options):
        """Open a page like ``open``, or reuse a page from an earlier test: a new page takes five times as long.

        Do not use it in tests that make irreversible changes: init scripts, bindings, or a fake clock.
        """
        viewport = options.pop("viewport", WIDE)
        left = self._left.setdefault(repr(options), [])
        page = left.pop() if left else await (await self._new_context(options)).new_page()
        self._listen(page)
        await page.set_viewport_size(viewport)
        await page.bring_to_front()
        if name_of(page) == "firefox":
            await page.mouse.click(1, 1)  # the previous test may have left the focus in a toolbar
        self._borrowed.append((page, left))
        return page

    async def _new_page(self, context):
        page = await context.new_page()
        self._listen(page)
        return page

    def _listen(self, page):
        page.on("console", self._on_console)
        page.on("pageerror", self._on_error)
        page.on("request", self._on_request)

    async def _new_context(self, options):
        # Chromium allows copying after a click, but without windows it cannot ask for permission. Without "null",
        # Playwright overrides the command-line switch for reduced motion.
        defaults = {"viewport": WIDE}
        if self._browser.browser_type.name == "chromium":
            defaults |= {"permissions": ["clipboard-write"], "reduced_motion": "null"}
        context = await self._browser.new_context(**{**defaults, **options})
        context.set_default_timeout(PATIENCE_MS)
        return context

    async def close(self):
        for context in self._contexts:
            await context.close()
        for page, left in self._borrowed:
            if page.is_closed():
                await page.context.close()
            else:
                await self.clear(page)
                self._forget(page)
                left.append(page)
        assert self._complaints == []

    async def clear(self, page):
        """Reset a page for the next test."""
        for other in list(page.context.pages):
            if other is not page:
                await other.close()
        if name_of(page) != "webkit":
            # Otherwise, a late response to an intercepted request would fail the next test.
            await page.unroute_all(behavior="wait")
            await page.context.unroute_all(behavior="wait")
            media = ["media", "color_scheme", "reduced_motion", "forced_colors"]
            await page.emulate_media(**dict.fromkeys(media, "null"))
        if page.url.startswith("http"):
            await page.evaluate("[localStorage.clear(), sessionStorage.clear()]")
            await go_left(page, page.url)

    def _forget(self, page):
        page.remove_listener("console", self._on_console)
        page.remove_listener("pageerror", self._on_error)
        page.remove_listener("request", self._on_request)

    def _on_error(self, error):
        self._complaints.append(str(error))

    def _on_console(self, message):
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self._complaints.append(message.text)

    def _on_request(self, request):
        if not request.url.startswith(OWN):
            self._complaints.append(f"asked for {request.url}")


@pytest.fixture(scope="session")
def keep():
    """Return a function that stores inboxes as the browser's own; the page asks before opening any other inbox."""

    async def keep(page, daemon, *inboxes):
        if page.url != f"{daemon.url}/left":
            await go_left(page, daemon.url)
        kept = json.dumps([{"seen": [], **vars(inbox)} for inbox in inboxes])
        await page.evaluate("kept => localStorage.setItem('tmpmaild:/', kept)", kept)

    return keep


@pytest.fixture(scope="session")
def left_pages():
    """Return a store for the empty pages of earlier tests, grouped by the options of their profiles."""
    return {}


@pytest.fixture
async def pages(browser_name, named_browser, left_pages):
    opened = Pages(await named_browser(browser_name), left_pages.setdefault(browser_name, {}))
    yield opened
    await opened.close()


@pytest.fixture
async def desktop_pages(launch, browser):
    """Open pages in a browser with desktop features, such as notifications."""
    opened = Pages(await launch(CHROMIUM) if WITHOUT_WINDOWS else browser, {})
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def shared_pages(browser, left_pages):
    """Open pages that are shared by tests that do not change them."""
    opened = Pages(browser, left_pages.setdefault("chromium", {}))
    yield opened
    await opened.close()


class Daemon(daemons.Daemon):
    """A daemon, with methods that call its API and send mail to it."""

    def close(self):
        if self.process.poll() is None:
            assert self.stop() == 0
        assert self.errors() == ""

    def request(self, path, method="GET", body=None, token=None):
        """Send a request to the API and return the parsed JSON response.

        The request counts toward the browser's rate limit.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        octets = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", octets, {**headers, "Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def create(self, **wish):
        """Return a new inbox with its ``address``, ``token`` and ``expires_at``."""
        return SimpleNamespace(**self.request("addresses", "POST", wish))

    def extend(self, inbox, seconds):
        return self.request(f"addresses/{inbox.address}", "PATCH", {"expires_in_seconds": seconds}, inbox.token)

    def delete(self, inbox, message_id=None):
        """Delete a message, or the address if no id is given."""
        message = f"/messages/{message_id}" if message_id else ""
        self.request(f"addresses/{inbox.address}{message}", "DELETE", token=inbox.token)

    def deliver(
        self,
        address,
        subject="Hello",
        *,
        sender="Alice <alice@example.com>",
        text="It works.",
        html=None,
        attachments=(),
    ):
        """Send a message; ``attachments`` are ``(file name, media type, bytes)``."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = sender, address, subject
        mail.set_content(text)
        if html is not None:
            mail.add_alternative(html, subtype="html")
        for name, media_type, octets in attachments:
            main, sub = media_type.split("/")
            mail.add_attachment(octets, main, sub, filename=name)
        self.deliver_raw(address, mail.as_bytes())


class Catcher(Daemon):
    """A running ``tmpmaild catch``; after a restart it has the same ports but no messages."""

    def __init__(self, folder, *options, **settings):
        self._options = options
        super().__init__(folder, **settings)

    def start(self):
        with (self.folder / "stderr.txt").open("ab") as stderr:
            given = {"env": self._environ, "stderr": stderr.fileno()}
            self.process = Program(["catch", *self._options], cwd=self.folder, text=True, **given)
        banner = self.process.stdout.readline() + self.process.stdout.readline()
        self.smtp_port = int(re.search(r"SMTP on [\d.]+:(\d+)", banner)[1])
        self.http_port = int(re.search(r"http://[\d.]+:(\d+)/ ", banner)[1])
        self._environ["TMPMAILD_HTTP__LISTEN"] = f"127.0.0.1:{self.http_port}"
        self._environ["TMPMAILD_SMTP__LISTEN"] = f"127.0.0.1:{self.smtp_port}"

    def send(self, *subjects, to=("anna@shop.example",), sender="Shop <shop@shop.example>", **mail):
        for subject in subjects:
            message = EmailMessage()
            message["From"], message["To"], message["Subject"] = sender, to[0], subject
            message.set_content(mail.get("text", f"This is {subject}."))
            if html := mail.get("html"):
                message.add_alternative(html, subtype="html")
            for name, octets in mail.get("attachments", ()):
                message.add_attachment(octets, "text", "plain", filename=name)
            with self.smtp() as client:
                assert client.sendmail("shop@shop.example", list(to), message.as_bytes()) == {}

    def subjects(self, query=""):
        return [message["subject"] for message in self.request(f"messages{query}")["messages"]]

    def errors(self):
        """Return the errors, except the warning that ``tests/e2e/test_catch.py`` checks."""
        return "".join(
            line for line in super().errors().splitlines(keepends=True) if "can read all messages" not in line
        )


@pytest.fixture(scope="session")
def share_daemon(tmp_path_factory):
    """Return a function that returns a daemon by name.

    Daemons run until the session ends; starting one takes 0.8 s.
    """
    running = {}

    def share(name, **settings):
        if name not in running:
            running[name] = Daemon(tmp_path_factory.mktemp(name), **QUIET, **settings)
        return running[name]

    yield share
    for one in running.values():
        one.close()


@pytest.fixture(scope="session")
def shared_catcher(tmp_path_factory):
    """Run one catcher for all tests of its page."""
    catcher = Catcher(tmp_path_factory.mktemp("catcher"), **QUIET)
    yield catcher
    catcher.close()


@pytest.fixture
def start_catcher(tmp_path):
    """Return a function that starts a catcher with the given options and settings."""
    running = []

    def start(*options, **settings):
        running.append(Catcher(tmp_path, *options, **QUIET, **settings))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
async def service(tmp_path, clock):
    """Run a service in this process."""
    async with opened_service(tmp_path / "mail.db", clock) as service:
        yield service


@pytest.fixture(scope="module")
async def serve_app():
    """Return a function that serves an application in this process until the module ends; it returns the port."""
    async with AsyncExitStack() as stack:

        async def serve_app(app):
            listener = socket.create_server(("127.0.0.1", 0))
            server = HttpServer(app, max_connections=0)
            await server.start([listener])
            stack.push_async_callback(server.stop, 0.2)
            return listener.getsockname()[1]

        yield serve_app


@pytest.fixture(scope="session")
def daemon(share_daemon):
    """Run a daemon without limits, shared by all tests that neither restart it nor count requests."""
    return share_daemon("daemon", **NO_LIMITS)


@pytest.fixture
def mortal_daemon(share_daemon):
    """Run a daemon without limits that tests may stop; it is restarted before the next test."""
    daemon = share_daemon("mortal", **NO_LIMITS)
    if daemon.process.poll() is not None:
        daemon.start()
    return daemon


@pytest.fixture
def start_daemon(tmp_path_factory):
    """Return a function that starts a daemon with the default limits and the given ``TMPMAILD_…`` variables."""
    running = []

    def start(**settings):
        running.append(Daemon(tmp_path_factory.mktemp("daemon"), **QUIET, **settings))
        return running[-1]

    yield start
    for one in running:
        one.close()
