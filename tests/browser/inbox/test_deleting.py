"""Several messages are deleted with one request, are shown as deleted once the server confirms, and never reappear."""

import re
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
    tab.daemon.deliver_raw(address, *(mail.format(one).encode() for one in reversed(subjects(count))))
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


async def test_all_messages_are_deleted_with_one_request_and_shown_as_deleted_once_the_server_confirms_it(
    start_daemon, new_tab, expect
):
    tab = await (await (await new_tab(at=start_daemon())).visit()).until_live()
    address = await fill(tab, MANY)
    undo = tab.page.locator("#undo")
    async with tab.held("**/messages?*"):
        await delete_all(tab)
        await expect(undo).to_have_text(f"Deleting {MANY} messages…Undo")
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
        await expect(undo).to_have_text(f"Deleting {MANY} messages…")
        assert count_of(tab, address) == MANY
    await expect(tab.page.locator("#toast")).to_have_text(f"{MANY} messages deleted.")
    await expect(undo).to_be_empty()
    assert count_of(tab, address) == 0
    [asked] = deletions(tab)
    assert re.fullmatch(rf"\?(id=msg_\w+&?){{{MANY}}}", asked)
    await tab.page.reload()
    await tab.until_live()
    await tab.until_subjects()
    assert tab.refused == []


async def test_deletions_beyond_the_limit_of_a_request_are_split_into_several_requests(start_daemon, new_tab, expect):
    tab = await new_tab(at=start_daemon(TMPMAILD_ADDRESSES__MAX_MESSAGES="200"))
    address = await fill(await (await tab.visit()).until_live(), 120)
    await delete_all(tab)
    async with tab.expect_deletions(2):
        await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert [path.count("id=") for path in deletions(tab)] == [100, 20]
    assert count_of(tab, address) == 0


async def test_messages_that_were_not_deleted_are_shown_again_with_the_reason(tab, expect):
    address = await fill(tab, 3)
    await tab.page.route("**/messages?*", lambda route: route.abort())
    await delete_all(tab)
    await tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    await tab.until_subjects(*subjects(3))
    await expect(tab.page.locator("#toast")).to_have_text("3 messages were not deleted. The service cannot be reached.")
    assert count_of(tab, address) == 3
    assert all(not inbox.get("removing") for inbox in await tab.kept())


@pytest.mark.browsers("firefox", "webkit")
async def test_leaving_the_page_while_a_deletion_can_be_undone_still_deletes(tab):
    address = await fill(tab, 3)
    await delete_all(tab)
    await tab.page.reload()
    await tab.until_live()
    await tab.until_subjects()
    assert count_of(tab, address) == 0


async def test_deletions_refused_while_leaving_the_page_are_repeated_at_the_next_visit(start_daemon, new_tab, expect):
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
