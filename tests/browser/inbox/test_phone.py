"""The inbox on a phone: the text on the first visit, messages that arrive during reading, and notifications."""

import re

import anyio

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


async def test_the_first_visit_explains_who_can_read_and_for_how_long_until_a_message_arrives(any_tab, expect):
    tab = await (await (await any_tab(**PHONE)).visit()).until_live()
    note = tab.page.get_by_role("note")
    await expect(note).to_contain_text("Anyone who knows this address can read its messages")
    await expect(note).to_contain_text(re.compile(r"kept until \d?\d:\d\d [AP]M and then deleted\. You cannot send"))
    await tab.page.reload()
    await expect(note).to_be_visible()
    tab.daemon.deliver(await tab.address(), "one")
    await expect(note).to_be_hidden()
    await tab.page.reload()
    await tab.until_subjects("one")
    await expect(note).to_be_hidden()


async def test_a_bar_announces_messages_that_arrive_while_an_open_message_covers_the_list(
    open_inbox, daemon, inbox, expect
):
    tab = await open_inbox(inbox, **PHONE)
    daemon.deliver(inbox.address, "first")
    await tab.row("first").tap()
    bar = tab.page.get_by_role("region", name="New messages")
    await expect(bar).to_be_hidden()
    daemon.deliver(inbox.address, "second")
    await expect(bar).to_contain_text("Alice: second")
    daemon.deliver(inbox.address, "third", text="Your verification code is 482913.")
    await expect(bar).to_contain_text("2 new messages")
    await tab.button("Copy code 482913", bar).tap()
    assert await tab.pasted() == "482913"
    await tab.button("Open", bar).tap()
    await expect(tab.heading("third")).to_be_visible()
    await expect(bar).to_contain_text("Alice: second")
    await tab.button("Dismiss", bar).tap()
    await expect(bar).to_be_hidden()


async def test_the_warning_before_the_end_hides_neither_the_last_message_nor_the_end_of_a_message(open_inbox, daemon):
    inbox = daemon.create(expires_in_seconds=280)
    for number in range(8):
        daemon.deliver(inbox.address, f"mail {number}", text="A line.\n" * 80 + "The end.")
    tab = await open_inbox(inbox, **PHONE)
    warning = tab.page.get_by_role("alert").filter(has_text="expires at")
    await warning.wait_for()
    await tab.row("mail 0").tap()  # cannot be tapped if it is covered
    await tab.heading("mail 0").wait_for()
    await tab.reader.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    end = await tab.reader.locator(".pane").evaluate("one => one.getBoundingClientRect().bottom")
    assert end <= await warning.evaluate("one => one.getBoundingClientRect().top")


async def test_a_page_that_may_not_notify_uses_its_service_worker(desktop_pages, daemon, tab_in):
    tab = tab_in(await desktop_pages.open(permissions=["notifications"]), daemon)
    await tab.page.add_init_script(f"({SCRIPTS['WITHOUT_NOTIFICATIONS_BY_PAGES']})()")
    async with tab.page.context.expect_event("serviceworker") as registered:
        await (await tab.visit()).until_live()
    worker = await registered.value
    tab.daemon.deliver(await tab.address(), "Sign up", text="Your verification code is 482913.")
    with anyio.fail_after(30):
        while not (shown := await tab.page.evaluate(SCRIPTS["SHOWN"])):
            await tab.page.wait_for_timeout(50)
    assert shown == ["Alice", "482913 · Sign up"]
    await worker.evaluate(
        "registration.getNotifications().then(([notification]) =>"
        " dispatchEvent(new NotificationEvent('notificationclick', { notification })))"
    )
    await tab.heading("Sign up").wait_for()
