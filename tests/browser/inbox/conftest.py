"""The web inbox as a user sees it: elements by role and name, in a tab connected to a real daemon."""

from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest


@pytest.fixture(scope="session")
def expect():
    from playwright import async_api

    async_api.expect.set_options(timeout=1000 * PATIENCE_SECONDS)  # its five seconds are too short on a slow machine
    return async_api.expect


PATIENCE_SECONDS = 30
PARTIAL = (".part", ".wkdownload")  # suffixes that Firefox and WebKit use until a download is complete


def newly_saved(folder, before):
    """Return the only new file in a folder, once it is complete."""
    come = set(folder.iterdir()) - before
    if len(come) != 1 or (one := come.pop()).suffix in PARTIAL:
        return None
    return one if one.stat().st_size else None


class InboxTab:
    """One tab. ``asked`` contains its API requests, and ``refused`` the URLs of responses with status 429.

    WebKit's driver does not report requests, so ``asked`` and ``refused`` stay empty and ``tells`` is false. The
    ``answered`` method also works in WebKit.
    """

    def __init__(self, expect, saved_in, page, daemon):
        self.page = page
        self.daemon = daemon
        self._expect = expect
        self._saved_in = saved_in
        self.asked = []
        self.refused = []
        self.tells = page.context.browser.browser_type.name != "webkit"  # True if the driver reports requests
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        self.card = page.locator("#card")
        self.state = page.get_by_role("banner").get_by_role("status")
        self.list = page.locator("#list")
        self.rows = self.list.get_by_role("listitem")
        self.reader = page.get_by_role("article")
        self.mail = self.reader.frame_locator("iframe")
        self.dialog = page.get_by_role("dialog")
        self.inboxes = page.get_by_role("navigation", name="Your inboxes")
        self.choices = self.inboxes.locator("[aria-current]")

    def button(self, name, within=None):
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def heading(self, name):
        return self.page.get_by_role("heading", name=name, exact=True)

    def row(self, subject):
        """Return the button that opens the message with this subject."""
        return self.rows.filter(has_text=subject).get_by_role("button").first

    @asynccontextmanager
    async def held(self, pattern):
        """Delay the requests whose URL matches until the block ends."""
        may_go = anyio.Event()

        async def go(route):
            await may_go.wait()
            await route.continue_()

        await self.page.context.route(pattern, go)
        try:
            yield
        finally:
            may_go.set()

    async def visit(self, link="", url=None):
        await self.page.goto(f"{url or self.daemon.url}/{link}")
        return self

    async def follow(self, inbox, *, token=True):
        """Follow a link to an inbox that another browser created, and open it."""
        await self.visit(f"#{inbox.address}" + (f".{inbox.token}" if token else ""))
        await self.button("Someone sent it", self.dialog).click()
        return self

    async def until_live(self):
        await self.page.get_by_text("Live", exact=True).wait_for()
        return self

    async def address(self):
        shown = self.card.locator(".address", has_text="@")
        await shown.wait_for()
        return await shown.text_content()

    def titled(self, title):
        """Return the card with this title, which is hidden on small screens."""
        return self.page.get_by_role("region", name=title, exact=True)

    async def choose(self, name):
        """Select an item in one of the card's menus."""
        await self.card.get_by_role("timer").wait_for()
        menu = "New address" if name in ("Random", "Choose a name") else "More"
        await self.button(menu, self.card).click()
        await self.card.get_by_role("menuitem", name=name).click()

    async def request_another(self):
        """Click the button that creates an address; the button has no menu if no address is open."""
        has_menu = await self.card.get_by_role("timer").count()
        await self.button("New address", self.card).click()
        if has_menu:
            await self.card.get_by_role("menuitem", name="Random", exact=True).click()

    async def another(self):
        """Create an address and wait until it is shown.

        Until then, the page still opens mail to the previous address.
        """
        previous = self.card.locator(".address", has_text="@")
        shown = await previous.text_content() if await previous.count() else None
        await self.request_another()
        await self.card.locator(".address", has_text="@", has_not_text=shown).wait_for()

    async def until_subjects(self, *subjects):
        """Wait until the list contains exactly these messages, newest first."""
        await self._expect(self.list.locator(".subject")).to_have_text(list(subjects))

    async def open(self, subject):
        await self.row(subject).click()
        await self.reader.get_by_role("heading", name=subject, exact=True).wait_for()

    async def end(self):
        """Delete the current address, and leave the page immediately so that the deletion cannot be undone."""
        await self.choose("Delete")
        await self.page.evaluate("dispatchEvent(new Event('pagehide'))")

    def expect_deletions(self, count=1):
        """Return a context manager that waits for the responses to this many deletions."""
        answers = []

        def is_last(answer):
            answers.append(answer.request.method == "DELETE")
            return sum(answers) == count

        return self.page.expect_response(is_last)

    async def send_deletions(self, count=1):
        """Send the deletions that could still be undone, as the page does when the user leaves it."""
        address = f"addresses/{await self.address()}"
        left = self.daemon.request(address)["message_count"] - count
        await self.page.evaluate("dispatchEvent(new Event('pagehide'))")
        with anyio.fail_after(PATIENCE_SECONDS):
            while self.daemon.request(address)["message_count"] != left:
                await anyio.sleep(0.02)

    @asynccontextmanager
    async def saving(self):
        """Wait for the page to save a file, and store its ``name`` and content (``octets``) in the yielded object."""
        saved = SimpleNamespace()
        browser = self.page.context.browser.browser_type.name
        if browser == "chromium":
            async with self.page.expect_download() as download:
                yield saved
            saved.name = (await download.value).suggested_filename
            path = Path(await (await download.value).path())
        else:
            folder = self._saved_in / browser
            before = set(folder.iterdir())
            yield saved
            with anyio.fail_after(PATIENCE_SECONDS):
                while not (path := newly_saved(folder, before)):
                    await anyio.sleep(0.02)
            saved.name = path.name
        saved.octets = path.read_bytes()

    async def answered(self):
        """Return the paths of the API requests that have completed since the page was loaded; streams are excluded."""
        return await self.page.evaluate(
            "performance.getEntriesByType('resource').map((one) => one.name.split('/api/v1/')[1]).filter(Boolean)"
        )

    async def kept(self):
        """Return the inboxes stored in the browser."""
        return await self.page.evaluate("JSON.parse(localStorage.getItem('tmpmaild:' + location.pathname) ?? '[]')")

    async def pasted(self):
        """Paste the clipboard text and return it, because the page is not allowed to read the clipboard."""
        other = await self.page.context.new_page()
        await other.set_content("<textarea></textarea>")
        await other.locator("textarea").focus()
        await other.keyboard.press("Control+V")
        text = await other.locator("textarea").input_value()
        await other.close()
        await self.page.bring_to_front()
        return text

    async def focused(self):
        """Return the name of the focused element: its label or its text."""
        return await self.page.evaluate(
            "document.activeElement.ariaLabel ?? document.activeElement.innerText.split('\\n')[0]"
        )

    async def tab_to(self, name):
        """Press Tab, at most thirty times, until the element with this name has the focus."""
        passed = []
        while name not in passed and len(passed) < 30:
            await self.page.keyboard.press("Tab")
            passed.append(await self.focused())
        assert passed[-1] == name, passed

    def _on_request(self, request):
        if "/api/" in request.url:
            self.asked.append((request.method, request.url.partition("/api/v1/")[2]))

    def _on_response(self, response):
        if response.status == 429:
            self.refused.append(response.url)


@pytest.fixture(scope="session")
def tab_in(expect, saved_in):
    """Return a function that creates an ``InboxTab`` for a page and its daemon."""
    return partial(InboxTab, expect, saved_in)


@pytest.fixture
def new_tab(pages, daemon, tab_in):
    """Return a function that opens an empty tab, in a new profile unless it is opened next to an existing page."""

    async def new_tab(beside=None, at=daemon, **options):
        page = await pages.open(beside.page if beside else None, **options)
        return tab_in(page, at)

    return new_tab


@pytest.fixture
def any_tab(pages, daemon, tab_in):
    """Return a function that opens an empty tab, which may be reused from an earlier test: see ``Pages.borrow``."""

    async def any_tab(at=daemon, **options):
        return tab_in(await pages.borrow(**options), at)

    return any_tab


@pytest.fixture
async def tab(any_tab):
    """Open a tab as a first-time visitor sees it, with an address and no messages."""
    return await (await (await any_tab()).visit()).until_live()


@pytest.fixture
def inbox(daemon):
    return daemon.create()


@pytest.fixture
def open_inbox(any_tab, keep):
    """Return a function that opens an inbox stored in the browser, and waits until the page is live."""

    async def open_inbox(inbox, **options):
        tab = await any_tab(**options)
        await keep(tab.page, tab.daemon, inbox)
        return await (await tab.visit()).until_live()

    return open_inbox
