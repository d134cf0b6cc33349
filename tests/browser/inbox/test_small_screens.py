"""Small and low screens, and forced colours: messages, selections and notices are visible."""

import re

import pytest

from scripts import scripts_of

from .test_access import CODE, OVERFLOWING, SMALL_GERMAN_PHONE, WIDE, visit  # noqa: F401 - the fixture

SCRIPTS = scripts_of(__file__)

BROKEN_WORDS = SCRIPTS["BROKEN_WORDS"]


WIDE_MAIL = (
    "<table width=600><tr><td style='font:16px Arial'><b>outer</b><table width=500><tr><td><i>inner</i></table></table>"
)
OVERFLOWS = "() => document.scrollingElement.scrollWidth > innerWidth"
HEIGHT, BOTTOM = (f"one => one.getBoundingClientRect().{name}" for name in ("height", "bottom"))


# Chromium logs errors for scripts in a sandboxed frame; tests/browser/test_templates.py covers Chromium instead.
@pytest.mark.parametrize("browser_name", ["firefox", "webkit"])
async def test_a_message_that_is_too_wide_is_shrunk_as_a_whole_until_its_visible_button_is_pressed(
    open_inbox, daemon, inbox, expect
):
    daemon.deliver(inbox.address, "Wide", html=WIDE_MAIL)
    tab = await open_inbox(inbox, viewport={"width": 360, "height": 640})
    await tab.open("Wide")
    outer, inner = (tab.mail.get_by_text(text, exact=True) for text in ("outer", "inner"))
    await expect(inner).to_be_visible()
    assert not await outer.evaluate(OVERFLOWS)
    assert abs(await inner.evaluate(HEIGHT) - await outer.evaluate(HEIGHT)) <= 2
    # A checkbox is shown only in a view that has its own tab.
    await expect(tab.mail.get_by_role("checkbox")).to_have_count(0)
    button = tab.reader.get_by_title("Show at full size")
    assert 0 < await button.evaluate(BOTTOM) <= 640
    await button.click()
    assert await outer.evaluate(OVERFLOWS)


async def test_in_german_no_tab_breaks_inside_its_word_at_320_pixels(visit):  # noqa: F811
    one = await visit(**{**SMALL_GERMAN_PHONE, "viewport": {"width": 320, "height": 640}})
    await one.receive("Bitte bestätige", **CODE)
    await one.open()
    assert await one.page.locator(".modes button span, .tools .back").evaluate_all(BROKEN_WORDS) == []
    top, bottom = await one.page.locator(".tools button").evaluate_all(
        "all => [Math.min, Math.max].map((pick) => pick(...all.map((one) => one.getBoundingClientRect().top)))"
    )
    assert bottom - top < 10


async def test_on_a_small_tablet_the_address_is_one_line(visit):  # noqa: F811
    one = await visit(viewport={"width": 720, "height": 1024})
    parts = [await one.page.locator(f".address > .{name}").bounding_box() for name in ("local", "domain")]
    assert parts[0]["y"] == parts[1]["y"]


async def test_on_a_low_screen_the_address_is_a_fixed_line_and_mail_is_visible(visit):  # noqa: F811
    one = await visit(viewport={"width": 740, "height": 360}, has_touch=True, is_mobile=True)
    await one.another()
    await one.page.locator("#inboxes [aria-current]").nth(1).wait_for(state="attached")
    await one.receive(*(f"mail {number}" for number in range(6)))
    rows, address = one.page.locator("#list > li"), one.page.locator(".address")
    boxes = [await rows.first.bounding_box(), await one.page.locator("#card").bounding_box()]
    assert boxes[0]["y"] + boxes[0]["height"] <= 360
    assert boxes[1]["height"] < 60
    await rows.last.scroll_into_view_if_needed()
    assert 0 <= (await address.bounding_box())["y"] < 30
    assert await one.page.evaluate(OVERFLOWING) == []


async def test_with_forced_colours_open_selected_unread_and_other_states_are_visible(visit):  # noqa: F811
    one = await visit(**WIDE, forced_colors="active")
    await one.another()
    await one.page.locator("#inboxes [aria-current]").nth(1).wait_for()
    await one.receive("First", "Second", **CODE)
    await one.open()
    await one.page.keyboard.press("ArrowRight")
    await one.receive("Third", **CODE)
    assert await one.page.evaluate(SCRIPTS["SYSTEM_COLOURS"]) == []


LONG_MAIL = "<div style='height:1800px'>long</div>"


@pytest.mark.browsers("firefox", "webkit")
async def test_on_a_phone_the_frame_is_as_high_as_its_message_and_only_the_page_scrolls(
    open_inbox, daemon, inbox, expect
):
    daemon.deliver(inbox.address, "Long", html=LONG_MAIL)
    daemon.deliver(inbox.address, "Endless", html="<style>body{padding:0 0 9px;min-height:100vh}</style><p>one")
    tab = await open_inbox(inbox, viewport={"width": 390, "height": 844})
    await tab.open("Long")
    frame = tab.reader.locator("iframe")
    await expect(frame).to_have_attribute("style", "--height: 1816px;")
    await tab.reader.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    assert await frame.evaluate(BOTTOM) <= 844 + 1
    await tab.button("Back").click()
    await tab.open("Endless")
    await expect(tab.mail.get_by_text("one")).to_be_visible()
    await expect(frame).to_have_attribute("style", re.compile(r"--height: 1\d\d\dpx"))
