"""Several live inboxes in one browser: new messages are announced for every inbox, whichever inbox is open."""

import re

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)


async def test_a_button_checks_for_mail_now_and_messages_deleted_during_an_outage_leave_the_list(
    open_inbox, daemon, inbox, expect
):
    for subject in ("one", "two", "three"):
        daemon.deliver(inbox.address, subject)
    tab = await open_inbox(inbox)
    await tab.until_subjects("three", "two", "one")
    tab.asked.clear()
    await tab.page.evaluate(SCRIPTS["WATCH_STATE"])
    await tab.button("Check for new messages now").click()
    await expect(tab.page.get_by_text("Up to date. New messages appear automatically.")).to_be_visible()
    assert set(await tab.page.evaluate("states")) <= {"Live"}  # no other state is shown in between
    assert len(tab.asked) == 1
    await tab.page.context.set_offline(True)
    await expect(tab.state).to_contain_text("Connection lost")
    await tab.page.route("**/events", lambda route: route.abort())
    await tab.page.context.set_offline(False)
    await tab.button("Check for new messages now").click()
    await expect(tab.state).to_contain_text("Connection lost")
    [_, two, _] = daemon.request(f"addresses/{inbox.address}/messages", token=inbox.token)["messages"]
    daemon.delete(inbox, two["id"])
    tab.asked.clear()
    await tab.page.unroute("**/events")
    await tab.until_subjects("three", "one")
    daemon.deliver(inbox.address, "four")
    await tab.until_subjects("four", "three", "one")
    assert [method for method, path in tab.asked if "messages" in path] == ["GET"]


@pytest.mark.browsers("firefox")
async def test_a_message_to_a_different_inbox_is_counted_and_shown_with_its_code_and_a_click_opens_it(tab, expect):
    first = await tab.address()
    await tab.another()
    choices = tab.choices
    await expect(choices).to_have_count(2)
    second = await tab.address()
    tab.daemon.deliver(first, "Sign up", text="Your verification code is 482913.")
    await expect(choices.first).to_contain_text(re.compile("Alice.*1 unread.*Sign up"))
    await expect(tab.page).to_have_title("482913 · tmpmaild")
    icon = tab.page.locator("link[rel=icon]")
    await expect(icon).to_have_attribute("href", re.compile("circle"))
    await tab.until_subjects()
    await expect(tab.heading(f"Message for {first.partition('@')[0]}")).to_be_visible()
    await tab.button("Copy code 482913", tab.inboxes).click()
    assert await tab.pasted() == "482913"
    await choices.first.click()
    await tab.open("Sign up")
    assert await tab.address() == first
    await expect(tab.page).to_have_title("tmpmaild")
    await expect(icon).not_to_have_attribute("href", re.compile("circle"))
    tab.daemon.deliver(second, "one")
    tab.daemon.deliver(second, "two")
    await expect(tab.page).to_have_title("(2) tmpmaild")
    await expect(choices.first).to_contain_text("2 unread")
    tab.asked.clear()
    await choices.first.click()
    await tab.until_subjects("two", "one")
    assert tab.asked == []


@pytest.mark.browsers("firefox", "webkit")
@pytest.mark.parametrize("width", [390, 1440])
async def test_an_empty_inbox_shows_the_message_for_a_different_inbox_and_a_click_opens_it(any_tab, expect, width):
    tab = await (await any_tab(viewport={"width": width, "height": 900})).visit()
    first = await tab.address()
    await tab.another()
    open_it = tab.button("Open", tab.page.get_by_role("main"))
    await expect(open_it).to_be_hidden()
    tab.daemon.deliver(first, "Hello")
    await expect(tab.heading(f"Message for {first.partition('@')[0]}")).to_be_visible()
    await expect(tab.page.get_by_text("Alice: Hello", exact=True)).to_be_visible()
    await open_it.click()
    await expect(tab.heading("Hello")).to_be_visible()
    assert await tab.address() == first


async def test_the_bar_about_new_messages_names_a_different_inbox(any_tab, expect):
    tab = await (await any_tab(viewport={"width": 390, "height": 844})).visit()
    first = await tab.address()
    await tab.another()
    tab.daemon.deliver(await tab.address(), "one")
    await tab.open("one")
    bar = tab.page.get_by_role("region", name="New messages")
    tab.daemon.deliver(await tab.address(), "two")
    await expect(bar).to_contain_text("Alice: two")
    await expect(bar).not_to_contain_text("Message for")
    tab.daemon.deliver(first, "three")
    await expect(bar).to_contain_text("Alice: three")
    await expect(bar).to_contain_text(f"Message for {first.partition('@')[0]}")
    await tab.button("Open", bar).click()
    await expect(tab.heading("three")).to_be_visible()


async def test_one_tap_changes_the_address_and_a_second_tap_deletes_an_address_unless_it_is_undone(tab, daemon, expect):
    first = await tab.address()
    await tab.button("Change").click()
    await expect(tab.card).not_to_contain_text(first)
    await expect(tab.choices).to_have_count(0)
    daemon.deliver(first, "still there")
    await tab.button("Undo").click()
    await tab.until_subjects("still there")
    await expect(tab.choices).to_have_count(2)
    await tab.button(f"Delete: {first.partition('@')[0]}").click()
    await expect(tab.inboxes).to_be_hidden()
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(tab.page.locator("#toast")).to_contain_text("and its messages were deleted")
    assert first not in [one["address"] for one in await tab.kept()]


async def test_on_a_phone_the_counts_are_visible_and_nothing_is_cut_off(any_tab, expect):
    tab = await (await any_tab(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)).visit()
    first = await tab.address()
    await tab.another()
    await expect(tab.choices).to_have_count(2)
    tab.daemon.deliver(first, "Sign up", text="Your verification code is 482913.")
    await tab.button("Copy code 482913").wait_for()
    for inside in (".inbox.new", ".inbox.new .tool", ".all .unread-count"):
        box = await tab.page.locator(inside).bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 360, inside
        assert box["y"] + box["height"] <= 740, inside


async def test_an_inbox_has_a_name_that_another_tab_shows_too(tab, new_tab, expect):
    await tab.another()
    await expect(tab.choices).to_have_count(2)
    await tab.choose("Label")
    await tab.dialog.get_by_role("textbox").fill("  Shop <b>\u202e ")
    await tab.page.keyboard.press("Enter")
    current = tab.inboxes.locator("[aria-current=true]")
    await expect(current.locator("b")).to_have_text("Shop <b>")
    await expect(tab.titled("Your address · Shop <b>")).to_be_visible()
    second = await (await new_tab(beside=tab)).visit()
    await expect(second.titled("Your address · Shop <b>")).to_be_visible()
    await second.choose("Label")
    await second.dialog.get_by_role("textbox").fill("")
    await second.page.keyboard.press("Enter")
    for one in (tab, second):
        await expect(one.titled("Your address")).to_be_visible()


async def test_after_an_inbox_ends_the_next_one_is_shown_with_a_note(tab, expect):
    first = await tab.address()
    await tab.another()
    await expect(tab.choices).to_have_count(2)
    second = await tab.address()
    tab.daemon.deliver(first, "stays")
    await tab.end()
    await tab.card.get_by_text(first, exact=True).wait_for()
    await tab.until_subjects("stays")
    await expect(tab.page.locator("#toast")).to_have_text(f"{second.partition('@')[0]} and its messages were deleted.")
    await expect(tab.heading("This address was deleted")).to_have_count(0)
    await expect(tab.inboxes).to_be_hidden()
    tab.daemon.request(f"addresses/{first}", "PATCH", {"expires_in_seconds": 1}, (await tab.kept())[0]["token"])
    await expect(tab.heading("This address has expired")).to_be_visible()


BOX = "one => one.getBoundingClientRect().toJSON()"
NARROW = {"width": 390, "height": 844}
LONG = "a-rather-long-name-for-an-inbox-so-that-it-does-not-fit"


@pytest.mark.browsers("firefox", "webkit")
async def test_the_number_of_unread_messages_is_next_to_the_name_however_long_the_name_is(
    any_tab, daemon, keep, expect
):
    shown, other = daemon.create(), daemon.create()
    for number in range(10):
        daemon.deliver(other.address, str(number), sender=f"{LONG} <a@example.com>")
    tab = await any_tab(viewport=NARROW)
    await keep(tab.page, daemon, other, shown)
    await (await tab.visit()).until_live()
    row = tab.inboxes.locator(".inbox.new")
    await expect(row.locator(".unread-count")).to_have_text("10 unread")
    name, count = [await row.locator(part).evaluate(BOX) for part in ("b", ".unread-count")]
    assert abs(name["top"] + name["bottom"] - count["top"] - count["bottom"]) <= 6
    assert name["right"] <= count["left"]
