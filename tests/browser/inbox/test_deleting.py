"""Many mails are deleted with one request, are called deleted when the server has said so, and none comes back."""

import re
from asyncio import Event
from urllib.error import HTTPError

import anyio
import pytest

MANY = 32


def subjects(count):
    return [f"mail {number:03}" for number in reversed(range(count))]


def count_of(tab, inbox):
    return tab.daemon.request(f"addresses/{inbox}")["message_count"]


async def fill(tab, count):
    address = await tab.address()
    mail = "From: a@example.com\r\nSubject: {}\r\n\r\nText\r\n"
    tab.daemon.deliver_octets(address, *(mail.format(one).encode() for one in reversed(subjects(count))))
    await tab.until_subjects(*subjects(count))
    return address


async def delete_all(tab):
    await tab.button("All messages").click()
    await tab.page.get_by_role("menuitem", name="Select several").click()
    await tab.button("All").click()
    await tab.button(re.compile(r"^Delete \(\d+\)$")).click()
    await tab.until_subjects()


def may_ask(daemon):
    try:
        daemon.request("domains")
    except HTTPError as refused:
        return refused.code != 429
    return True


def deletions(tab):
    return [path.partition("/messages")[2] for method, path in tab.asked if method == "DELETE"]


async def test_all_mail_goes_with_one_request_and_is_called_deleted_when_the_server_has_said_so(
    start_daemon, new_tab, expect
):
    tab = await (await (await new_tab(at=start_daemon())).visit()).until_live()
    address = await fill(tab, MANY)
    answered = Event()

    async def hold(route):
        await answered.wait()
        await route.continue_()

    await tab.page.route("**/messages?*", hold)
    await delete_all(tab)
    undo = tab.page.locator("#undo")
    await expect(undo).to_have_text(f"Deleting {MANY} messages…Undo")
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await expect(undo).to_have_text(f"Deleting {MANY} messages…")
    assert count_of(tab, address) == MANY
    answered.set()
    await expect(tab.page.locator("#toast")).to_have_text(f"{MANY} messages deleted.")
    await expect(undo).to_be_empty()
    assert count_of(tab, address) == 0
    [asked] = deletions(tab)
    assert re.fullmatch(rf"\?(id=msg_\w+&?){{{MANY}}}", asked)
    await tab.page.reload()
    await tab.until_live()
    await tab.until_subjects()
    assert tab.refused == []


async def test_more_than_one_request_may_name_go_with_as_many_as_it_takes(start_daemon, new_tab, expect):
    tab = await new_tab(at=start_daemon(TMPMAILD_ADDRESSES__MAX_MESSAGES="200"))
    address = await fill(await (await tab.visit()).until_live(), 120)
    await delete_all(tab)
    async with tab.expect_deletions(2):
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert [path.count("id=") for path in deletions(tab)] == [100, 20]
    assert count_of(tab, address) == 0


async def test_what_is_not_deleted_is_shown_again_and_why(tab, expect):
    address = await fill(tab, 3)
    await tab.page.route("**/messages?*", lambda route: route.abort())
    await delete_all(tab)
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await tab.until_subjects(*subjects(3))
    await expect(tab.page.locator("#toast")).to_have_text("3 messages are not deleted. The service cannot be reached.")
    assert count_of(tab, address) == 3
    assert all(not inbox.get("removing") for inbox in await tab.kept())


@pytest.mark.browsers("firefox", "webkit")
async def test_a_page_that_is_left_while_deleting_can_be_undone_deletes_still(tab):
    address = await fill(tab, 3)
    await delete_all(tab)
    await tab.page.reload()
    await tab.until_live()
    await tab.until_subjects()
    assert count_of(tab, address) == 0


async def test_what_was_refused_when_the_page_was_left_is_deleted_when_it_is_opened_again(
    start_daemon, new_tab, expect
):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="6", TMPMAILD_RATE_LIMIT__BURST="3")
    tab = await (await (await new_tab(at=daemon)).visit()).until_live()
    await fill(tab, 3)
    await delete_all(tab)
    while may_ask(daemon):
        pass
    await tab.page.goto("about:blank")
    await tab.visit()
    assert [len(inbox["removing"]) for inbox in await tab.kept()] == [3]
    with anyio.fail_after(60):
        while any(inbox["removing"] for inbox in await tab.kept()):
            await tab.page.wait_for_timeout(100)
    assert await tab.rows.count() == 0
