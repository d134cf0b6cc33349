"""The page when rate-limited: it sends few requests, shows when it will continue, and continues automatically."""

import re


async def test_reading_messages_uses_no_tokens_of_the_api_limit(start_daemon, any_tab, expect):
    """A view counts as a page request. The list already contains all other data, and rendered messages are cached."""
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="1", TMPMAILD_RATE_LIMIT__BURST="4")
    tab = await (await (await any_tab(at=daemon)).visit()).until_live()
    address = await tab.address()
    for number in range(6):
        html = f"<p>html {number:02}</p>" if number % 2 else None
        tab.daemon.deliver(address, f"mail {number:02}", text=f"text {number:02}", html=html)
    await expect(tab.rows).to_have_count(6)
    tab.asked.clear()
    for number in range(6):
        await tab.open(f"mail {number:02}")
        shown = tab.mail.get_by_text(f"html {number:02}") if number % 2 else tab.reader.get_by_text(f"text {number:02}")
        await expect(shown).to_be_visible()
    for mode in ("Text", "HTML", "Text", "HTML"):
        await tab.button(mode).click()
    await expect(tab.mail.get_by_text("html 05")).to_be_visible()
    assert [path.rpartition("/")[2] for _, path in tab.asked] == ["view"] * 3
    assert tab.refused == []


async def test_too_many_reloads_are_reported_and_the_page_recovers_automatically(start_daemon, any_tab, expect):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="20", TMPMAILD_RATE_LIMIT__BURST="2")
    tab = await (await (await any_tab(at=daemon)).visit()).until_live()
    address = await tab.address()
    while not tab.refused:
        assert len(tab.asked) < 20
        await tab.page.reload()
        await expect(tab.state).to_have_text(re.compile(r"Live|Too many requests\.Retrying in \d s"))
    await expect(tab.state).to_contain_text("Retrying in")
    assert await tab.address() == address
    await tab.until_live()


async def test_a_first_visit_beyond_the_limit_gets_its_address_automatically(start_daemon, any_tab, expect):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="12", TMPMAILD_RATE_LIMIT__BURST="1")
    daemon.create()
    tab = await (await any_tab(at=daemon)).visit()
    await expect(tab.heading("Too many requests")).to_be_visible()
    await expect(tab.card).to_contain_text(
        re.compile(r"has used its 12 requests for this minute\. .* ready in (a second|\d seconds)")
    )
    assert "@mail.example.com" in await tab.address()


async def test_a_new_address_beyond_the_limit_is_announced_with_a_time_and_then_created(start_daemon, any_tab, expect):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="30", TMPMAILD_RATE_LIMIT__BURST="5")
    tab = await (await (await any_tab(at=daemon)).visit()).until_live()
    for made in (1, 2):
        await tab.another()
        await expect(tab.choices).to_have_count(1 + made)
        await tab.until_live()
    await tab.request_another()
    await expect(tab.page.locator("#toast")).to_have_text(re.compile(r"Your new address will be ready in \d s\."))
    await expect(tab.choices).to_have_count(4)
    assert tab.refused == []


async def test_attachments_are_saved_within_the_rate_limit_and_failed_deletions_are_undone(
    start_daemon, new_tab, expect
):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="120", TMPMAILD_RATE_LIMIT__BURST="3")
    tab = await new_tab(at=daemon)
    await tab.page.clock.install()
    await (await tab.visit()).until_live()
    files = [(f"{number}.bin", "application/octet-stream", b"octets") for number in range(4)]
    for subject in ("one", "two", "three", "four"):
        daemon.deliver(await tab.address(), subject, attachments=files if subject == "one" else ())
        await tab.row(subject).wait_for()
    async with tab.page.expect_download():
        await tab.button("Save all as ZIP").click()
        await tab.reader.get_by_text("of 4 loaded. Rate limit reached: continuing in 1 s.").wait_for()
    asked = len(tab.asked)
    await tab.row("three").focus()
    for left in (["four", "two", "one"], ["four", "one"], ["four"]):
        await tab.page.keyboard.press("Delete")
        await tab.until_subjects(*left)
    await tab.page.clock.fast_forward(4000)
    assert len(tab.asked) == asked
    async with tab.expect_deletions(1):
        await tab.page.clock.fast_forward(1500)
    await expect(tab.page.get_by_text("3 messages deleted.")).to_be_visible()
    assert tab.refused == []
    daemon.stop()
    await tab.page.keyboard.press("Delete")
    await tab.until_subjects()
    await tab.page.clock.fast_forward(5500)
    await tab.until_subjects("four")
    await expect(tab.page.get_by_text("The message was not deleted. The service cannot be reached.")).to_be_visible()
