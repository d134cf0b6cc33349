"""Several inboxes in one browser: how they are created, named and removed."""

import re
import time
from datetime import datetime

import anyio
import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)


@pytest.fixture
def generous_daemon(share_daemon):
    """Run a daemon with two domains that lets users choose the lifetime of an address."""
    return share_daemon(
        "generous",
        TMPMAILD_DOMAINS="mail.example.com,second.test,*.third.test",
        TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="0",
        TMPMAILD_ADDRESSES__LIFETIME_SECONDS="600",
        TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS="90000",
    )


async def choose_name(tab, name, domain=None):
    name_field = tab.dialog.get_by_role("textbox")
    if not await name_field.count():
        await tab.choose("Choose a name")
    await name_field.fill(name)
    if domain:
        await tab.dialog.get_by_role("combobox", name="Domain").select_option(domain)
    await tab.button("Create", tab.dialog).click()


async def until_address(tab, address):
    await tab.card.get_by_title(address, exact=True).wait_for()


async def test_a_name_and_a_lifetime_are_chosen_and_errors_are_shown_at_the_name_field(
    generous_daemon, any_tab, expect
):
    tab = await (await any_tab(at=generous_daemon)).visit()
    await tab.address()
    tab.daemon.create(local_part="taken", domain="second.test")
    await choose_name(tab, "taken", "second.test")
    domains = tab.dialog.get_by_role("combobox", name="Domain").get_by_role("option")
    assert await domains.all_inner_texts() == ["mail.example.com", "second.test"]
    await tab.page.set_viewport_size({"width": 360, "height": 740})
    assert await tab.dialog.get_by_role("combobox", name="Domain").evaluate(SCRIPTS["HAS_ROOM"])
    error = tab.dialog.get_by_role("alert")
    await expect(error).to_have_text("This name is taken.")
    await choose_name(tab, "postmaster")
    await expect(error).to_have_text("This name is reserved. Choose a different one.")
    await choose_name(tab, "two..dots")
    await expect(error).to_contain_text("do not use two dots in a row")
    name = tab.dialog.get_by_role("textbox", name="Name")
    await expect(name).to_be_focused()
    await expect(name).to_have_attribute("aria-invalid", "true")
    await tab.dialog.get_by_role("checkbox", name="Private").uncheck()
    life = tab.dialog.get_by_role("combobox", name="Lifetime")
    assert await life.get_by_role("option").all_inner_texts() == ["10 minutes", "1 hour", "1 day"]
    await life.select_option("1 day")
    await choose_name(tab, "jane.doe")
    await until_address(tab, "jane.doe@second.test")
    await expect(tab.dialog).to_have_count(0)
    chosen = tab.daemon.request("addresses/jane.doe@second.test")
    assert chosen["private"] is False
    assert time.time() + 86_300 < datetime.fromisoformat(chosen["expires_at"]).timestamp()
    await choose_name(tab, "mine", "mail.example.com")
    await until_address(tab, "mine@mail.example.com")
    assert await tab.card.get_by_text("private", exact=True).is_visible()
    assert [one["private"] for one in await tab.kept()] == [False, False, True]
    extend = tab.button(re.compile("^Extend to "))
    for left in ("70 min", "2 hr", "3 hr"):
        await expect(extend).not_to_have_attribute("aria-busy", "true")  # the stream may be faster than the response
        await extend.click()
        await expect(tab.card.get_by_role("timer")).to_have_text(f"Expires in {left}")


async def test_an_extension_that_the_stream_reports_first_keeps_its_button_busy_and_focused(
    generous_daemon, any_tab, expect
):
    tab = await (await (await any_tab(at=generous_daemon)).visit()).until_live()
    extend, timer = tab.button(re.compile("^Extend to ")), tab.card.get_by_role("timer")
    reported = anyio.Event()

    async def respond_late(route):
        if route.request.method != "PATCH":
            await route.fallback()
            return
        response = await route.fetch()
        await reported.wait()
        await route.fulfill(response=response)

    await extend.focus()
    await tab.page.route("**/addresses/*", respond_late)
    try:
        await tab.page.keyboard.press("Enter")
        await expect(timer).to_have_text("Expires in 70 min")
        await expect(extend).to_have_attribute("aria-busy", "true")
    finally:
        reported.set()
    await expect(extend).to_have_attribute("aria-busy", "false")
    await expect(extend).to_be_focused()
    await tab.page.keyboard.press("Enter")
    await expect(timer).to_have_text("Expires in 2 hr")


@pytest.mark.browsers("firefox", "webkit")
async def test_each_inbox_gets_its_own_messages_and_the_list_survives_a_reload_without_expired_inboxes(tab, expect):
    first = await tab.address()
    assert await tab.inboxes.count() == 0
    await tab.another()
    choices = tab.choices
    await expect(choices).to_have_count(2)
    second = await tab.address()
    assert second != first
    await tab.until_live()
    tab.daemon.deliver(first, "for the first")
    tab.daemon.deliver(second, "for the second")
    await tab.until_subjects("for the second")
    await choices.last.click()
    await until_address(tab, first)
    await tab.until_subjects("for the first")
    assert await tab.reader.get_by_text("for the second").count() == 0
    await tab.page.reload()
    await expect(choices).to_have_count(2)
    await expect(choices.last).to_have_attribute("aria-current", "true")
    await tab.until_subjects("for the first")
    [other] = [one for one in await tab.kept() if one["address"] == second]
    tab.daemon.request(f"addresses/{second}", "PATCH", {"expires_in_seconds": 1}, other["token"])
    await expect(tab.inboxes).to_be_hidden()
    assert [one["address"] for one in await tab.kept()] == [first]


@pytest.mark.browsers("firefox")
async def test_an_expired_inbox_disappears_except_for_the_open_message(tab, expect):
    address = await tab.address()
    [inbox] = await tab.kept()
    tab.daemon.deliver(address, "Soon gone", text="a secret")
    await tab.reader.get_by_text("a secret").wait_for()
    tab.daemon.request(f"addresses/{address}", "PATCH", {"expires_in_seconds": 1}, inbox["token"])
    await expect(tab.heading("This address has expired")).to_be_visible()
    await expect(tab.card).to_contain_text(address)
    await expect(tab.reader).to_contain_text("Already deleted on the server.")
    await expect(tab.reader.get_by_text("a secret")).to_be_visible()
    await tab.button("Close", tab.reader).click()
    for left in ("Soon gone", "a secret"):
        await expect(tab.page.get_by_text(left)).to_have_count(0)
    assert "Soon gone" not in await tab.page.content()
    assert await tab.kept() == []
    await tab.another()
    assert await tab.address() != address
    await tab.until_live()
    await tab.until_subjects()


SHORT_TIME = "time => new Intl.DateTimeFormat('en-US', { timeStyle: 'short' }).format(new Date(time))"


async def test_the_dialog_for_a_name_closes_even_if_no_inbox_was_shown_before(tab, expect):
    await tab.choose("Delete")
    await tab.button("Choose a name", tab.card).click()
    await tab.button("Create", tab.dialog).click()
    await tab.address()
    await expect(tab.dialog).to_have_count(0)


async def test_extending_is_only_offered_if_it_adds_time_and_it_updates_the_countdown(tab, expect):
    address = await tab.address()
    [inbox] = await tab.kept()
    timer = tab.card.get_by_role("timer")
    await expect(timer).to_have_text("Expires in 60 min")
    extend = tab.button(re.compile("^Extend to "))
    assert not await extend.is_visible()
    tab.daemon.request(f"addresses/{address}", "PATCH", {"expires_in_seconds": 600}, inbox["token"])
    await expect(timer).to_have_text("Expires in 10 min")
    until = await tab.page.evaluate(SHORT_TIME, inbox["extendable_until"])
    await expect(extend).to_have_text(f"Extend to {until}")
    await extend.click()
    await expect(timer).to_contain_text("Expires in 60 min")
    await expect(extend).to_be_hidden()
    [extended] = await tab.kept()
    assert extended["expires_at"] == tab.daemon.request(f"addresses/{address}")["expires_at"] != inbox["expires_at"]


async def test_an_inbox_that_was_extended_elsewhere_is_kept(generous_daemon, new_tab):
    tab = await new_tab(at=generous_daemon)
    await tab.page.route("**/events", lambda route: route.abort())
    await tab.visit()
    address = await tab.address()
    [kept] = await tab.kept()
    tab.daemon.request(f"addresses/{address}", "PATCH", {"expires_in_seconds": 7000}, kept["token"])
    await tab.page.clock.set_system_time(time.time() + 3700)
    await tab.card.get_by_text("Expires in 11").wait_for()
    assert [one["token"] for one in await tab.kept()] == [kept["token"]]


async def until_expired(tab, inbox, *, left="Already deleted on the server."):
    tab.daemon.extend(inbox, 1)
    await tab.reader.get_by_text(left).wait_for()


@pytest.mark.browsers("firefox")
async def test_only_its_button_closes_the_only_copy_of_an_expired_message_and_no_other_control_remains(
    open_inbox, daemon, inbox, expect
):
    daemon.deliver(inbox.address, "Soon gone", text="Your verification code is 482913.", html="<p>Code 482913")
    tab = await open_inbox(inbox)
    await tab.open("Soon gone")
    await until_expired(tab, inbox)
    for key in ("#", "Delete", "Escape", "j", "k", "z"):
        await tab.page.keyboard.press(key)
    await expect(tab.page.locator("#toast")).to_contain_text("It will stay here until you close it.")
    await expect(tab.heading("Soon gone")).to_be_visible()
    await tab.page.keyboard.press("c")
    await expect(tab.reader.get_by_text("Copied")).to_be_visible()
    for gone in ("Check for new messages now", "All messages", "Delete message", "Print", "Source"):
        await expect(tab.button(gone)).to_be_hidden()
    await expect(tab.page.get_by_role("searchbox")).to_be_hidden()
    await tab.button("Close", tab.reader).click()
    await expect(tab.reader).to_be_hidden()
    await tab.another()
    await tab.until_live()
    await expect(tab.button("Check for new messages now")).to_be_visible()


async def test_the_folded_quote_of_an_expired_message_can_still_be_opened(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "Re: one", text="Agreed.\n\nAlice wrote:\n" + "> a line\n" * 5)
    tab = await open_inbox(inbox)
    await tab.open("Re: one")
    toggle = tab.reader.get_by_text("Quoted text", exact=True)
    await expect(toggle).to_be_visible()
    await until_expired(tab, inbox)
    await toggle.click()
    await expect(tab.reader.locator("pre").filter(has_text="a line")).to_be_visible()


@pytest.mark.browsers("firefox")
async def test_after_an_expiry_the_next_visit_states_the_address_its_expiry_and_its_message_count(
    any_tab, daemon, inbox, keep, expect
):
    for subject in ("one", "two"):
        daemon.deliver(inbox.address, subject)
    tab = await any_tab()
    await keep(tab.page, daemon, inbox)
    await (await tab.visit()).until_subjects("two", "one")
    await tab.page.goto(f"{daemon.url}/left")
    await tab.page.evaluate(
        "() => { const [one] = JSON.parse(localStorage['tmpmaild:/']);"
        " one.expires_at = new Date(Date.now() - 60_000).toISOString();"
        " localStorage['tmpmaild:/'] = JSON.stringify([one]); }"
    )
    await tab.visit()
    note = tab.card.get_by_role("note")
    await expect(note).to_contain_text(
        re.compile(
            rf"{re.escape(inbox.address)} expired at .*[AP]M; its 2 messages were deleted\. This is a new address\."
        )
    )
    assert await tab.address() != inbox.address
    await tab.button("Dismiss", note).click()
    await expect(note).to_have_count(0)
    await tab.page.reload()
    await tab.until_live()
    await expect(note).to_have_count(0)


async def test_inboxes_keep_their_order_under_the_pointer_and_a_second_click_deletes_no_other_inbox(
    any_tab, daemon, keep, expect
):
    inboxes = [daemon.create() for _ in range(4)]
    names = [one.address.partition("@")[0] for one in inboxes]
    tab = await any_tab()
    await keep(tab.page, daemon, *inboxes)
    await (await tab.visit()).until_live()
    rows = tab.inboxes.locator(".inbox")
    await expect(rows).to_have_count(4)
    before = await tab.choices.evaluate_all("all => all.map((one) => one.title)")
    await rows.nth(1).hover()
    daemon.deliver(before[3], "Sign in", text="Your verification code is 482913.")
    await expect(rows.nth(3)).to_contain_text("482913")
    assert await tab.choices.evaluate_all("all => all.map((one) => one.title)") == before
    boxes = await rows.evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
    assert max(boxes) - min(boxes) < 1
    await tab.page.mouse.move(1000, 500)
    await expect(rows.first).to_contain_text("482913")
    other = names[[one.address for one in inboxes].index(before[1])]
    await tab.button(f"Delete: {other}").dblclick()
    await expect(rows).to_have_count(3)


async def test_an_inbox_is_titled_with_its_first_sender_until_the_reader_names_it(open_inbox, daemon, inbox, expect):
    tab = await open_inbox(inbox)
    await tab.another()
    for subject in ("Welcome", "Again"):
        daemon.deliver(inbox.address, subject, sender=f"{subject} Shop <a@shop.example>")
    row = tab.inboxes.locator(".inbox").filter(has=tab.page.locator(f"[title='{inbox.address}']"))
    await expect(row.locator("b")).to_have_text("Welcome Shop")
    await expect(row.locator(".last")).to_have_text("Again")
    await row.locator(".open-inbox").click()
    await tab.row("Welcome").click()
    await tab.page.reload()
    await expect(row.locator("b")).to_have_text("Welcome Shop")
    await tab.choose("Label")
    await tab.dialog.get_by_role("textbox").fill("Mine")
    await tab.page.keyboard.press("Enter")
    await expect(row.locator("b")).to_have_text("Mine")


async def test_choosing_an_inbox_opens_its_only_unread_message(open_inbox, daemon, inbox, expect):
    tab = await open_inbox(inbox)
    await tab.another()
    daemon.deliver(inbox.address, "Only one")
    row = tab.inboxes.locator(".inbox.new .open-inbox")
    await row.click()
    await expect(tab.heading("Only one")).to_be_focused()
