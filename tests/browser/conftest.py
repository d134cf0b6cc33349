"""A browser, and the pages that it opens: whatever a page complains of, or fetches from elsewhere, fails its test."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


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
    """Opens empty pages, each in a profile of its own."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self._complaints = []

    async def open(self, **options):
        context = await self._browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.set_default_timeout(5000)
        self._contexts.append(context)
        page = await context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", self._on_request)
        return page

    async def close(self):
        for context in self._contexts:
            await context.close()
        assert self._complaints == []

    def _on_console(self, message):
        # An answer of 400 and above is told as an error, although the page shows it as it should.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self._complaints.append(message.text)

    def _on_request(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "data:")):
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
