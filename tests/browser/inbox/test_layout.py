"""Positions on each screen size, actions on the newest message, and a layout that does not shift when mail arrives."""

import pytest

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
BOX = "one => one.getBoundingClientRect().toJSON()"
SIGN_UP = {
    "text": "Your verification code is 482913.",
    "html": "<p>Your verification code is <b>482913</b>. <a href='https://shop.example/confirm?t=1'>Confirm my account</a>",
}


async def boxes(tab, *selectors):
    return [await tab.page.locator(one).evaluate(BOX) for one in selectors]


@pytest.mark.browsers("firefox")
async def test_a_wide_screen_has_three_columns_and_a_tablet_two_panes(open_inbox, daemon, inbox):
    daemon.deliver(inbox.address, "one")
    tab = await open_inbox(inbox, viewport={"width": 1920, "height": 1000})
    await tab.open("one")
    card, mail, reader = await boxes(tab, "#card", "#mail", "#reader")
    assert card["right"] <= mail["left"] + 1
    assert mail["right"] <= reader["left"] + 1
    assert mail["top"] == reader["top"] == 0
    for size in ({"width": 1440, "height": 900}, {"width": 768, "height": 1024}):
        await tab.page.set_viewport_size(size)
        card, mail, reader = await boxes(tab, "#card", "#mail", "#reader")
        assert card["bottom"] <= mail["top"] + 1
        assert mail["right"] <= reader["left"] + 1
        assert reader["right"] == pytest.approx(size["width"])
    await tab.page.set_viewport_size({"width": 844, "height": 390})
    [reader] = await boxes(tab, "#reader")
    assert reader["left"] == 0
    assert reader["width"] >= 844 - 20  # a scroll bar may take up to 20 pixels


TABLET = {"viewport": {"width": 768, "height": 1024}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1440, "height": 900}}


@pytest.mark.parametrize("options", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
async def test_the_title_of_the_list_its_menu_and_the_search_are_on_one_line(open_inbox, daemon, inbox, options):
    daemon.deliver(inbox.address, "one")
    tab = await open_inbox(inbox, **options)
    places = await boxes(tab, "#mail-title", ".mail-head button", "#search input")
    middles = [one["top"] + one["height"] / 2 for one in places]
    assert middles == pytest.approx([middles[0]] * 3, abs=1)


async def test_on_a_tablet_the_button_without_an_icon_starts_at_the_edge_of_the_address(open_inbox, daemon, inbox):
    tab = await open_inbox(inbox, **TABLET)
    label, address = await boxes(tab, ".brief > button span >> nth=0", "#card .address")
    assert label["left"] == pytest.approx(address["left"], abs=2)


@pytest.mark.parametrize("options", [PHONE, {"viewport": {"width": 1440, "height": 900}}], ids=["phone", "wide"])
async def test_nothing_moves_when_the_first_message_arrives(any_tab, options):
    tab = await (await (await any_tab(**options)).visit()).until_live()
    await tab.heading("Waiting for messages…").wait_for()
    await tab.page.evaluate(
        "() => { window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach(({ value }) =>"
        " { window.shift += value; })).observe({ type: 'layout-shift' }); }"
    )
    tab.daemon.deliver(await tab.address(), "first", **SIGN_UP)
    await tab.row("first").wait_for()
    await tab.page.wait_for_timeout(300)  # layout shifts are reported after painting
    assert await tab.page.evaluate("shift") < 0.05


@pytest.mark.browsers("firefox", "webkit")
async def test_the_newest_message_offers_its_code_and_its_link_in_its_own_words_at_one_size(
    open_inbox, daemon, inbox, expect
):
    daemon.deliver(inbox.address, "older", **SIGN_UP)
    daemon.deliver(inbox.address, "newest", **SIGN_UP)
    tab = await open_inbox(inbox, viewport={"width": 390, "height": 844})
    newest, older = tab.rows.nth(0), tab.rows.nth(1)
    link = newest.get_by_role("link", name="Confirm my account shop.example")
    code = tab.button("Copy code 482913", newest)
    sizes = [await one.evaluate(BOX) for one in (code, link)]
    assert sizes[0]["top"] == sizes[1]["top"]
    assert sizes[0]["height"] == sizes[1]["height"]
    colours = [await one.evaluate("one => getComputedStyle(one).backgroundColor") for one in (code, link)]
    assert colours[0] != colours[1]
    await expect(older.get_by_text("Confirm my account")).to_be_hidden()
    heights = [(await one.evaluate(BOX))["height"] for one in (newest, older)]
    assert heights[1] < heights[0]
    await code.click()
    assert await tab.pasted() == "482913"


async def test_a_message_is_dark_if_the_page_is_and_one_tap_makes_it_light(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "one", html="<p>Hello")
    tab = await open_inbox(inbox)
    await tab.page.emulate_media(color_scheme="dark")
    await tab.open("one")
    frame, dark = tab.reader.locator("iframe"), tab.button("Show messages in dark colors")
    await expect(frame).to_have_class("dark")
    await expect(dark).to_have_attribute("aria-pressed", "true")
    await expect(dark).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    await expect(dark.locator(".icon")).to_have_css("fill", "none")  # otherwise its half-circle is a full circle
    await dark.click()
    await expect(frame).to_have_class("")
    await tab.page.reload()
    await expect(frame).to_have_class("")
