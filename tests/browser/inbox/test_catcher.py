"""The page of a service that catches all mail: a single list of messages and recipients, and a URL for each message."""

import mailbox
import re
from contextlib import closing
from importlib.resources import files

import pytest

from .test_access import AXE, PHONE, RULES, WIDE
from .test_slow_connection import SCRIPTS

# The visible share of each row that the lower edge of the list cuts off.
CUT = """(all) => {
  const bottom = all[0].parentElement.getBoundingClientRect().bottom;
  const boxes = all.map((one) => one.getBoundingClientRect());
  return boxes.filter((one) => one.top < bottom && bottom < one.bottom).map((one) => (bottom - one.top) / one.height);
}"""
WIDEST = {"viewport": {"width": 2560, "height": 1300}}
MESSAGE_URL = re.compile(r"/#msg_[0-9a-z]{26}$")
BROWSERS = pytest.mark.browsers("firefox", "webkit")
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe\u200b & {n} ${x}"


@pytest.fixture
def catcher(shared_catcher):
    """Return the catcher with all messages deleted."""
    shared_catcher.request("messages", "DELETE")
    return shared_catcher


@pytest.fixture
def catcher_tab(any_tab, catcher):
    """Return a function that opens the page for all messages."""

    async def catcher_tab(link="", **options):
        tab = await any_tab(at=catcher, **options)
        tab.recipients = tab.page.get_by_role("navigation", name="Recipients")
        await tab.visit(link)
        await tab.page.locator("#state.live").wait_for()
        return tab

    return catcher_tab


@pytest.fixture
def complaints():
    """Return a function that returns axe's findings for a page in light and dark mode."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()

    async def complaints(page):
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(axe)
        found = []
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            # A screenshot forces the layout of all content.
            await page.screenshot(clip={"x": 0, "y": 0, "width": 1, "height": 1})
            found += await page.evaluate(AXE, ["body", RULES])
        return found

    return complaints


async def choose_of_all(tab, name):
    await tab.button("All messages").click()
    await tab.page.get_by_role("menuitem", name=name).click()


async def choose_recipient(tab, name):
    await tab.recipients.get_by_role("button").first.click()
    await tab.recipients.get_by_role("button", name=name).last.click()


@BROWSERS
async def test_new_messages_appear_automatically_in_a_single_list_with_their_recipients(catcher, catcher_tab, expect):
    catcher.send("one")
    tab = await catcher_tab()
    await tab.until_subjects("one")
    catcher.send("two", to=["bob@other.example", "admin@anywhere.example", "ob@other.example"])
    await tab.until_subjects("two", "one")
    await expect(tab.rows.nth(0)).to_contain_text("bob@other.example, admin@anywhere.example")
    await expect(tab.rows.nth(0)).to_contain_text("and 1 more")
    await expect(tab.rows.nth(1)).to_contain_text("anna@shop.example")
    await expect(tab.heading("2 messages")).to_be_visible()
    await tab.open("two")
    await tab.reader.get_by_text("to bob@other.example, admin@anywhere.example, ob@other.example").click()
    blind = tab.reader.get_by_role("listitem").filter(has_text="Bcc")
    await expect(blind).to_have_text(["admin@anywhere.exampleBcc", "ob@other.exampleBcc"])


async def test_a_message_is_shown_with_the_same_parts_as_in_an_inbox(catcher, catcher_tab, expect):
    text = "Your code is 482913.\nConfirm: https://shop.example/confirm?token=1"
    html = "<p>Your code is <b>482913</b></p><a href='https://shop.example/confirm?token=1'>Confirm</a>"
    catcher.send("Sign up", text=text, html=html, attachments=[("a.txt", b"attached")])
    tab = await catcher_tab()
    await tab.open("Sign up")
    await expect(tab.mail.get_by_text("Your code is 482913")).to_be_visible()
    await expect(tab.button("Copy code 482913").first).to_be_visible()
    await tab.button("Text").click()
    await expect(tab.reader.locator("pre.text:visible")).to_contain_text("Your code is 482913.")
    await tab.button("Headers").click()
    await expect(tab.reader.locator("dl")).to_contain_text("shop@shop.example")
    await tab.button("Source").click()
    await expect(tab.reader.locator("pre:visible")).to_contain_text("multipart/mixed")
    await tab.button("Copy as curl").click()
    assert re.fullmatch(rf'curl "{catcher.url}/api/v1/messages/msg_\w+"', await tab.pasted())
    await tab.reader.get_by_role("button", name="a.txt").first.click()
    await expect(tab.reader.get_by_text("attached", exact=True)).to_be_visible()


@BROWSERS
async def test_a_recipient_is_selected_by_its_message_count(catcher, catcher_tab, expect):
    catcher.send("one", "two", to=["anna@shop.example", "bob@shop.example"])
    catcher.send("three", to=["Anna@Shop.example"])
    catcher.send("four", to=["anna+tag@shop.example"])
    tab = await catcher_tab()
    chooser = tab.recipients.get_by_role("button").first
    await expect(chooser).to_have_text("All recipients4")
    await chooser.click()
    rows = tab.recipients.locator(".recipient")
    await expect(rows).to_have_text(
        ["All recipients4", re.compile("^(?i:anna@shop.example)3$"), "anna+tag@shop.example1", "bob@shop.example2"]
    )
    await rows.nth(3).click()
    await tab.until_subjects("two", "one")
    await expect(chooser).to_have_text("bob@shop.example2")
    catcher.send("five", to=["bob@shop.example"])
    catcher.send("six")
    await tab.until_subjects("five", "two", "one")
    await expect(tab.heading("3 messages")).to_be_visible()
    await choose_recipient(tab, "All recipients")
    await tab.until_subjects("six", "five", "four", "three", "two", "one")


@BROWSERS
async def test_a_recipient_written_in_several_ways_is_one_recipient(catcher, catcher_tab, expect):
    with catcher.smtp() as client:
        client.command_encoding = "utf-8"
        client.sendmail("shop@shop.example", ["anna@bücher.example"], b"Subject: one\r\n\r\nText\r\n")
    tab = await catcher_tab()
    await choose_recipient(tab, re.compile("anna@bücher.example"))
    await tab.until_subjects("one")
    catcher.send("two", to=["Anna@xn--bcher-kva.example"])
    catcher.send("three")
    await tab.until_subjects("two", "one")
    chooser = tab.recipients.get_by_role("button").first
    await expect(chooser).to_have_text("anna@bücher.example2")
    three, _, _ = catcher.request("messages")["messages"]
    catcher.request(f"messages/{three['id']}", "DELETE")  # the page then requests the counts again
    recounted = ["All recipients2", "Anna@xn--bcher-kva.example2"]
    await expect(tab.recipients.locator(".recipient")).to_have_text(recounted)
    await expect(chooser).to_have_text("anna@bücher.example2")


@pytest.mark.parametrize("options", [WIDE, PHONE], ids=["wide", "phone"])
async def test_an_open_list_of_many_recipients_shows_half_of_its_last_row_and_an_arrow_that_closes_it(
    catcher, catcher_tab, options
):
    catcher.send("one", to=[f"user{number}@shop.example" for number in range(30)])
    tab = await catcher_tab(**options)
    rows = tab.recipients.locator(".recipient")
    await rows.nth(29).wait_for(state="attached")
    arrow = tab.recipients.locator(".all .icon")
    closed = await arrow.evaluate("one => getComputedStyle(one).transform")
    await tab.recipients.get_by_role("button").first.click()
    assert await rows.evaluate_all(CUT) == [pytest.approx(0.5, abs=0.15)]
    assert await arrow.evaluate("one => getComputedStyle(one).transform") != closed


async def test_in_three_columns_the_recipients_fill_their_column_and_the_rest_is_announced(
    catcher, catcher_tab, expect
):
    catcher.send("one", to=[f"user{number}@shop.example" for number in range(120)])
    tab = await catcher_tab(viewport={"width": 1920, "height": 1080})
    rows = tab.recipients.locator(".recipient")
    await rows.nth(99).wait_for(state="attached")
    assert await rows.evaluate_all(CUT) == [pytest.approx(0.5, abs=0.15)]
    rest = tab.recipients.get_by_text("20 more recipients")
    await expect(rest).to_be_in_viewport(ratio=1)
    free = await tab.page.locator("footer").bounding_box()
    assert 0 <= free["y"] - (await rest.bounding_box())["y"] < 200


async def test_a_search_of_all_messages_finds_words_fields_and_kinds_of_content(catcher, catcher_tab, expect):
    catcher.send("Rechnung für Müller", sender="Shop <a@shop.example>", to=["bob@other.example"])
    catcher.send("Code", text="Your verification code is 482913.", attachments=[("a.txt", b"x")])
    tab = await catcher_tab()
    await tab.until_subjects("Code", "Rechnung für Müller")
    shown = tab.list.locator(".subject:visible")
    for query, subjects in {
        "muller rechnung": ["Rechnung für Müller"],
        "to:bob": ["Rechnung für Müller"],
        "bob@other": ["Rechnung für Müller"],
        "from:shop subject:code": ["Code"],
        "has:code": ["Code"],
        "has:attachment to:anna": ["Code"],
        "to:nobody": [],
    }.items():
        await tab.page.get_by_role("searchbox", name="Search all messages").fill(query)
        await expect(shown, query).to_have_text(subjects)
    await expect(tab.page.get_by_text("No messages match.")).to_be_visible()


async def test_a_search_shows_results_from_the_server_before_all_messages_are_loaded(catcher, catcher_tab, expect):
    catcher.send("the oldest", text="A needle and a pin.", to=["bob@shop.example"])
    catcher.deliver_raw("anna@shop.example", *[b"Subject: another\r\n\r\nText\r\n"] * 120)
    tab = await catcher_tab()
    search = tab.page.get_by_role("searchbox", name="Search all messages")
    async with tab.held("**/messages?*before=*"):
        # The server's first page of messages that contain "an" does not include the oldest message.
        for query in ("an needle", "needle", "subject:oldest needle", "to:bob needle"):
            await search.fill(query)
            await tab.until_subjects("the oldest")
            await expect(tab.page.get_by_text("100 of 121 messages searched…")).to_be_visible()
            await search.fill("")
    await search.fill("needle")
    await expect(tab.page.get_by_text("1 of 121", exact=True)).to_be_visible()


async def test_after_a_network_failure_the_page_catches_up(catcher, new_tab, expect):
    catcher.send("one", "two", "three")
    tab = await (await (await new_tab(at=catcher)).visit()).until_live()
    await tab.until_subjects("three", "two", "one")
    await tab.page.context.set_offline(True)
    await expect(tab.state).to_contain_text("Connection lost.")
    [gone, *_] = catcher.request("messages")["messages"]
    catcher.request(f"messages/{gone['id']}", "DELETE")
    catcher.send("four", to=["bob@shop.example"])
    search = tab.page.get_by_role("searchbox", name="Search all messages")
    await search.fill("subject:t")
    await tab.until_subjects("three", "two")
    await search.fill("")
    await tab.page.context.set_offline(False)
    await tab.until_live()
    await tab.until_subjects("four", "two", "one")
    await expect(tab.heading("3 messages")).to_be_visible()


@BROWSERS
async def test_one_several_or_all_messages_are_deleted_and_undo_restores_them(catcher, catcher_tab, expect):
    catcher.send("one", "two", "three", "four")
    tab = await catcher_tab()
    await tab.open("four")
    await tab.button("Delete message").click()
    await tab.until_subjects("three", "two", "one")
    await tab.button("Undo").click()
    await tab.until_subjects("four", "three", "two", "one")
    await choose_of_all(tab, "Select several")
    for subject in ("two", "four"):
        await tab.page.get_by_role("checkbox", name=subject).click()
    await tab.button("Delete (2)").click()
    await tab.until_subjects("three", "one")
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(tab.page.get_by_text("2 messages deleted.")).to_be_visible()
    assert catcher.subjects() == ["three", "one"]
    await choose_of_all(tab, "Delete all messages")
    await tab.until_subjects()
    catcher.send("after")
    await tab.until_subjects("after")
    await tab.button("Undo").click()
    await tab.until_subjects("after", "three", "one")
    await expect(tab.heading("3 messages")).to_be_visible()
    await choose_of_all(tab, "Delete all messages")
    await tab.until_subjects()
    catcher.send("kept")
    await tab.until_subjects("kept")
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(tab.page.get_by_text("3 messages deleted.")).to_be_visible()
    assert catcher.subjects() == ["kept"]
    await expect(tab.heading("1 message")).to_be_visible()


async def test_only_the_messages_shown_for_a_search_or_a_recipient_are_deleted(catcher, catcher_tab, expect):
    catcher.send("one", "two")
    catcher.send("three", to=["bob@shop.example"])
    tab = await catcher_tab()
    await tab.until_subjects("three", "two", "one")
    await choose_recipient(tab, "bob@shop.example")
    await tab.until_subjects("three")
    await choose_of_all(tab, "Delete the message shown")
    await tab.until_subjects()
    await choose_recipient(tab, "All recipients")
    await tab.until_subjects("two", "one")
    await tab.page.get_by_role("searchbox", name="Search all messages").fill("subject:one")
    await tab.until_subjects("one")
    await choose_of_all(tab, "Delete the message shown")
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(tab.page.get_by_text("2 messages deleted.")).to_be_visible()
    assert catcher.subjects() == ["two"]


async def open_deletion(tab, label):
    """Open the menu with this item, and return the item."""
    await tab.button("All messages").click()
    item = tab.page.get_by_role("menuitem", name=label, exact=True)
    await item.wait_for()
    return item


async def test_a_message_that_is_found_after_the_menu_was_opened_is_not_deleted(catcher, catcher_tab):
    catcher.send("first hit", "other")
    tab = await catcher_tab()
    await tab.page.get_by_role("searchbox", name="Search all messages").fill("hit")
    await tab.until_subjects("first hit")
    item = await open_deletion(tab, "Delete the message shown")
    catcher.send("second hit")
    await tab.until_subjects("second hit", "first hit")
    await item.click()
    await tab.until_subjects("second hit")
    async with tab.expect_deletions():
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert catcher.subjects() == ["second hit", "other"]


async def test_during_a_search_only_the_messages_shown_are_deleted_even_if_more_are_still_being_loaded(
    catcher, catcher_tab
):
    catcher.send("old", *(f"new {number}" for number in range(101)))
    tab = await catcher_tab()
    search = tab.page.get_by_role("searchbox", name="Search all messages")
    async with tab.held("**/messages?*before=*"):
        async with tab.page.expect_request("**/messages?*before=*"):
            await search.fill("subject:new")
        await (await open_deletion(tab, "Delete the 100 messages shown")).click()
        await tab.until_subjects()
        await search.fill("")
    await tab.until_subjects("new 0", "old")
    async with tab.expect_deletions():
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert catcher.subjects() == ["new 0", "old"]


async def test_messages_to_a_recipient_are_deleted_including_unloaded_ones_but_not_those_that_arrive_meanwhile(
    catcher, catcher_tab, expect
):
    catcher.send("for anna")
    catcher.deliver_raw("bob@shop.example", *[b"Subject: for bob\r\n\r\nText\r\n"] * 120)
    tab = await catcher_tab()
    await choose_recipient(tab, re.compile("bob@shop.example"))
    await expect(tab.heading("120 messages")).to_be_visible()
    async with tab.held("**/messages?*before=*"):
        async with tab.page.expect_request("**/messages?*before=*"):
            await (await open_deletion(tab, "Delete the 120 messages shown")).click()
        catcher.send("late", to=["bob@shop.example"])
        await expect(tab.rows.first).to_contain_text("late")
        await choose_recipient(tab, "All recipients")
    await tab.until_subjects("late", "for anna")
    async with tab.expect_deletions(2):
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert catcher.subjects() == ["late", "for anna"]


async def test_a_failed_deletion_is_reported_and_the_messages_reappear(catcher, catcher_tab, expect):
    catcher.send("one", "two")
    tab = await catcher_tab()
    await tab.until_subjects("two", "one")
    await tab.page.route(
        "**/messages?*", lambda route: route.abort() if route.request.method == "DELETE" else route.continue_()
    )
    await choose_of_all(tab, "Delete all messages")
    await tab.until_subjects()
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(tab.page.locator("#toast")).to_have_text("The service cannot be reached.")
    await tab.until_subjects("two", "one")
    assert catcher.subjects() == ["two", "one"]


@BROWSERS
async def test_each_message_has_a_url_for_the_back_and_forward_buttons_and_for_other_browsers(
    catcher, catcher_tab, new_tab, expect
):
    catcher.send("one", "two", "three")
    tab = await catcher_tab()
    await tab.open("one")
    await expect(tab.page).to_have_url(MESSAGE_URL)
    first = tab.page.url
    await tab.open("two")
    second = tab.page.url
    assert first != second
    await tab.page.evaluate("history.back()")
    await expect(tab.heading("one")).to_be_visible()
    await expect(tab.page).to_have_url(first)
    await tab.page.evaluate("history.forward()")
    await expect(tab.heading("two")).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page).to_have_url(f"{catcher.url}/")
    await expect(tab.reader).to_be_hidden()
    await tab.page.evaluate("history.forward()")
    await expect(tab.heading("one")).to_be_visible()
    await tab.page.reload()
    await expect(tab.heading("one")).to_be_visible()
    colleague = await new_tab(at=catcher) if tab.tells else tab
    await colleague.page.goto("about:blank")
    await colleague.page.goto(second)
    await expect(colleague.heading("two")).to_be_visible()
    await colleague.page.keyboard.press("Escape")
    await expect(colleague.reader).to_be_hidden()
    await expect(colleague.rows).to_have_count(3)


async def test_the_url_of_a_message_can_be_copied_and_also_opens_an_old_message(catcher, catcher_tab, expect):
    catcher.send("the first", to=["bob@shop.example"])
    mail = b"Subject: another\r\n\r\nText\r\n"
    catcher.deliver_raw("anna@shop.example", *[mail] * 120)
    oldest = catcher.request("messages?to=bob@shop.example")["messages"][0]["id"]
    tab = await catcher_tab(f"#{oldest}")
    await expect(tab.heading("the first")).to_be_visible()
    assert await tab.rows.count() <= 121
    await tab.button("Copy link").first.click()
    assert await tab.pasted() == f"{catcher.url}/#{oldest}"


async def test_a_missing_message_is_reported_in_a_sentence(catcher, catcher_tab, expect):
    catcher.send("one")
    tab = await catcher_tab("#msg_01aaaaaaaaaaaaaaaaaaaaaaaa")
    told = tab.page.get_by_role("alert").filter(has_text="This message no longer exists.")
    await expect(told).to_be_visible()
    await tab.open("one")
    await expect(told).to_have_count(0)


async def test_a_message_opened_right_after_going_back_stays_open_with_its_url(catcher, catcher_tab, expect):
    catcher.send("one", "two")
    tab = await catcher_tab(**PHONE)
    await tab.row("one").tap()
    await tab.heading("one").wait_for()
    await tab.page.evaluate(SCRIPTS["BACK_AND_OPEN_THE_NEWEST"])
    await expect(tab.heading("two")).to_be_visible()
    assert MESSAGE_URL.search(tab.page.url)
    await tab.page.go_back()
    await expect(tab.heading("two")).to_be_hidden()
    assert tab.page.url == f"{catcher.url}/"


async def test_on_a_phone_a_message_fills_the_screen_and_going_back_returns_to_the_list_of_the_catcher(
    catcher, catcher_tab, expect
):
    catcher.send("one", "two")
    tab = await catcher_tab(**PHONE)
    for go_back in (tab.page.go_back, tab.button("Back").tap):
        await tab.row("two").tap()
        await expect(tab.heading("two")).to_be_visible()
        await expect(tab.list).to_be_hidden()
        await tab.button("Next message").tap()
        await expect(tab.heading("one")).to_be_visible()
        if go_back == tab.page.go_back:
            await tab.page.go_back()
            await expect(tab.heading("two")).to_be_visible()
        await go_back()
        await expect(tab.row("two")).to_be_visible()
        await expect(tab.page).to_have_url(f"{catcher.url}/")


async def test_messages_deleted_elsewhere_disappear_and_an_open_message_is_marked_as_deleted(
    catcher, catcher_tab, new_tab, expect
):
    catcher.send("one", "two", "three")
    tab = await catcher_tab()
    await tab.open("two")
    [two] = [one for one in catcher.request("messages")["messages"] if one["subject"] == "two"]
    catcher.request(f"messages/{two['id']}", "DELETE")
    await tab.until_subjects("three", "one")
    await expect(tab.page.locator("#toast")).to_have_text("This message was deleted.")
    await expect(tab.reader).to_be_hidden()
    await expect(tab.heading("2 messages")).to_be_visible()
    await expect(tab.recipients.get_by_role("button").first).to_have_text("All recipients2")


async def test_after_a_restart_the_page_shows_the_messages_of_the_service(catcher, catcher_tab, expect):
    catcher.send("before", "also before")
    tab = await catcher_tab()
    await tab.until_subjects("also before", "before")
    catcher.restart()
    await expect(tab.rows).to_have_count(0)
    catcher.send("after", to=["bob@shop.example"])
    await tab.until_subjects("after")
    await expect(tab.heading("1 message")).to_be_visible()
    await expect(tab.recipients.get_by_role("button").first).to_have_text("All recipients1")


async def test_messages_read_in_one_tab_are_read_in_all_tabs_and_after_a_reload(catcher, catcher_tab, new_tab, expect):
    catcher.send("one", "two", "three")
    tab = await catcher_tab()
    other = await (await (await new_tab(beside=tab, at=catcher)).visit()).until_live()
    await tab.open("two")
    unread = other.list.locator(".unread")
    await expect(unread).to_have_count(2)
    await choose_of_all(other, "Mark all as read")
    await expect(tab.list.locator(".unread")).to_have_count(0)
    catcher.send("four")
    await expect(tab.page).to_have_title("(1) tmpmaild")
    await other.page.reload()
    await expect(unread).to_have_count(1)


async def test_thousands_of_messages_are_listed_in_pages_counted_and_searched(catcher, catcher_tab, expect):
    mail = "From: a@shop.example\r\nSubject: number {0}\r\n\r\nText {0}\r\n"
    catcher.deliver_raw("anna@shop.example", *[mail.format(number).encode() for number in range(1200)])
    catcher.send("for bob", to=["bob@shop.example"])
    tab = await catcher_tab()
    await expect(tab.heading("1201 messages")).to_be_visible()
    first = await tab.rows.count()
    assert 100 <= first <= 200
    search = tab.page.get_by_role("searchbox", name="Search all messages")
    await search.fill('"number 7"')
    await expect(tab.page.get_by_text("111 of 1201", exact=True)).to_be_visible()
    assert await tab.rows.count() <= 200
    await search.fill("")
    for count in (200, 300, 400, 500):
        await tab.button("Older messages").scroll_into_view_if_needed()
        await expect(tab.rows).to_have_count(count)
    await tab.button("Older messages").click()
    await expect(tab.rows.first).to_contain_text("number 700")
    await expect(tab.rows.first).to_be_in_viewport()
    await tab.button("Newer messages").click()
    await expect(tab.rows).to_have_count(500)
    await expect(tab.rows.last).to_be_in_viewport()
    await choose_recipient(tab, "bob@shop.example")
    await tab.until_subjects("for bob")
    await choose_recipient(tab, "All recipients")
    await tab.open("for bob")
    for number in range(1199, 1089, -1):
        await tab.page.keyboard.press("j")
        await expect(tab.heading(f"number {number}")).to_be_visible()


async def test_hostile_texts_and_a_thousand_recipients_are_shown_as_text(catcher, catcher_tab, expect):
    everybody = [f"user{number}@shop.example" for number in range(999)]
    catcher.send(HOSTILE, to=["<img/src=x>@shop.example".replace("<", "").replace(">", ""), *everybody])
    catcher.deliver_raw('"<script>alert(1)</script> \\" b"@shop.example', b"Subject: quoted\r\n\r\nText\r\n")
    catcher.deliver_raw(f"{'a' * 64}@{'b' * 60}.{'c' * 60}.example", b"Subject: long\r\n\r\nText\r\n")
    tab = await catcher_tab()
    await expect(tab.rows).to_have_count(3)
    await tab.rows.last.get_by_role("button").first.click()
    await tab.reader.locator(".addressees summary").click()
    await expect(tab.reader.get_by_role("listitem")).to_have_count(1000)
    await tab.recipients.get_by_role("button").first.click()
    await expect(tab.recipients.get_by_text("900 more recipients")).to_be_visible()
    await tab.recipients.get_by_role("searchbox", name="Find a recipient").fill("<SCRIPT")
    await expect(tab.recipients.locator(".recipient")).to_have_count(1)
    await tab.recipients.get_by_role("searchbox", name="Find a recipient").fill("user998")
    advice = tab.recipients.get_by_role("status")
    await expect(advice).to_contain_text(
        re.compile("^No match among the 1000 most recent .* search .* for .?to:user998")
    )
    await tab.page.get_by_role("searchbox", name="Search all messages").fill("to:user998")
    await expect(tab.rows).to_have_count(1)
    assert await tab.page.locator("main img, main script").count() == 0


IS_NARROW = """["html", "#mail", "#reader"].every((name) => document.querySelector(name).scrollWidth <= innerWidth)"""


async def test_on_the_narrowest_screen_nothing_is_wider_than_the_page_in_any_language(catcher, catcher_tab, expect):
    catcher.deliver_raw("anna@shop.example", *[b"Subject: x\r\n\r\nText\r\n"] * 999)
    long = f"{'a' * 64}@{'b' * 60}.{'c' * 60}.example"
    others = [f"user{number}@shop.example" for number in range(20)]
    catcher.send("long " * 30, to=[long, long.replace("b", "d"), *others])
    for language in ("en", "de", "ru", "ar"):
        tab = await catcher_tab(locale=language, **{**PHONE, "viewport": {"width": 320, "height": 640}})
        await expect(tab.page.locator("#mail-title")).to_contain_text("1000")
        await tab.page.locator("#inboxes .all").tap()
        assert await tab.page.evaluate(IS_NARROW), language
        await tab.page.locator("#list .open").first.tap()
        await tab.page.locator(".addressees summary").tap()
        await expect(tab.page.locator(".blind").first).to_be_visible()
        assert await tab.page.evaluate(IS_NARROW), language


@pytest.mark.parametrize("options", [WIDE, WIDEST, PHONE], ids=["wide", "widest", "phone"])
async def test_axe_finds_nothing_in_light_and_dark(start_catcher, any_tab, complaints, options):
    catcher = start_catcher("--host", "mail")
    catcher.send("two", to=["anna@shop.example", "archive@company.example"], text="Your code is 482913.")
    for number in range(12):
        catcher.send("one", to=[f"user{number}@shop.example"])
    tab = await any_tab(at=catcher, **options)
    await tab.visit("#msg_01aaaaaaaaaaaaaaaaaaaaaaaa")
    await tab.page.get_by_role("alert").get_by_text("This message no longer exists.").wait_for()
    if await tab.page.locator("#inboxes .all").is_visible():
        await tab.page.locator("#inboxes .all").click()
    found = await complaints(tab.page)
    await tab.page.get_by_role("searchbox", name="Find a recipient").fill("nobody")
    found += await complaints(tab.page)
    await tab.page.keyboard.press("Escape")
    await tab.page.locator("#list .open").last.click()
    await tab.page.locator(".addressees summary").click()
    await tab.page.locator(".blind").first.wait_for()
    found += await complaints(tab.page)
    await tab.visit("#")
    await choose_of_all(tab, "Select several")
    found += await complaints(tab.page)
    await tab.button("Cancel").click()
    await choose_of_all(tab, "Delete all messages")
    await tab.button("Undo").wait_for()
    found += await complaints(tab.page)
    assert sorted(set(found)) == []


async def test_all_messages_or_the_messages_to_the_selected_recipient_are_saved_as_one_mbox_file(
    catcher, catcher_tab, tmp_path, expect
):
    catcher.send("one")
    catcher.send("two", to=["ben+1@shop.example", "anna@shop.example"])
    catcher.send("three", to=["ben@shop.example"])
    tab = await catcher_tab()

    async def saved_subjects(label, name):
        async with tab.saving() as saved:
            await choose_of_all(tab, label)
        assert saved.name == name
        (tmp_path / name).write_bytes(saved.octets)
        with closing(mailbox.mbox(tmp_path / name, create=False)) as messages:
            return [message["Subject"] for message in messages]

    assert await saved_subjects("Save all messages as mbox", "messages.mbox") == ["one", "two", "three"]
    await expect(tab.page.get_by_text("Saved 3 messages.")).to_be_visible()
    await choose_recipient(tab, "ben+1@shop.example")
    await tab.until_subjects("two")
    label = "Save the messages to this recipient as mbox"
    assert await saved_subjects(label, "ben+1@shop.example.mbox") == ["two"]
    await expect(tab.page.get_by_text("Saved 1 message.")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "de", "es"])
@pytest.mark.parametrize("options", [WIDE, PHONE], ids=["wide", "phone"])
async def test_the_bar_of_the_inboxes_has_one_line(catcher, any_tab, options, language):
    tab = await any_tab(at=catcher, locale=language, **options)
    await tab.visit("inboxes")
    await tab.page.locator("#state.live").wait_for()
    visible = (
        "all => all.filter(one => one.checkVisibility()).map(one => Math.round(one.getBoundingClientRect().bottom))"
    )
    bottoms = await tab.page.locator("header.bar > *").evaluate_all(visible)
    assert max(bottoms) - min(bottoms) < 20


async def test_inboxes_can_be_opened_with_one_click_and_keep_their_tokens(catcher, catcher_tab, expect):
    private = catcher.create(local_part="secret-name", private=True)
    catcher.send("for the secret name", to=[private.address])
    tab = await catcher_tab()
    await tab.until_subjects("for the secret name")
    await tab.page.get_by_role("link", name="Your inboxes").click()
    await tab.until_live()
    assert "@" in await tab.address()
    await tab.page.get_by_role("link", name="All messages").click()
    await tab.until_subjects("for the secret name")
    await tab.page.goto("about:blank")
    await tab.follow(private)
    await tab.until_subjects("for the secret name")
    assert tab.page.url == f"{catcher.url}/inboxes"
    assert await tab.address() == private.address


async def test_the_page_states_where_mail_is_accepted_and_has_no_warning_on_loopback(catcher, catcher_tab, expect):
    tab = await catcher_tab()
    place = f"127.0.0.1:{catcher.smtp_port}"
    await expect(tab.card).to_contain_text(f"Accepts mail on SMTP {place}")
    await expect(tab.page.get_by_text(f"Send mail to {place} over SMTP, to any recipient.")).to_be_visible()
    await expect(tab.card).not_to_contain_text("Everyone")


@pytest.mark.parametrize(
    ("options", "settings"),
    [((), {"TMPMAILD_HTTP__LISTEN": "0.0.0.0:0"}), (("--host", "mail"), {})],
    ids=["an address of other machines", "a name"],
)
async def test_the_page_warns_that_everyone_can_read_everything_if_other_machines_can_reach_it(
    start_catcher, any_tab, expect, options, settings
):
    tab = await (await (await any_tab(at=start_catcher(*options, **settings))).visit()).until_live()
    told = tab.card.get_by_text("Anyone who can reach this page can read and delete all messages.")
    await expect(told).to_be_visible()
    await tab.button("Dismiss", tab.card).click()
    await tab.page.reload()
    await tab.until_live()
    await expect(told).to_have_count(0)
