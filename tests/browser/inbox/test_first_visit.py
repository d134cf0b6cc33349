"""The first visit, later visits, and links that open an inbox in a different browser."""

import asyncio
import time

import pytest

UNKNOWN_TOKEN = "a" * 22


@pytest.mark.browsers("firefox", "webkit")
async def test_the_first_visit_creates_an_address_with_two_requests_and_a_click_copies_it(tab, expect):
    assert await tab.answered() == ["addresses"]
    assert tab.asked == [("POST", "addresses"), ("POST", "events")] or not tab.tells
    address = await tab.address()
    assert tab.daemon.request(f"addresses/{address}")["message_count"] == 0
    assert await tab.page.get_by_text(f"Use {address} wherever").is_visible()
    size = "one => parseFloat(getComputedStyle(one.firstChild).fontSize)"
    before = await tab.card.get_by_text(address).evaluate(size)
    assert before >= 24
    await tab.page.get_by_role("button", name="Copy").click()
    await expect(tab.button("Copied")).to_be_visible()
    # The text size does not change, so the layout does not shift.
    assert await tab.card.get_by_text(address).evaluate(size) == before
    assert await tab.pasted() == address
    await expect(tab.button("Copy")).to_be_visible()


@pytest.mark.proof
@pytest.mark.parametrize("browser_name", ["firefox"])
async def test_firefox_that_blocks_all_cookies_has_an_inbox_and_its_mail(new_tab, daemon):
    tab = await (await new_tab()).visit(url=daemon.url.replace("127.0.0.1", "localhost"))
    assert (
        await tab.page.evaluate("() => { try { return !localStorage; } catch (error) { return error.name; } }")
        == "SecurityError"
    )
    address = await tab.address()
    await tab.until_live()
    daemon.deliver(address, "one")
    await tab.until_subjects("one")
    await tab.open("one")


FETCHED = """performance.getEntriesByType('resource').filter(
  ({ name, transferSize, encodedBodySize }) => name.includes('/web/') && transferSize > 0 && encodedBodySize > 0
)"""


@pytest.mark.browsers("firefox", "webkit")
async def test_a_reload_shows_the_same_inbox_with_one_request_and_fetches_no_script_again(tab):
    address = await tab.address()
    tab.daemon.deliver(address, "one")
    await tab.until_subjects("one")
    tab.asked.clear()
    await tab.page.reload()
    await tab.until_subjects("one")
    assert await tab.address() == address
    assert await tab.answered() == []
    assert tab.asked == [("POST", "events")] or not tab.tells
    # WebKit counts files from the service worker as transferred.
    assert await tab.page.evaluate(f"{FETCHED}.map((one) => one.name)") == [] or not tab.tells


@pytest.mark.browsers("firefox")  # WebKit's driver opens tabs one at a time
async def test_two_tabs_opened_together_create_one_address_and_a_new_profile_creates_its_own(any_tab, new_tab):
    first = await any_tab()
    second = await new_tab(beside=first)
    await asyncio.gather(first.visit(), second.visit())
    address = await first.address()
    assert await second.address() == address
    assert (first.asked + second.asked).count(("POST", "addresses")) == 1
    stranger = await (await any_tab()).visit()
    assert await stranger.address() != address


@pytest.mark.browsers("firefox")
async def test_a_link_opens_the_inbox_and_its_token_is_not_visible_anywhere(daemon, any_tab, inbox):
    daemon.deliver(inbox.address, "one")
    urls = []
    tab = await any_tab()
    await (await tab.follow(inbox)).until_live()
    tab.page.on("request", lambda request: urls.append(request.url))
    await tab.until_subjects("one")
    assert await tab.address() == inbox.address
    assert tab.page.url == f"{daemon.url}/"
    assert all(inbox.token not in path for _, path in tab.asked)
    await tab.page.reload()
    await tab.until_subjects("one")
    await tab.open("one")
    await tab.button("Delete message").click()
    await tab.until_subjects()
    assert urls
    assert all(inbox.token not in url for url in urls)
    await tab.page.goto("about:blank")
    await tab.page.go_back()
    assert tab.page.url == f"{daemon.url}/"


async def test_a_link_without_a_token_opens_a_public_inbox_but_reports_a_private_inbox_as_missing(
    daemon, any_tab, inbox, expect
):
    private = daemon.create(private=True)
    tab = await any_tab()
    for private.token in ("", UNKNOWN_TOKEN):
        await tab.page.goto("about:blank")
        await tab.follow(private, token=bool(private.token))
        await expect(tab.heading("There is no such inbox")).to_be_visible()
        assert await tab.kept() == []
        assert tab.page.url == f"{daemon.url}/"
    await tab.another()
    assert "@mail.example.com" in await tab.address()
    daemon.deliver(inbox.address, "one")
    await (await tab.follow(inbox, token=False)).until_live()
    await tab.until_subjects("one")
    await tab.open("one")
    assert await tab.reader.get_by_text("It works.").is_visible()
    assert await tab.button("Delete message").count() == await tab.button("Delete").count() == 0


async def test_an_error_while_offline_disappears_as_soon_as_the_connection_is_back(new_tab, expect):
    tab = await new_tab()
    await tab.page.clock.install()
    await tab.page.route("**/api/**", lambda route: route.abort())
    await tab.visit()
    await expect(tab.card).to_contain_text("The service cannot be reached.")
    await tab.page.clock.pause_at(await tab.page.evaluate("Date.now() / 1000 + 1"))  # no automatic retry
    await tab.page.unroute("**/api/**")
    async with tab.page.expect_request("**/api/v1/addresses"):
        await tab.page.evaluate("dispatchEvent(new Event('online'))")
    await tab.page.clock.resume()
    await expect(tab.card.locator(".address")).to_contain_text("@")


UNREADABLE = ["{", "null", "{}", "[null]", '[{"address": 1, "expires_at": "2099-01-01"}]', '[{"seen": 5}]']


async def test_unreadable_stored_data_is_ignored(tab):
    addresses = [await tab.address()]
    for kept in UNREADABLE:
        await tab.page.evaluate("kept => localStorage['tmpmaild:/'] = kept", kept)
        await tab.page.reload()
        await tab.until_live()
        addresses.append(await tab.address())
        assert (kept, [inbox["address"] for inbox in await tab.kept()]) == (kept, addresses[-1:])
    assert len(set(addresses)) == len(addresses)


@pytest.fixture(scope="module")
async def page_with_a_clock(shared_pages):
    return await shared_pages.open()


@pytest.fixture
async def tab_with_a_clock(page_with_a_clock, shared_pages, daemon, tab_in):
    """Open an empty tab and set its clock to the correct time."""
    await page_with_a_clock.clock.set_system_time(time.time())
    yield tab_in(page_with_a_clock, daemon)
    await shared_pages.clear(page_with_a_clock)


async def test_a_wrong_clock_neither_loses_the_inbox_nor_marks_old_mail_as_new(tab_with_a_clock):
    tab = tab_with_a_clock
    for off_by_hours in (-24, 24):
        await tab.page.clock.set_system_time(time.time() + off_by_hours * 3600)
        await (await tab.visit()).until_live()
        address = await tab.address()
        tab.daemon.deliver(address, "before")
        await tab.heading("before").wait_for()
        await tab.page.keyboard.press("Escape")
        await tab.page.reload()
        await tab.until_subjects("before")
        assert (off_by_hours, await tab.address()) == (off_by_hours, address)
        assert await tab.reader.count() == 0
        tab.daemon.deliver(address, "after")
        await tab.heading("after").wait_for()
        await tab.page.evaluate("localStorage.clear(); sessionStorage.clear()")


async def test_an_expired_inbox_is_removed_even_if_the_server_does_not_respond(tab_with_a_clock):
    tab = await (await tab_with_a_clock.visit()).until_live()
    released = asyncio.Event()

    async def hold(route):
        await released.wait()
        await route.abort()

    await tab.page.route("**/api/**", hold)
    await tab.page.clock.set_system_time(time.time() + 2 * 3600)
    await tab.heading("This address has expired").wait_for()
    assert await tab.kept() == []
    await tab.page.unroute_all(behavior="ignoreErrors")  # requests abandoned by the page cannot be aborted
    released.set()  # otherwise Playwright waits for these requests, and an unrelated test fails


async def test_the_api_page_shows_the_address_of_the_service_and_links_to_the_inbox(tab, expect):
    address = await tab.address()
    await tab.page.get_by_role("link", name="API").click()
    await expect(tab.page.get_by_text(f'curl -X POST "{tab.daemon.url}/api/v1/addresses"')).to_be_visible()
    await tab.page.get_by_role("link", name="Inbox").click()
    assert await tab.address() == address
