"""Actions on all messages of an inbox: selecting, saving and deleting.

The tests also cover the inbox's expiry, and new messages that arrive out of view.
"""

import mailbox
import re
from contextlib import closing
from urllib.parse import quote

import pytest

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture
async def three(open_inbox, daemon, inbox):
    for subject in ("one", "two/..", "three"):
        daemon.deliver(inbox.address, subject, text=f"This is {subject}.")
    tab = await open_inbox(inbox, viewport={"width": 1280, "height": 720})
    await tab.until_subjects("three", "two/..", "one")
    return tab


async def choose_of_all(tab, name):
    await tab.button("All messages").click()
    await tab.page.get_by_role("menuitem", name=name).click()


async def test_all_mail_is_marked_as_read_at_once_in_every_tab(three, new_tab, expect):
    second = await (await (await new_tab(beside=three)).visit()).until_live()
    await expect(three.page).to_have_title(re.compile(r"^\(\d\)"))  # the newest message opens automatically
    await choose_of_all(three, "Mark all as read")
    for tab in (three, second):
        await expect(tab.page).to_have_title("tmpmaild")
        await expect(tab.list.locator(".unread")).to_have_count(0)


async def test_several_messages_are_selected_and_deleted_together_and_one_undo_restores_them(
    three, daemon, inbox, expect
):
    await choose_of_all(three, "Select several")
    for subject in ("one", "three"):
        await three.page.get_by_role("checkbox", name=subject).check()
    await three.button("Delete (2)").click()
    await three.until_subjects("two/..")
    await expect(three.page.get_by_role("checkbox")).to_have_count(0)
    await three.button("Undo").click()
    await three.until_subjects("three", "two/..", "one")
    await choose_of_all(three, "Select several")
    await three.page.get_by_role("searchbox").fill("This is two")
    await three.button("All").click()
    await three.button("Delete (1)").click()
    await three.page.get_by_role("searchbox").fill("")
    await three.send_deletions()
    subjects = [one["subject"] for one in daemon.request(f"addresses/{inbox.address}/messages")["messages"]]
    assert subjects == ["three", "one"]


async def test_in_selection_mode_a_tap_selects_shift_selects_a_range_and_delete_without_a_selection_does_nothing(
    three, daemon, inbox, expect
):
    for number in range(4):
        daemon.deliver(inbox.address, f"more {number}")
        await three.row(f"more {number}").wait_for()
    await choose_of_all(three, "Select several")
    delete = three.page.get_by_role("button", name="Delete (")
    await expect(delete).to_be_disabled()
    await expect(delete).not_to_have_class("danger")
    await three.row("more 3").click()
    await expect(three.button("Delete (1)")).to_have_class("main danger")
    await three.row("three").click(modifiers=["Shift"])
    await expect(three.button("Delete (5)")).to_be_enabled()
    await three.page.get_by_role("checkbox", name="one").click(modifiers=["Shift"])
    await expect(three.button("Delete (7)")).to_be_enabled()
    await three.row("more 0").click()
    await expect(three.button("Delete (6)")).to_be_enabled()
    await expect(three.heading("more 0")).to_have_count(0)


def mails_in(saved, folder):
    """Return the subjects and texts that Python's mailbox module finds in a saved file."""
    (folder / "saved").write_bytes(saved.octets)
    with closing(mailbox.mbox(folder / "saved", create=False)) as mails:
        return [(mail["Subject"], mail.get_payload().strip()) for mail in mails]


@pytest.mark.browsers("firefox", "webkit")
async def test_all_mail_is_saved_as_one_mbox_file_with_one_request(open_inbox, daemon, tmp_path, expect):
    inbox = daemon.create(private=True)
    for subject in ("one", "two/..", "three"):
        daemon.deliver(inbox.address, subject, text=f"This is {subject}.\nFrom here on.")
    tab = await open_inbox(inbox)
    await tab.until_subjects("three", "two/..", "one")
    tab.asked.clear()
    async with tab.saving() as saved:
        await choose_of_all(tab, "Save all messages as mbox")
    assert saved.name == f"{inbox.address}.mbox"
    found = mails_in(saved, tmp_path)
    assert [subject for subject, _ in found] == ["one", "two/..", "three"]
    assert "This is one." in found[0][1]
    await expect(tab.page.get_by_text("Saved 3 messages.")).to_be_visible()
    assert tab.asked == [("GET", f"addresses/{quote(inbox.address, safe='')}/messages.mbox")] or not tab.tells


async def test_a_response_that_is_cut_off_is_not_saved(three, expect):
    await three.page.route("**/messages.mbox", lambda route: route.abort())
    await choose_of_all(three, "Save all messages as mbox")
    await expect(three.page.locator("#toast")).to_have_text("The service cannot be reached.")


async def test_before_the_expiry_an_extension_and_saving_are_offered_even_while_reading(
    open_inbox, daemon, inbox, expect, tmp_path
):
    daemon.deliver(inbox.address, "one")
    tab = await open_inbox(inbox, **PHONE)
    await tab.row("one").tap()
    warning = tab.page.get_by_role("alert")
    await expect(warning).to_be_hidden()
    daemon.extend(inbox, 240)
    await expect(warning).to_contain_text("This address expires at")
    async with tab.saving() as saved:
        await tab.button("Save all messages as mbox", warning).tap()
    assert [subject for subject, _ in mails_in(saved, tmp_path)] == ["one"]
    await tab.button(re.compile("^Extend to"), warning).tap()
    await expect(warning).to_be_hidden()
    daemon.extend(inbox, 200)
    await tab.button("Dismiss", warning).tap()
    await expect(warning).to_be_hidden()
    await tab.page.wait_for_timeout(1100)  # the page checks the expiry every second
    await expect(warning).to_be_hidden()


@pytest.mark.parametrize("options", [PHONE, {"viewport": {"width": 1280, "height": 600}}], ids=["phone", "wide"])
async def test_a_button_announces_new_messages_that_are_out_of_sight_and_scrolls_to_them(
    open_inbox, daemon, inbox, expect, options
):
    for number in range(12):
        daemon.deliver(inbox.address, f"mail {number:02}")
    tab = await open_inbox(inbox, **options)
    await expect(tab.rows).to_have_count(12)
    await tab.row("mail 00").click()
    if "is_mobile" in options:
        await tab.button("Back").tap()
    # A message does not count as new in the page's first seconds.
    await expect(tab.page.locator("#arrived")).to_be_hidden()
    await tab.row("mail 00").scroll_into_view_if_needed()
    pill = tab.page.locator("#arrived")
    daemon.deliver(inbox.address, "new")
    daemon.deliver(inbox.address, "newer")
    await expect(pill).to_have_text("2 new messages")
    await pill.click()
    await expect(tab.row("newer")).to_be_focused()
    await expect(tab.row("newer")).to_be_in_viewport()
    await expect(pill).to_be_hidden()
    daemon.deliver(inbox.address, "in sight")
    await expect(tab.rows).to_have_count(15)
    await expect(pill).to_be_hidden()
