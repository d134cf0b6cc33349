"""Input while a response or a later-loaded script is on its way: no input is lost or applied to a different inbox."""

from contextlib import asynccontextmanager

import anyio
import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)


@asynccontextmanager
async def loaded_late(tab, name):
    """Delay a script until the block ends, then wait until the page has used it."""
    async with tab.page.expect_response(f"**/{name}.js*") as response, tab.held(f"**/{name}.js*"):
        yield
    url = (await response.value).url
    await tab.page.evaluate("async (url) => { await import(url); }", url)


@pytest.fixture
async def two(any_tab, keep, daemon):
    """Open a browser with two inboxes, of which the second is shown, and return its tab."""
    tab = await any_tab()
    await keep(tab.page, daemon, daemon.create(), daemon.create())
    return await (await tab.visit()).until_live()


async def switch(tab):
    await tab.inboxes.locator("[aria-current=false]").click()


async def test_keys_pressed_before_the_search_has_loaded_have_their_effect(tab, expect):
    """Escape clears what was typed, and Enter queries the server as soon as there is something to query it for."""
    filler = "a line of text\n" * 6000
    tab.daemon.deliver(await tab.address(), "long", text=f"{filler[:30_000]}needle\n{filler}")
    await tab.row("long").wait_for()
    search = tab.page.get_by_role("searchbox", name="Search this inbox")
    async with tab.held("**/terms.js*"):
        await search.press_sequentially("nothing")
        await search.press("Escape")
        await expect(search).to_have_value("")
        await expect(search).to_be_focused()
        await search.press_sequentially("needle")
        await search.press("Enter")
    await expect(tab.page.get_by_role("search").get_by_role("status")).to_have_text("1 of 1")


async def test_enter_in_the_search_does_not_take_the_focus_from_where_the_reader_has_gone_meanwhile(tab, expect):
    tab.daemon.deliver(await tab.address(), "one")
    await tab.row("one").wait_for()
    search = tab.page.get_by_role("searchbox", name="Search this inbox")
    async with loaded_late(tab, "terms"):
        await search.press_sequentially("o")
        await search.press("Enter")
        await tab.button("Source").focus()
    await expect(tab.button("Source")).to_be_focused()


async def test_the_arrow_key_moves_from_the_search_to_the_first_message_that_matches(tab, expect):
    for subject in ("alpha", "beta"):
        tab.daemon.deliver(await tab.address(), subject)
        await tab.row(subject).wait_for()
    search = tab.page.get_by_role("searchbox", name="Search this inbox")
    async with loaded_late(tab, "terms"):
        await search.press_sequentially("alpha")
        await search.press("ArrowDown")
    await expect(tab.row("alpha")).to_be_focused()


async def test_a_search_typed_without_a_connection_is_applied_once_it_is_back(any_tab, mortal_daemon, expect):
    tab = await (await (await any_tab(at=mortal_daemon)).visit()).until_live()
    for subject in ("alpha", "beta"):
        mortal_daemon.deliver(await tab.address(), subject)
        await tab.row(subject).wait_for()
    mortal_daemon.stop()
    await tab.page.get_by_role("searchbox", name="Search this inbox").fill("alpha")
    await expect(tab.page.get_by_text("The service cannot be reached.")).to_be_visible()
    mortal_daemon.start()
    await expect(tab.list.locator("li:visible")).to_have_count(1)
    await expect(tab.page.get_by_text("The service cannot be reached.")).to_have_count(0)


@pytest.mark.parametrize(("item", "script"), [("Label", "labeldialog"), ("QR code", "linkdialog")])
async def test_a_dialog_about_an_inbox_does_not_open_after_the_reader_has_selected_a_different_inbox(
    two, expect, item, script
):
    async with loaded_late(two, script):
        await two.choose(item)
        await switch(two)
    await expect(two.dialog).to_have_count(0)
    await two.choose(item)
    await expect(two.dialog).to_be_visible()


async def test_a_late_dialog_does_not_cover_a_dialog_in_which_the_reader_types(tab, expect):
    async with loaded_late(tab, "keysdialog"):
        await tab.page.keyboard.press("?")
        await tab.choose("Choose a name")
        await expect(tab.dialog.get_by_role("textbox", name="Name")).to_be_focused()
        await tab.page.keyboard.type("an")
    await tab.page.keyboard.type("na")
    await expect(tab.dialog.get_by_role("textbox", name="Name")).to_have_value("anna")


async def test_enter_pressed_twice_creates_one_address(tab, expect):
    await tab.choose("Choose a name")
    await expect(tab.dialog.get_by_role("textbox", name="Name")).to_be_focused()
    tab.asked.clear()
    async with tab.held("**/api/v1/addresses"):
        await tab.page.keyboard.press("Enter")
        await tab.page.keyboard.press("Enter")
        await expect(tab.button("Create", tab.dialog)).to_have_attribute("aria-busy", "true")
    await expect(tab.inboxes).to_be_visible()
    assert tab.asked.count(("POST", "addresses")) == 1


async def test_a_button_shows_that_it_waits_without_moving_and_a_second_click_has_no_effect(tab, expect):
    change = tab.button("Change", tab.card)
    place = await change.bounding_box()
    tab.asked.clear()
    async with tab.held("**/api/v1/addresses"):
        await change.click()
        await change.click()
        await expect(change).to_have_attribute("aria-busy", "true")
        await expect(change).to_have_css("opacity", "0.5")
        assert await change.bounding_box() == place
    await expect(tab.button("Undo")).to_be_visible()
    await expect(change).not_to_have_attribute("aria-busy", "true")
    assert tab.asked.count(("POST", "addresses")) == 1


async def test_the_button_of_a_menu_waits_for_the_item_that_was_selected(tab, expect):
    menu = tab.button("New address", tab.card)
    tab.asked.clear()
    async with tab.held("**/api/v1/addresses"):
        await tab.request_another()
        await expect(menu).to_have_attribute("aria-busy", "true")
        await tab.request_another()
    await expect(tab.inboxes).to_be_visible()
    await expect(menu).not_to_have_attribute("aria-busy", "true")
    assert tab.asked.count(("POST", "addresses")) == 1


async def test_images_are_requested_once_even_if_the_button_is_clicked_twice(tab, expect):
    tab.daemon.deliver(await tab.address(), "Images", html="<img src='https://images.example/1.png'>")
    await tab.open("Images")
    load = tab.button("Load images")
    await expect(load).to_be_visible()
    tab.asked.clear()
    released = anyio.Event()

    async def refuse(route):
        await released.wait()
        await route.abort()

    await tab.page.route("**/view", refuse)
    try:
        async with tab.page.expect_request("**/view"):
            await load.click()
        await load.click()
        await expect(load).to_have_attribute("aria-busy", "true")
        assert sum(path.endswith("/view") for _, path in tab.asked) == 1
    finally:
        released.set()
    await expect(tab.button("Try again")).to_be_visible()


async def test_a_refused_name_can_be_corrected(tab, expect):
    await tab.choose("Choose a name")
    name = tab.dialog.get_by_role("textbox", name="Name")
    await name.fill("postmaster")
    await name.press("Enter")
    await expect(tab.dialog.get_by_role("alert").first).to_contain_text("reserved")
    await name.fill("")
    await name.press("Enter")
    await expect(tab.dialog).to_have_count(0)


async def test_an_inbox_deleted_while_its_replacement_is_created_can_still_be_restored(two, expect):
    address = await two.address()
    async with two.held("**/api/v1/addresses"):
        await two.button("Change").click()
        await two.choose("Delete")
        await expect(two.card.get_by_title(address)).to_have_count(0)
        rest = await two.address()
    await expect(two.card.get_by_title(rest)).to_have_count(0)
    await two.button("Undo").click()
    assert await two.address() == address


async def test_the_note_about_saved_messages_counts_those_of_the_saved_inbox(two, expect):
    two.daemon.deliver(await two.address(), "one")
    await two.row("one").wait_for()
    async with two.page.expect_download(), two.held("**/messages.mbox"):
        await two.button("All messages").click()
        await two.page.get_by_role("menuitem", name="Save all messages as mbox").click()
        await switch(two)
    await expect(two.page.get_by_text("Saved 1 message.", exact=True)).to_be_visible()


async def test_the_attachment_clicked_last_is_previewed_even_if_another_arrives_later(tab):
    files = [(f"{name}.txt", "text/plain", name.encode()) for name in ("first", "second", "third")]
    tab.daemon.deliver(await tab.address(), "Files", attachments=files)
    await tab.open("Files")
    boxes = tab.reader.get_by_role("list", name="Attachments").locator("[aria-expanded]")
    await tab.page.evaluate(SCRIPTS["WATCH_PREVIEWS"])
    finished = tab.page.expect_request_finished(lambda request: request.url.endswith("/attachments/0"))
    async with finished, tab.held("**/attachments/0"):
        await boxes.nth(0).click()
        await boxes.nth(1).click()
        await tab.reader.get_by_role("region", name="second.txt").wait_for()
    await boxes.nth(2).click()
    await tab.reader.get_by_role("region", name="third.txt").wait_for()
    assert await tab.page.evaluate("previews") == ["second", "third"]


async def test_the_page_says_that_a_source_is_being_loaded(tab, expect):
    tab.daemon.deliver(await tab.address(), "one", text="the text")
    await tab.open("one")
    loading = tab.reader.get_by_text("Loading…", exact=True)
    async with tab.held("**/raw"):
        await tab.button("Source").click()
        await expect(loading).to_be_visible()
    await expect(tab.reader.locator("pre[dir=ltr]")).to_contain_text("the text")
    await expect(loading).to_have_count(0)


@pytest.mark.browsers("firefox", "webkit")
async def test_the_start_of_a_large_source_is_shown_while_the_rest_is_loaded(tab, expect):
    tab.daemon.deliver(await tab.address(), "large")
    await tab.open("large")
    await tab.page.evaluate(SCRIPTS["SEND_THE_SOURCE_IN_PARTS"])
    await tab.button("Source").click()
    await expect(tab.reader.locator("pre[dir=ltr]")).to_contain_text("the start")
    await expect(tab.reader.get_by_text("The text is cut off here.")).to_be_visible()
    save = tab.button("Save as .eml")
    async with tab.saving() as saved:
        await save.click()
        await expect(save).to_have_attribute("aria-busy", "true")
        await tab.page.evaluate("finish()")
    assert saved.octets.startswith(b"the start")
    assert saved.octets.endswith(b"the end")
    await expect(save).not_to_have_attribute("aria-busy", "true")


async def test_a_source_that_was_cut_off_is_requested_again_when_it_is_saved(tab, expect):
    tab.daemon.deliver(await tab.address(), "large", text="the text")
    await tab.open("large")
    await tab.page.evaluate(SCRIPTS["SEND_THE_SOURCE_IN_PARTS"])
    await tab.button("Source").click()
    await expect(tab.reader.locator("pre[dir=ltr]")).to_contain_text("the start")
    await tab.page.evaluate("cutOff()")
    save = tab.button("Save as .eml")
    async with tab.saving() as saved:
        await save.click()
    assert b"the text" in saved.octets


async def test_a_link_followed_before_an_address_was_created_still_opens_its_inbox(tab, inbox, expect):
    async with loaded_late(tab, "whosedialog"):
        await tab.page.evaluate("link => { location.hash = link; }", f"{inbox.address}.{inbox.token}")
        await tab.another()
    await tab.button("Someone sent it", tab.dialog).click()
    await expect(tab.card.get_by_title(inbox.address)).to_be_visible()


async def test_only_the_link_that_was_followed_last_is_asked_about(tab, daemon, expect):
    for inbox in (daemon.create(), daemon.create()):
        await tab.page.evaluate("link => { location.hash = link; }", f"{inbox.address}.{inbox.token}")
        await expect(tab.dialog.get_by_text(inbox.address)).to_be_visible()
    await expect(tab.page.locator("dialog")).to_have_count(1)
    await tab.button("It is mine", tab.dialog).click()
    await expect(tab.card.get_by_title(inbox.address)).to_be_visible()


async def test_a_pending_retry_is_dropped_as_soon_as_an_inbox_is_shown(new_tab, expect):
    tab = await new_tab()
    await tab.page.clock.install()
    await tab.page.route("**/api/v1/addresses", lambda route: route.abort())
    await tab.visit()
    await expect(tab.card).to_contain_text("The service cannot be reached.")
    await tab.page.unroute("**/api/v1/addresses")
    await tab.button("Try again", tab.card).click()
    tab.daemon.deliver(await tab.address(), "one")
    await tab.open("one")
    await tab.page.clock.fast_forward(6000)
    await expect(tab.heading("one")).to_be_visible()


async def test_on_a_phone_a_message_opened_right_after_going_back_stays_open(open_inbox, daemon, inbox, expect):
    for subject in ("one", "two"):
        daemon.deliver(inbox.address, subject)
    tab = await open_inbox(inbox, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    await tab.row("one").tap()
    await tab.heading("one").wait_for()
    await tab.page.evaluate(SCRIPTS["BACK_AND_OPEN_THE_NEWEST"])
    await expect(tab.heading("two")).to_be_visible()
    await tab.page.go_back()
    await expect(tab.reader).to_be_hidden()
    assert tab.page.url == f"{daemon.url}/"


@pytest.mark.browsers("firefox", "webkit")
async def test_a_script_that_could_not_be_loaded_is_loaded_once_the_service_is_back(any_tab, mortal_daemon, expect):
    tab = await (await (await any_tab(at=mortal_daemon)).visit()).until_live()
    mortal_daemon.stop()
    await tab.page.keyboard.press("?")
    await expect(tab.page.get_by_text("The service cannot be reached.")).to_be_visible()
    mortal_daemon.start()
    await tab.until_live()
    await tab.page.keyboard.press("?")
    await expect(tab.dialog).to_be_visible()
