"""A browser, the pages that it opens, and real daemons for them.

Whatever a page complains of, or fetches from elsewhere, fails its test.
"""

import json
import os
import re
import shutil
import smtplib
import subprocess
import sys
import urllib.request
from email.message import EmailMessage
from types import SimpleNamespace

import pytest

CHROMIUM = shutil.which("chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP inbox.example 127.0.0.1, MAP elsewhere.example 127.0.0.1",  # not localhost, to a browser
]
EXPECTED = (
    "Failed to load resource",  # an answer of 400 and above, which the page shows as it should
    "The Cross-Origin-Opener-Policy header has been ignored, because the URL's origin was untrustworthy",  # plain HTTP
)
OWN = ("http://127.0.0.1:", "http://inbox.example:", "data:")


@pytest.fixture(scope="session")
def anyio_backend():
    """One event loop for all tests here: the browser lives in it."""
    return "asyncio"


@pytest.fixture(scope="session")
async def browser():
    api = pytest.importorskip("playwright.async_api", reason="the Python package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        await browser.close()


class Pages:
    """Opens empty pages, each in a profile of its own unless it is a tab beside another."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self._complaints = []

    async def open(self, beside=None, **options):
        context = beside.context if beside else await self._new_context(options)
        page = await context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", self._on_request)
        return page

    async def _new_context(self, options):
        context = await self._browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.set_default_timeout(5000)
        self._contexts.append(context)
        return context

    async def close(self):
        for context in self._contexts:
            await context.close()
        assert self._complaints == []

    def _on_console(self, message):
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self._complaints.append(message.text)

    def _on_request(self, request):
        if not request.url.startswith(OWN):
            self._complaints.append(f"asked for {request.url}")


@pytest.fixture
async def pages(browser):
    opened = Pages(browser)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def shared_pages(browser):
    """Pages that several tests look at, and none changes for the next."""
    opened = Pages(browser)
    yield opened
    await opened.close()


NO_LIMITS = {
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "0",
    "TMPMAILD_ADDRESSES__MAX_BYTES": str(1 << 30),
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
}
_places = re.compile(r"HTTP on (127\.0\.0\.1:\d+)\s+SMTP on (127\.0\.0\.1:\d+)").search


class Daemon:
    """A ``tmpmaild serve`` that keeps its ports and its database when it is started again."""

    def __init__(self, folder, settings):
        self._folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
        self._environ = {**clean, "PYTHONWARNINGS": "error", "TMPMAILD_LOG__LEVEL": "warning", **settings}
        self._listen("127.0.0.1:0", "127.0.0.1:0")
        self.start()

    @property
    def url(self):
        return f"http://{self._http}"

    def start(self):
        with (self._folder / "stderr.txt").open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tmpmaild", "serve"],
                cwd=self._folder,
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        banner = ""
        while not (places := _places(banner)):
            line = self._process.stdout.readline()
            assert line, f"it did not start: {self._errors()}"
            banner += line
        self._listen(*places.groups())

    def stop(self):
        self._process.terminate()
        assert self._process.wait(10) == 0
        self._process.stdout.close()

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        if self._process.poll() is None:
            self.stop()
        assert self._errors() == ""

    def request(self, path, method="GET", body=None, token=None):
        """Ask the API, and return its answer as Python has it; this counts for the rate limit of the browser."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        octets = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", octets, {**headers, "Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
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

    def deliver_octets(self, address, *mails, sender="alice@example.com"):
        """Send mails as they are, in one session."""
        host, port = self._smtp.split(":")
        with smtplib.SMTP(host, int(port), local_hostname="localhost") as client:
            for octets in mails:
                client.sendmail(sender, [address], octets)

    def _listen(self, http, smtp):
        self._http, self._smtp = http, smtp
        self._environ |= {"TMPMAILD_HTTP__LISTEN": http, "TMPMAILD_SMTP__LISTEN": smtp}

    def _errors(self):
        return (self._folder / "stderr.txt").read_text()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """One daemon without limits for all tests that neither restart it nor count requests."""
    running = Daemon(tmp_path_factory.mktemp("daemon"), NO_LIMITS)
    yield running
    running.close()


@pytest.fixture
def start_daemon(tmp_path_factory):
    """Return a function that starts a daemon as in production; settings are ``TMPMAILD_…="…"``."""
    running = []

    def start(**settings):
        running.append(Daemon(tmp_path_factory.mktemp("daemon"), settings))
        return running[-1]

    yield start
    for one in running:
        one.close()
