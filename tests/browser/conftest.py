"""A browser, the pages that it opens, and real daemons for them.

Whatever a page complains of, or fetches from elsewhere, fails its test.
"""

import json
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

QUIET = {"TMPMAILD_LOG__LEVEL": "warning"}
# Without windows and all that belongs to them, which is a third less to do.
WITHOUT_WINDOWS = peers.which("chromium-headless-shell")
CHROMIUM = peers.which("chromium")
# Of Firefox. Else each site and each sandboxed frame has a process of its own, which takes a second of the processor to
# start, and so has what is kept ready for the next; and what is shown is painted sixty times a second, without a GPU.
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
    "browser.download.alwaysOpenPanel": False,  # it would take the focus, some time after a file was saved
}
SWITCHES = [
    "--no-sandbox",
    "--disable-site-isolation-trials",  # else each frame has a process of its own, which takes long to start
    "--disable-gpu",
    "--force-prefers-reduced-motion",  # what moves is painted sixty times a second
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",  # one for each profile: it takes as long to start as a page to be drawn
    "--host-resolver-rules=MAP inbox.example 127.0.0.1, MAP elsewhere.example 127.0.0.1",  # not localhost, to a browser
]
EXPECTED = (
    "Failed to load resource",  # an answer of 400 and above, which the page shows as it should
    "The Cross-Origin-Opener-Policy header has been ignored, because the URL's origin was untrustworthy",  # plain HTTP
    "Service Worker registration blocked by Playwright",  # where a test asks for that
)
OWN = ("http://127.0.0.1:", "http://localhost:", "blob:http://127.0.0.1:", "http://inbox.example:", "data:")


@pytest.fixture(scope="session")
def anyio_backend():
    """One event loop for all tests here: the browser lives in it."""
    return "asyncio"


@pytest.fixture(scope="session")
def saved_in(tmp_path_factory):
    """Return the folder for what browsers save, except that of Chromium."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="session")
async def launch(saved_in, share_daemon):
    """Return a function that starts a browser."""
    from playwright.async_api import async_playwright  # takes a third of a second

    async with async_playwright() as playwright, AsyncExitStack() as running:

        async def launch(path):
            browser = await playwright.chromium.launch(executable_path=path, args=SWITCHES)
            running.push_async_callback(browser.close)
            return browser

        async def launch_firefox():
            (saved_in / "firefox").mkdir()
            blocked = share_daemon("daemon", **NO_LIMITS).url.replace("127.0.0.1", "localhost")
            permissions = f"data:text/plain,origin%09cookie%092%09{blocked}%0A"  # 2 is to block
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
    """Return a function that gives the browser of this name, started when the first test asks for it."""
    running = {}

    async def named_browser(name):
        if name not in running:
            running[name] = await (
                launch(WITHOUT_WINDOWS or CHROMIUM) if name == "chromium" else getattr(launch, name)()
            )
        return running[name]

    return named_browser


def pytest_generate_tests(metafunc):
    """Run in other browsers too what is marked so.

    Only Chromium has touch, a clock that is set, requests that are answered by the test while the page is elsewhere, and
    Tab that does not lead on to the bars of the browser; WebKit's driver tells nothing of requests, complaints and new
    tabs, and has one profile.
    """
    if mark := metafunc.definition.get_closest_marker("browsers"):
        metafunc.parametrize("browser_name", ["chromium", *mark.args])


PATIENCE_MS = 30_000  # other tests have the processor too
LONGEST_TEST_SECONDS = 120  # a script in a page may wait for ever, and Playwright waits with it
# Our pages part from others, so coming from about:blank each would start a process of its own.
LEFT = {
    "body": "<!doctype html><link rel=icon href='data:,'>",
    "content_type": "text/html",
    "headers": {"Cross-Origin-Opener-Policy": "same-origin"},
}
WIDE = {"width": 1440, "height": 900}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """End a test that does not end by itself."""
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
    """Go to an empty page of the same origin."""
    if name_of(page) == "webkit":
        await page.goto(urljoin(url, "/left"))  # which is not there
        return
    await page.route("**/left", lambda route: route.fulfill(**LEFT))
    await page.goto(urljoin(url, "/left"))
    await page.unroute("**/left")


class Pages:
    """Opens empty pages, each in a profile of its own unless it is a tab beside another."""

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
        """Open a page as ``open`` does, or one that an earlier test has left: a new one takes five times as long.

        Not for what cannot be undone: scripts that each page begins with, bindings, and a clock.
        """
        viewport = options.pop("viewport", WIDE)
        left = self._left.setdefault(repr(options), [])
        page = left.pop() if left else await (await self._new_context(options)).new_page()
        self._listen(page)
        await page.set_viewport_size(viewport)
        await page.bring_to_front()
        if name_of(page) == "firefox":
            await page.mouse.click(1, 1)  # the last test may have left the focus in the bars
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
        # Chromium allows copying after a click; without windows it has nobody to ask.
        # Without "null" Playwright undoes what a switch above says of motion.
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
        """Leave nothing for the next test to find."""
        for other in list(page.context.pages):
            if other is not page:
                await other.close()
        if name_of(page) != "webkit":
            # Else an answer that comes when its request has gone on is an error of the next test.
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
    """Return a function that puts inboxes into a browser as if it had made them: for others it asks before it opens them."""

    async def keep(page, daemon, *inboxes):
        if page.url != f"{daemon.url}/left":
            await go_left(page, daemon.url)
        kept = json.dumps([{"seen": [], **vars(inbox)} for inbox in inboxes])
        await page.evaluate("kept => localStorage.setItem('tmpmaild:/', kept)", kept)

    return keep


@pytest.fixture(scope="session")
def left_pages():
    """Hold the empty pages that tests have left, by the options of their profiles."""
    return {}


@pytest.fixture
async def pages(browser_name, named_browser, left_pages):
    opened = Pages(await named_browser(browser_name), left_pages.setdefault(browser_name, {}))
    yield opened
    await opened.close()


@pytest.fixture
async def desktop_pages(launch, browser):
    """Open pages in a browser with all that belongs to a desktop, such as notifications."""
    opened = Pages(await launch(CHROMIUM) if WITHOUT_WINDOWS else browser, {})
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def shared_pages(browser, left_pages):
    """Pages that several tests look at, and none changes for the next."""
    opened = Pages(browser, left_pages.setdefault("chromium", {}))
    yield opened
    await opened.close()


class Daemon(daemons.Daemon):
    """The daemon, what is asked of its API, and mail for it."""

    def close(self):
        if self.process.poll() is None:
            assert self.stop() == 0
        assert self.errors() == ""

    def request(self, path, method="GET", body=None, token=None):
        """Ask the API, and return its answer as Python has it; this counts for the rate limit of the browser."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        octets = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", octets, {**headers, "Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def create(self, **wish):
        """Return a new inbox: it has ``address``, ``token`` and ``expires_at``."""
        return SimpleNamespace(**self.request("addresses", "POST", wish))

    def extend(self, inbox, seconds):
        return self.request(f"addresses/{inbox.address}", "PATCH", {"expires_in_seconds": seconds}, inbox.token)

    def delete(self, inbox, message_id=None):
        """Delete a message, or without its id the address."""
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
        """Send a mail; ``attachments`` are ``(file name, media type, octets)``."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = sender, address, subject
        mail.set_content(text)
        if html is not None:
            mail.add_alternative(html, subtype="html")
        for name, media_type, octets in attachments:
            main, sub = media_type.split("/")
            mail.add_attachment(octets, main, sub, filename=name)
        self.deliver_octets(address, mail.as_bytes())


@pytest.fixture(scope="session")
def share_daemon(tmp_path_factory):
    """Return a function that gives the daemon of this name, which lives to the end; it takes 0.8 s to start one."""
    running = {}

    def share(name, **settings):
        if name not in running:
            running[name] = Daemon(tmp_path_factory.mktemp(name), **QUIET, **settings)
        return running[name]

    yield share
    for one in running.values():
        one.close()


@pytest.fixture
async def service(tmp_path, clock):
    """Run a service in this process."""
    async with opened_service(tmp_path / "mail.db", clock) as service:
        yield service


@pytest.fixture(scope="module")
async def serve_app():
    """Return a function that serves an application in this process until the module ends, and gives the port."""
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
    """One daemon without limits for all tests that neither restart it nor count requests."""
    return share_daemon("daemon", **NO_LIMITS)


@pytest.fixture
def mortal_daemon(share_daemon):
    """One daemon without limits for all tests that stop it; it runs again for the next."""
    daemon = share_daemon("mortal", **NO_LIMITS)
    if daemon.process.poll() is not None:
        daemon.start()
    return daemon


@pytest.fixture
def start_daemon(tmp_path_factory):
    """Return a function that starts a daemon as in production; settings are ``TMPMAILD_…="…"``."""
    running = []

    def start(**settings):
        running.append(Daemon(tmp_path_factory.mktemp("daemon"), **QUIET, **settings))
        return running[-1]

    yield start
    for one in running:
        one.close()
