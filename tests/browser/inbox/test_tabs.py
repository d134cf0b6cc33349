"""One inbox in several tabs, and the state of a tab while the daemon is unavailable."""

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
    await second.page.reload()  # a reload sends the deletion, twice if the page is left before the response arrives
    for one in (tab, second):
        await one.until_subjects("two")
    await tab.page.close()
    tab.daemon.deliver(address, "three")
    await second.until_subjects("three", "two")
    assert [path for path in await second.answered() if "?id=" not in path] == []
    assert [each for each in second.asked if each[0] != "DELETE"] == [("POST", "events")] or not tab.tells


@pytest.mark.browsers("firefox", "webkit")
async def test_an_address_deleted_in_one_tab_disappears_from_the_other_tab(tab, new_tab, expect):
    second = await (await (await new_tab(beside=tab)).visit()).until_live()
    await second.end()
    for one in (tab, second):
        await expect(one.heading("This address was deleted")).to_be_visible()


@pytest.mark.browsers("firefox", "webkit")
async def test_messages_stay_readable_without_the_daemon_and_no_message_is_lost_or_duplicated_afterwards(
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
    await expect(tab.state).to_contain_text("Retrying in")
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


async def test_a_page_in_the_back_forward_cache_releases_the_stream_and_is_updated_when_it_returns(tab, new_tab):
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
