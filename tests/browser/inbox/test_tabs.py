"""One inbox in several tabs, and what a tab shows while the daemon is away."""

import pytest


@pytest.mark.browsers("firefox", "webkit")
async def test_two_tabs_have_one_stream_and_show_the_same(tab, new_tab):
    second = await (await (await new_tab(beside=tab)).visit()).until_live()
    address = await tab.address()
    tab.daemon.deliver(address, "one")
    tab.daemon.deliver(address, "two")
    for one in (tab, second):
        await one.until_subjects("two", "one")
    assert await second.answered() == second.asked == []
    await second.open("one")
    await second.button("Delete message").click()
    await second.until_subjects("two")
    await second.page.reload()  # which sends the deletion, and once more where the page was left before the answer
    for one in (tab, second):
        await one.until_subjects("two")
    await tab.page.close()
    tab.daemon.deliver(address, "three")
    await second.until_subjects("three", "two")
    assert [path for path in await second.answered() if "?id=" not in path] == []
    assert [each for each in second.asked if each[0] != "DELETE"] == [("POST", "events")] or not tab.tells


@pytest.mark.browsers("firefox", "webkit")
async def test_an_address_that_one_tab_deletes_is_gone_in_the_other(tab, new_tab, expect):
    second = await (await (await new_tab(beside=tab)).visit()).until_live()
    await second.end()
    for one in (tab, second):
        await expect(one.heading("This address was deleted")).to_be_visible()


@pytest.mark.browsers("firefox", "webkit")
async def test_what_has_arrived_stays_readable_when_the_daemon_is_gone_and_nothing_is_missed_or_doubled_when_it_is_back(
    mortal_daemon, any_tab, expect
):
    daemon = mortal_daemon
    tab = await (await (await any_tab(at=daemon)).visit()).until_live()
    address = await tab.address()
    daemon.deliver(address, "one", text="the first text")
    daemon.deliver(address, "two", text="the second text")
    await tab.until_subjects("two", "one")
    daemon.stop()
    await expect(tab.state).to_contain_text("Connection lost.")
    await tab.button("Try now").click()
    await expect(tab.state).to_contain_text("Next try in")
    for subject, text in (("two", "the second text"), ("one", "the first text")):
        await tab.open(subject)
        assert await tab.reader.get_by_text(text).is_visible()
    await tab.button("Headers").click()
    await expect(tab.reader.get_by_text("The service cannot be reached.")).to_be_visible()
    assert await tab.address() == address
    daemon.start()
    daemon.deliver(address, "meanwhile")
    await tab.until_live()
    daemon.deliver(address, "after")
    await tab.until_subjects("after", "meanwhile", "two", "one")


AWAY = "(event) => dispatchEvent(new PageTransitionEvent(event, { persisted: true }))"


async def test_a_page_that_is_kept_for_back_leaves_the_stream_to_others_and_is_up_to_date_when_it_is_back(tab, new_tab):
    second = await (await (await new_tab(beside=tab)).visit()).until_live()
    address = await tab.address()
    async with second.page.expect_request("**/events"):
        await tab.page.evaluate(AWAY, "pagehide")
    await second.until_live()
    tab.daemon.deliver(address, "one")
    await second.until_subjects("one")
    assert await tab.rows.count() == 0
    await tab.page.evaluate(AWAY, "pageshow")
    await tab.until_subjects("one")
    await tab.until_live()
    assert tab.asked == [("POST", "addresses"), ("POST", "events")]
