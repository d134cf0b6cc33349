"""The inbox on a phone: what is said on the first visit, mail that comes while one reads, notifications."""

import re

import anyio

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


async def test_the_first_visit_says_who_reads_how_long_and_that_nothing_is_sent_until_mail_comes(any_tab, expect):
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


async def test_mail_that_comes_while_another_covers_the_list_is_told_in_a_bar(open_inbox, daemon, inbox, expect):
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


async def test_where_a_page_may_not_notify_its_worker_does(desktop_pages, daemon, tab_in):
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
