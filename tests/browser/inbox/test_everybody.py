"""The inbox on a phone, in a different language, in the background, behind a proxy, and without JavaScript."""

import asyncio
import re
from contextlib import suppress

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


async def test_on_a_phone_a_message_fills_the_screen_and_going_back_or_deleting_it_returns_to_the_list(
    open_inbox, daemon, inbox, expect
):
    tab = await open_inbox(inbox, **PHONE)
    daemon.deliver(inbox.address, "Hello phone")
    await tab.until_subjects("Hello phone")
    await expect(tab.page).to_have_title("(1) tmpmaild")
    for go_back in (tab.page.go_back, tab.button("Back").tap, tab.page.go_back):
        await tab.row("Hello phone").tap()
        await expect(tab.heading("Hello phone")).to_be_visible()
        await expect(tab.list).to_be_hidden()
        await expect(tab.card.get_by_role("heading")).to_be_hidden()
        await go_back()
        await expect(tab.row("Hello phone")).to_be_visible()
        await expect(tab.reader).to_be_hidden()
        assert await tab.address() == inbox.address
    await expect(tab.page).to_have_title("tmpmaild")
    daemon.deliver(inbox.address, "two")
    await tab.row("two").tap()
    await tab.button("Delete message").tap()
    await tab.until_subjects("Hello phone")
    await tab.row("Hello phone").tap()
    await expect(tab.heading("Hello phone")).to_be_visible()


@pytest.fixture
async def noticed(new_tab):
    """Open a tab that a test can move to the background and that records its desktop notifications."""
    tab = await new_tab()
    await tab.page.add_init_script(f"({SCRIPTS['IN_THE_BACKGROUND']})()")
    return await (await tab.visit()).until_live()


async def test_in_the_background_the_title_counts_and_notifications_only_appear_after_a_click_on_the_bell(
    noticed, expect
):
    address = await noticed.address()
    bell = noticed.button("Notify me of new messages")
    assert await noticed.page.evaluate("asked") == 0
    await noticed.page.evaluate("hide(true)")
    noticed.daemon.deliver(address, "before the click")
    await noticed.until_subjects("before the click")
    await bell.click()
    await expect(bell).to_have_attribute("aria-pressed", "true")
    assert await noticed.page.evaluate("[asked, shown]") == [1, []]
    noticed.daemon.deliver(address, "Sign up", text="Your verification code is 482913.")
    await noticed.until_subjects("Sign up", "before the click")
    assert await noticed.page.evaluate("shown") == [["Alice", "482913 · Sign up"]]
    await noticed.page.evaluate("hide(false)")
    noticed.daemon.deliver(address, "seen anyway")
    await noticed.until_subjects("seen anyway", "Sign up", "before the click")
    assert await noticed.page.evaluate("shown.length") == 1
    await noticed.page.evaluate("clickNotification()")
    await expect(noticed.heading("Sign up")).to_be_visible()
    await bell.click()
    await expect(bell).to_have_attribute("aria-pressed", "false")
    for subject in ("seen anyway", "before the click"):
        await noticed.open(subject)
    await expect(noticed.page).to_have_title("tmpmaild")
    await noticed.page.evaluate("hide(true)")
    for number in (1, 2):
        noticed.daemon.deliver(address, f"mail {number}")
        await expect(noticed.page).to_have_title(f"({number}) tmpmaild")
    await noticed.page.evaluate("hide(false)")
    await noticed.open("mail 2")
    await expect(noticed.page).to_have_title("(1) tmpmaild")
    await noticed.open("mail 1")
    await expect(noticed.page).to_have_title("tmpmaild")
    await noticed.page.reload()
    await expect(noticed.rows).to_have_count(5)
    await expect(noticed.page).to_have_title("tmpmaild")


async def test_without_javascript_the_page_says_what_it_needs_and_shows_the_curl_commands(new_tab, expect):
    tab = await (await new_tab(java_script_enabled=False)).visit()
    await expect(tab.heading("This page needs JavaScript")).to_be_visible()
    await expect(tab.page.locator("pre")).to_contain_text("curl -X POST $HOST/api/v1/addresses")
    await expect(tab.page.locator(".notice")).to_contain_text("An address expires after 1 hour.")
    await expect(tab.card).to_be_hidden()


class Proxy:
    """A reverse proxy that strips a path prefix which the daemon behind it does not know."""

    def __init__(self, prefix):
        self._prefix = prefix
        self._serving = set()
        self.daemon = None

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self._prefix}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await cancel(self._serving)

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        try:
            # Browsers open spare connections without sending a request.
            if head := await head_of(reader):
                await self._exchange(head, reader, writer)
        finally:
            writer.close()

    async def _exchange(self, head, reader, writer):
        method, path, rest = head.split(" ", 2)
        assert path.startswith(f"{self._prefix}/"), path
        rest = re.sub(r"(?i)\r\nconnection: [^\r]*", "\r\nConnection: close", rest)
        answers, requests = await asyncio.open_connection(*self.daemon.url.removeprefix("http://").split(":"))
        requests.write(f"{method} {path.removeprefix(self._prefix)} {rest}".encode())
        pumps = {asyncio.create_task(pump(reader, requests)), asyncio.create_task(pump(answers, writer))}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(pumps)
            requests.close()


async def cancel(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def head_of(reader):
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except (OSError, asyncio.IncompleteReadError):
        return ""


async def pump(reader, writer):
    with suppress(OSError):
        while octets := await reader.read(65536):
            writer.write(octets)
            await writer.drain()


@pytest.fixture
async def proxy():
    async with Proxy("/mail") as running:
        yield running


async def test_the_page_works_below_a_path(proxy, start_daemon, any_tab, expect):
    proxy.daemon = start_daemon(TMPMAILD_HTTP__PUBLIC_URL=proxy.url)
    tab = await (await (await any_tab(at=proxy.daemon)).visit(url=proxy.url)).until_live()
    address = await tab.address()
    octets = [("a.txt", "text/plain", b"attached")]
    proxy.daemon.deliver(address, "below a path", html="<p>the HTML</p>", attachments=octets)
    await expect(tab.mail.get_by_text("the HTML")).to_be_visible()
    async with tab.page.expect_download():
        await tab.button("Save a.txt").click()
    await tab.choose("QR code")
    await tab.button("Copy link", tab.dialog).click()
    link = await tab.pasted()
    assert link.startswith(f"{proxy.url}/#{address}.")
    elsewhere = await any_tab(at=proxy.daemon)
    await elsewhere.page.goto(link)
    await elsewhere.button("Someone sent it", elsewhere.dialog).click()
    await elsewhere.until_subjects("below a path")
    assert elsewhere.page.url == f"{proxy.url}/"
