"""The inbox, operated by keyboard alone: no test in this file uses the mouse."""

import pytest


@pytest.fixture
async def three(tab):
    """Open a tab with three messages, of which the newest is open."""
    address = await tab.address()
    for subject in ("one", "two", "three"):
        tab.daemon.deliver(address, subject, sender=f"{subject} <{subject}@example.com>")
        await tab.row(subject).wait_for()
    return tab


async def press(tab, *keys):
    for key in keys:
        await tab.page.keyboard.press(key)


async def test_the_address_is_copied_named_and_deleted_by_keyboard_and_a_dialog_traps_and_restores_the_focus(
    tab, expect
):
    await tab.tab_to("Copy")
    await press(tab, "Enter")
    await tab.button("Copied").wait_for()
    assert await tab.pasted() == await tab.address()
    for name, menu in {"QR code": "More", "Choose a name": "New address"}.items():
        await tab.tab_to(menu)
        await press(tab, "Enter")
        await expect(tab.card.locator("[role=menuitem]:focus")).to_be_visible()
        await press(tab, *["ArrowDown"] * (name == "Choose a name"), "Enter")
        await expect(tab.dialog).to_be_visible()
        for _ in range(8):
            await press(tab, "Tab")
            # After the last element, the focus is in the browser's own toolbar, which is not part of the document.
            assert await tab.page.evaluate("document.activeElement.matches('body, dialog, dialog *')")
        await press(tab, "Escape")
        await expect(tab.dialog).to_have_count(0)
        await expect(tab.button(menu)).to_be_focused()
    await press(tab, "Enter")
    await expect(tab.card.locator("[role=menuitem]:focus")).to_be_visible()
    await press(tab, "ArrowDown", "Enter")
    await expect(tab.dialog).to_be_visible()
    while not await tab.dialog.get_by_role("textbox").evaluate("one => one === document.activeElement"):
        await press(tab, "Tab")
    name = f"by.keyboard.{(await tab.address())[:12]}"
    await tab.page.keyboard.type(name)
    await press(tab, "Enter")
    await tab.card.get_by_title(f"{name}@mail.example.com").wait_for()
    await tab.tab_to("More")
    await press(tab, "Enter")
    await expect(tab.card.get_by_role("menuitem").first).to_be_focused()
    await press(tab, "Escape")
    await expect(tab.button("More")).to_be_focused()
    await press(tab, "Enter")
    await expect(tab.card.get_by_role("menuitem").first).to_be_focused()
    await press(tab, "ArrowUp")
    await expect(tab.card.get_by_role("menuitem", name="Delete")).to_be_focused()
    await press(tab, "Enter")
    await expect(tab.page.locator("#undo")).to_contain_text(f"Deleting {name}…")


@pytest.mark.browsers("webkit")  # in Firefox, the next Tab moves the focus to the toolbars
async def test_the_skip_link_arrow_keys_enter_and_escape_work_in_the_list_and_the_reader(three, expect):
    await press(three, "Tab")
    assert await three.focused() == "Skip to the messages"
    await expect(three.page.get_by_role("link", name="Skip to the messages")).to_be_in_viewport()
    await press(three, "Enter", "Tab")
    await expect(three.row("three")).to_be_focused()
    await expect(three.page).to_have_url(f"{three.daemon.url}/")
    await three.tab_to("three")
    for key, subject in (("ArrowDown", "two"), ("End", "one"), ("ArrowUp", "two"), ("Home", "three"), ("End", "one")):
        await press(three, key)
        await expect(three.row(subject)).to_be_focused()
    await press(three, "Enter")
    await expect(three.heading("one")).to_be_focused()
    await expect(three.row("one")).to_have_attribute("aria-current", "true")
    for key, subject in (
        ("k", "two"),
        ("ArrowLeft", "three"),
        ("ArrowLeft", "three"),
        ("j", "two"),
        ("ArrowRight", "one"),
    ):
        await press(three, key)
        await expect(three.heading(subject)).to_be_focused()
    await expect(three.page.get_by_text("There are no more messages.")).to_be_attached()
    await press(three, "Tab", "Escape")
    await expect(three.reader).to_be_hidden()
    await expect(three.row("one")).to_be_focused()
    for key, subject in (("k", "two"), ("k", "three"), ("j", "two")):
        await press(three, key)
        await expect(three.row(subject)).to_be_focused()


@pytest.mark.browsers("firefox", "webkit")
async def test_deleting_moves_the_focus_to_a_neighbour_and_undoing_restores_the_message_and_the_focus(three, expect):
    shown = three.page.get_by_role("status")
    await three.tab_to("three")
    await press(three, "ArrowDown", "Delete")
    await three.until_subjects("three", "one")
    await expect(three.row("one")).to_be_focused()
    await press(three, "#")
    await three.until_subjects("three")
    await expect(three.row("three")).to_be_focused()
    await expect(shown.filter(has_text="Deleting 2 messages…")).to_be_visible()
    await press(three, "z")
    await three.until_subjects("three", "two", "one")
    await expect(three.row("one")).to_be_focused()
    for left in (("three", "two"), ("three",), ()):
        await press(three, "Delete")
        await three.until_subjects(*left)
    await expect(three.reader).to_be_hidden()
    assert [method for method, _ in three.asked].count("DELETE") == 0
    await three.send_deletions(3)
    await expect(shown.filter(has_text="3 messages deleted.")).to_be_visible()
    await expect(shown.filter(has_text="Deleting")).to_have_count(0)
    assert [method for method, _ in three.asked].count("DELETE") == 1 or not three.tells
    assert three.daemon.request(f"addresses/{await three.address()}/messages") == {"messages": []}


async def test_single_keys_search_copy_the_code_and_open_the_link_unless_switched_off(tab, expect):
    text = "Your verification code is 482913.\nConfirm your address: https://shop.example/confirm?token=1"
    for subject, body in (("plain", "Nothing."), ("Confirm your address", text)):
        tab.daemon.deliver(await tab.address(), subject, text=body)
        await tab.row(subject).wait_for()
    await tab.row("Confirm your address").focus()
    await press(tab, "c")
    await expect(tab.page.get_by_text("Copied").first).to_be_attached()
    assert await tab.pasted() == "482913"
    await tab.page.context.route("https://shop.example/**", lambda route: route.fulfill(body="<!doctype html>"))
    await tab.open("Confirm your address")
    async with tab.page.context.expect_page() as opened:
        await press(tab, "o")
    assert await (await opened.value).evaluate("opener") is None
    await (await opened.value).close()
    await tab.page.bring_to_front()
    await press(tab, "j", "c")
    await expect(tab.page.get_by_text("There is no code in this message.")).to_be_attached()
    await press(tab, "/")
    await tab.page.keyboard.type("jkcoz#?")
    await expect(tab.page.get_by_role("searchbox")).to_have_value("jkcoz#?")
    await press(tab, "Escape", "Escape", "?")
    await expect(tab.dialog).to_contain_text("Copy the code from the message")
    await press(tab, "j", "Tab", "Space", "Escape", "j", "?")
    await expect(tab.dialog).to_have_count(0)
    await expect(tab.heading("plain")).to_be_visible()
