"""Inboxes opened through a link: the sender of the link can read them too, so the page asks first and marks them."""

FOREIGN = "Someone else's inbox, opened from a link"


async def test_a_link_opens_no_inbox_before_the_question_is_answered_and_enter_refuses(tab, daemon, inbox, expect):
    own = await tab.address()
    daemon.deliver(inbox.address, "a trap")
    tab.asked.clear()
    await tab.visit(f"#{inbox.address}.{inbox.token}")
    await expect(tab.dialog).to_contain_text("Whoever sent you the link can read the inbox too")
    await expect(tab.dialog).to_contain_text(inbox.address)
    await expect(tab.button("Someone sent it", tab.dialog)).to_be_enabled()
    assert await tab.focused() == "Cancel"
    await tab.page.keyboard.press("Enter")
    await expect(tab.dialog).to_have_count(0)
    assert tab.asked == []
    assert await tab.address() == own
    assert [one["address"] for one in await tab.kept()] == [own]
    await tab.visit(f"#{inbox.address}.{inbox.token}")
    await expect(tab.dialog).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.dialog).to_have_count(0)
    assert (tab.asked, await tab.address()) == ([], own)


async def test_no_request_is_sent_before_a_first_visitor_answers_and_cancel_creates_an_inbox(any_tab, inbox, expect):
    tab = await (await any_tab()).visit(f"#{inbox.address}.{inbox.token}")
    await expect(tab.dialog).to_be_visible()
    assert tab.asked == []
    assert await tab.page.locator("main").is_hidden()
    await tab.button("Cancel", tab.dialog).click()
    assert await tab.address() != inbox.address
    await expect(tab.titled("Your address")).to_be_visible()


async def test_an_inbox_opened_by_a_link_is_always_marked_and_never_shown_in_a_new_tab(
    tab, new_tab, daemon, inbox, expect
):
    own = await tab.address()
    await tab.follow(inbox)
    daemon.deliver(inbox.address, "theirs")
    await tab.until_subjects("theirs")
    mark = tab.choices.filter(has_text=inbox.address.partition("@")[0])
    for _ in "12":
        await expect(tab.heading(FOREIGN)).to_be_visible()
        await expect(mark).to_contain_text("from a link")
        await expect(tab.titled("Your address")).to_have_count(0)
        await tab.page.reload()
        await tab.until_subjects("theirs")
    second = await (await new_tab(beside=tab)).visit()
    assert await second.address() == own
    await second.visit(f"#{inbox.address}.{inbox.token}")  # on an earlier visit, the user agreed to open this inbox
    await expect(second.heading(FOREIGN)).to_be_visible()
    await second.another()
    await expect(second.titled("Your address")).to_be_visible()
    assert [one.get("foreign") for one in await tab.kept()] == [None, True, None]


async def test_on_a_phone_the_address_of_an_open_message_is_visible_and_marked(open_inbox, daemon, inbox):
    inbox.foreign = True
    daemon.deliver(inbox.address, "theirs")
    tab = await open_inbox(inbox, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    await tab.choices.last.tap()
    await tab.heading("theirs").wait_for()  # the only unread message opens automatically
    card, address = [await one.bounding_box() for one in (tab.card, tab.card.locator(".address"))]
    assert 0 <= address["y"] < address["y"] + address["height"] <= card["height"]
    mark = "getComputedStyle(document.querySelector('.address'), '::before').content"
    assert "\u26a0" in await tab.page.evaluate(mark)


async def test_an_inbox_from_the_users_other_device_is_stored_like_an_inbox_created_here(tab, new_tab, inbox, expect):
    await tab.visit(f"#{inbox.address}.{inbox.token}")
    await tab.button("It is mine", tab.dialog).click()
    await tab.card.get_by_text(inbox.address, exact=True).wait_for()
    await expect(tab.titled("Your address")).to_be_visible()
    second = await (await new_tab(beside=tab)).visit()
    assert await second.address() == inbox.address
    assert [one.get("foreign") for one in await tab.kept()] == [None, None]
    await tab.page.evaluate("() => { navigator.share = async ({ url }) => { window.shared = url; }; }")
    await tab.page.evaluate("() => { window.matchMedia = () => ({ matches: true }); }")
    await tab.choose("Share")
    assert (await tab.page.evaluate("shared")).endswith(f"#{inbox.address}.{inbox.token}")
    await expect(tab.dialog).to_have_count(0)


async def test_a_foreign_inbox_is_removed_from_this_browser_and_stays_on_the_server(
    tab, new_tab, daemon, inbox, expect
):
    own = await tab.address()
    await tab.follow(inbox)
    second = await (await new_tab(beside=tab)).visit()
    await expect(second.inboxes).to_contain_text("from a link")
    await tab.choose("Remove from this browser")
    for one in (tab, second):
        await expect(one.titled("Your address")).to_be_visible()
        await expect(one.inboxes).to_be_hidden()
    assert await tab.address() == own
    assert [one["address"] for one in await tab.kept()] == [own]
    assert daemon.request(f"addresses/{inbox.address}")["address"] == inbox.address
    await tab.visit(f"#{inbox.address}.{inbox.token}")
    await expect(tab.dialog).to_be_visible()


async def test_a_link_to_an_own_inbox_opens_without_a_question_and_a_wrong_token_changes_nothing(tab, expect):
    address = await tab.address()
    token = (await tab.kept())[0]["token"]
    await tab.another()
    await expect(tab.choices).to_have_count(2)
    choices = tab.choices
    for written in (address, address.upper(), address.replace("@", "+tag@")):
        await tab.visit(f"#{written}.{'a' * 22}")
        await tab.card.get_by_text(address, exact=True).wait_for()
        await expect(tab.titled("Your address")).to_be_visible()
        [kept, _] = await tab.kept()
        assert (kept["token"], kept.get("foreign")) == (token, None)
        await choices.first.click()
        await tab.card.get_by_text(address, exact=True).wait_for(state="detached")


async def test_when_an_inbox_expires_a_foreign_inbox_is_never_shown_instead(tab, inbox, expect):
    await tab.follow(inbox)
    await tab.until_live()
    await tab.choices.last.click()
    await tab.end()
    await expect(tab.heading("This address was deleted")).to_be_visible()
    await expect(tab.inboxes).to_contain_text("from a link")
    await tab.choices.click()
    await expect(tab.heading(FOREIGN)).to_be_visible()


async def test_a_link_to_a_missing_inbox_leads_back_to_the_own_inbox(tab, expect):
    own = await tab.address()
    for link in ("#nobody@mail.example.com", "#x@[::1]"):
        await tab.visit(link)
        await tab.button("Someone sent it", tab.dialog).click()
        await expect(tab.page.locator("#toast")).to_contain_text("There is no such inbox")
        assert (link, await tab.address()) == (link, own)
        await tab.page.reload()
