"""An inbox with hundreds of messages: the list is complete and in order, and the page stays responsive."""

import pytest

COUNT = 300
CODES = "\r\n\r\nYour verification code is {:06}. Confirm your address: https://shop.example/confirm?token={}\r\n"


def mails():
    return [
        f"From: Sender {n} <s{n}@example.com>\r\nSubject: Mail number {n}{CODES.format(n, n)}".encode()
        for n in range(COUNT)
    ]


@pytest.fixture
async def page(daemon, pages, keep):
    """Open the page with an inbox that contains all the messages."""
    inbox = daemon.create()
    daemon.deliver_raw(inbox.address, *mails())
    page = await pages.borrow()
    page.inbox = inbox
    await keep(page, daemon, inbox)
    await page.goto(daemon.url)
    await page.wait_for_function("(count) => document.querySelectorAll('#list > li').length === count", arg=COUNT)
    return page


async def test_hundreds_of_messages_are_listed_in_order_and_opened_and_a_new_one_appears_on_top(page, daemon):
    newest_first = [f"Mail number {n}" for n in reversed(range(COUNT))]
    assert await page.locator("#list .subject").all_text_contents() == newest_first
    assert await page.locator("#mail-title").text_content() == f"{COUNT} messages"
    await page.locator("#list .open").first.click()
    assert await page.locator("#reader-title").text_content() == newest_first[0]
    await page.locator("#list .open").first.focus()
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    assert await page.locator("#reader-title").text_content() == newest_first[-1]
    await page.keyboard.press("/")
    await page.keyboard.type('"NUMBER 29"')
    await page.get_by_text(f"11 of {COUNT}", exact=True).wait_for()
    found = [*newest_first[:10], "Mail number 29"]
    assert await page.locator("#list > li:not([hidden]) .subject").all_text_contents() == found
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("k")
    assert await page.locator("#reader-title").text_content() == "Mail number 29"
    await page.keyboard.press("/")
    await page.keyboard.press("Escape")
    assert await page.locator("#list > li:not([hidden])").count() == COUNT
    daemon.deliver(page.inbox.address, "The newest")
    await page.locator("#list > li:first-child", has_text="The newest").wait_for()
    assert await page.locator("#list > li").count() == COUNT + 1
