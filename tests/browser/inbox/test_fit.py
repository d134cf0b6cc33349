"""A message is never wider than its frame, regardless of its content, and a tap shows it at full size."""

import pytest

from scripts import scripts_of

from .test_small_screens import WIDE_MAIL

SCRIPTS = scripts_of(__file__)

TOP = "one => one.getBoundingClientRect().top"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
WORDS = "Hello, please confirm that this is your address. The button is valid for one hour, then you need a new one. "
PICTURE = "<img alt='' style='height:40px;background:#9ab;{}' src='{}'>"
WIDE_PICTURE = (
    "data:image/gif;base64,R0lGODlhIAMoAIAAAAAAAP///yH5BAAAAAAALAAAAAAgAygAAAJDhI+py+0Po5y02ouz3rz7D4biSJbmiabqyrbuC8fy"
    "TNf2jef6zvf+DwwKh8Si8YhMKpfMpvMJjUqn1Kr1is1qt1xVAQA7"
)
AROUND = "<table width='100%' bgcolor='#f4f6f9'><tr><td align=center style='padding:32px 16px'>{}</td></tr></table>"
# Constructs that make real messages wide.
WIDE = {
    "a table with a width and a max-width": f"<table width=600 style='max-width:600px'><tr><td>{WORDS}</table>",
    "a width and a max-width in percent, in a cell": AROUND.format(
        f"<table style='width:600px;max-width:100%'><tr><td>{WORDS}</table>"
    ),
    "a table beside a media query": f"<style>@media (max-width:480px){{p{{color:red}}}}</style>{WIDE_MAIL}",
    "a media query that sets a width": "<style>@media (max-width:480px){.w{width:440px!important}}</style>"
    f"<div class=w style='width:600px'>{WORDS}</div>",
    "what has a least width": f"<div style='min-width:600px'>{WORDS}</div>",
    "a min-width in a cell": f"<table><tr><td style='min-width:280px'>{WORDS}<td style='min-width:280px'>{WORDS}</table>",
    "fixed columns": "<table><tr>" + "<td width=200><div style='width:200px'>column</div></td>" * 3 + "</table>",
    "a picture in a cell": f"<table><tr><td style='padding:30px'>{PICTURE.format('width:700px', WIDE_PICTURE)}</table>",
    "a picture of a stated width": f"<table><tr><td><img width=650 height=40 alt=''></table>{WORDS}",
    "lines that are laid out": f"<pre style='white-space:pre'>{'x' * 90}\nshort</pre>",
    "a cell that does not wrap": f"<table><tr><td nowrap>{WORDS}</table>",
    "text that does not wrap": f"<p style='white-space:nowrap'>{WORDS}</p>",
    "a long word in a cell": f"<table><tr><td>{'https://shop.example/' + 'a1' * 40}</table>",
    "what lies at a place of its own": f"<div style='margin-left:300px;width:300px'>{WORDS}</div>",
    "a negative margin": f"<div style='margin:0 -24px;padding:0 20px;width:620px'><p>{WORDS}</div>",
    "what is cut at its edge": f"<div style='overflow:hidden;width:100%'><table width=640><tr><td>{WORDS}</table></div>",
    "from right to left": f"<div dir=rtl><table width=600><tr><td>مرحبا {WORDS}</table></div>",
    "a table in a table": AROUND.format(f"<table width=600 bgcolor=white><tr><td>{WIDE_MAIL}</table>"),
    "an old page": f"<center><table width=760 border=1><tr><td width=200>{WORDS}<td width=560>{WORDS}</table></center>",
    "a standard page": f"<!doctype html><html><body style='width:640px'><p>{WORDS}</body></html>",
}
FITS = {
    "a preformatted paragraph": f"<pre>{WORDS * 5}</pre>",
    "text alone": f"<p>{WORDS}</p>",
    "a fluid table": f"<table width='100%' style='max-width:600px'><tr><td>{WORDS}</table>",
    "a picture of its own": PICTURE.format("max-width:100%", WIDE_PICTURE),
    "a hidden preheader": f"<div style='max-height:0;max-width:0;overflow:hidden;white-space:nowrap'>{WORDS}</div><p>x",
}
MEASURE = """() => {
  const { documentElement: root, body } = document.querySelector("iframe").contentDocument;
  const sides = [...body.querySelectorAll("td, p, img")].map((one) => one.getBoundingClientRect());
  const left = Math.min(0, ...sides.filter(({ width, height }) => width * height).map(({ left }) => left));
  return { over: root.scrollWidth - root.clientWidth - left, size: Number(getComputedStyle(body).zoom) };
}"""


async def shown(tab, subject):
    """Open a message; return the number of pixels by which it overflows, and its zoom factor."""
    await tab.row(subject).click()
    await tab.reader.get_by_role("heading", name=subject, exact=True).wait_for()
    await tab.reader.locator("iframe[style]").wait_for()  # wait until the frame's size has been measured
    return await measured(tab)


async def measured(tab):
    await tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return await tab.page.evaluate(MEASURE)


async def test_a_wide_message_fits_a_phone_in_portrait_and_landscape_whatever_makes_it_wide(
    open_inbox, daemon, inbox, subtests
):
    for subject, html in (WIDE | FITS).items():
        daemon.deliver(inbox.address, subject, html=html)
    tab = await open_inbox(inbox, **PHONE)
    for subject in WIDE | FITS:
        with subtests.test(subject):
            upright = await shown(tab, subject)
            assert upright["over"] <= 1
            assert (upright["size"] < 1) == (subject in WIDE)
            await tab.page.set_viewport_size({"width": 768, "height": 1024})
            tablet = await measured(tab)
            assert tablet["over"] <= 1
            assert tablet["size"] >= upright["size"]
            await tab.page.set_viewport_size({"width": 390, "height": 844})
            assert (await measured(tab)) == upright
        await tab.page.keyboard.press("Escape")


# Chromium logs errors when the driver evaluates scripts in a frame that forbids scripts.
@pytest.mark.browsers("firefox", "webkit")
async def test_a_tap_shows_a_message_at_full_size_and_a_second_tap_fits_it_again(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "wide", html=AROUND.format(WIDE["a table with a width and a max-width"]))
    daemon.deliver(inbox.address, "narrow", html=FITS["text alone"])
    daemon.deliver(inbox.address, "endless", html="<p style='white-space:nowrap'>" + "word " * 500)
    tab = await open_inbox(inbox, viewport={"width": 390, "height": 844})
    size = tab.reader.get_by_title("Show at full size")
    assert (await shown(tab, "wide"))["over"] <= 1
    await expect(size).to_contain_text("%")
    top = await size.evaluate(TOP)
    await size.click()
    await expect(size).to_contain_text("100%")
    await expect(size).to_have_attribute("aria-pressed", "true")
    assert await size.evaluate(TOP) == top  # the longer label does not move it to the next line
    assert (await measured(tab))["over"] > 100
    await size.click()
    assert (await measured(tab))["over"] <= 1
    await tab.button("Text").click()
    await expect(size).to_be_hidden()
    await tab.page.keyboard.press("Escape")
    assert (await shown(tab, "narrow"))["size"] == 1
    await expect(size).to_be_hidden()
    await tab.page.keyboard.press("Escape")
    assert (await shown(tab, "endless"))["size"] == 0.25
    await expect(size).to_contain_text("25%")


@pytest.fixture
async def tab_with_pictures(browser, tab_in, daemon):
    """Open an empty tab that can load a wide image from another host; in other tabs, such a request fails the test."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='900' height='50'><rect width='900' height='50'/></svg>"
    context = await browser.new_context(**PHONE)
    await context.route(
        "https://images.example/**", lambda route: route.fulfill(body=svg, content_type="image/svg+xml")
    )
    yield tab_in(await context.new_page(), daemon)
    await context.close()


async def test_an_image_that_loads_late_is_also_fitted(tab_with_pictures, inbox, keep, expect):
    tab, html = (
        tab_with_pictures,
        "<table><tr><td style='padding:40px'><img src='https://images.example/1.png' alt=''></table>",
    )
    tab.daemon.deliver(inbox.address, "late", html=html)
    await keep(tab.page, tab.daemon, inbox)
    await (await tab.visit()).until_live()
    before = await shown(tab, "late")
    assert before == {"over": 0, "size": 1}
    await tab.button("Load images").click()
    await expect(tab.mail.locator("img")).to_have_js_property("naturalWidth", 900)
    after = await measured(tab)
    assert after["over"] <= 1
    assert after["size"] < 1


@pytest.mark.browsers("firefox")
async def test_a_message_fits_the_preview_widths_as_it_fits_a_screen_of_that_width(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "wide", html=AROUND.format(WIDE["a table with a width and a max-width"]))
    tab = await open_inbox(inbox)
    size = tab.reader.get_by_title("Show at full size")
    assert await shown(tab, "wide") == {"over": 0, "size": 1}
    await tab.reader.get_by_role("combobox", name="Width").select_option("360")
    await expect(size).to_be_visible()
    assert (await measured(tab))["over"] <= 1
    await tab.reader.get_by_role("combobox", name="Width").select_option("")
    await expect(size).to_be_hidden()


async def test_the_background_of_a_short_message_extends_to_the_bottom_of_the_frame(open_inbox, daemon, inbox):
    daemon.deliver(inbox.address, "short", html=AROUND.format("<b>short</b>"))
    tab = await open_inbox(inbox, **PHONE)
    await shown(tab, "short")
    bottom, colour = await tab.page.evaluate(
        "() => { const frame = document.querySelector('iframe'); return [frame.getBoundingClientRect().bottom,"
        " getComputedStyle(frame.contentDocument.documentElement).backgroundColor]; }"
    )
    assert (bottom, colour) == (844, "rgb(244, 246, 249)")


@pytest.mark.browsers("firefox", "webkit")
async def test_the_background_below_a_scaled_message_is_not_that_of_its_narrower_column(open_inbox, daemon, inbox):
    column = f"<table width=600 bgcolor=white><tr><td>{WORDS}</table>"
    daemon.deliver(
        inbox.address, "column", html=f"<body style='margin:0;background:#f4f6f9'>{AROUND.format(column)}</body>"
    )
    tab = await open_inbox(inbox, viewport={"width": 390, "height": 844})
    assert (await shown(tab, "column"))["size"] < 1
    ground = "getComputedStyle(document.querySelector('iframe').contentDocument.documentElement).backgroundColor"
    assert await tab.page.evaluate(ground) == "rgb(244, 246, 249)"


A4_PX = 690  # the width of A4 between margins as large as those of browsers, or larger


@pytest.mark.browsers("firefox", "webkit")
@pytest.mark.parametrize("width", [390, 1440])
async def test_a_message_is_fitted_to_the_paper_when_it_is_printed_and_then_to_its_frame(
    open_inbox, daemon, inbox, expect, width
):
    daemon.deliver(inbox.address, "wide", html=f"<table width=900><tr><td>{WORDS}</table>")
    tab = await open_inbox(inbox, viewport={"width": width, "height": 900})
    on_screen = await shown(tab, "wide")
    if width == 390:
        await tab.reader.get_by_title("Show at full size").click()  # paper has no full size
        on_screen = await measured(tab)
    await tab.page.evaluate(SCRIPTS["PRINT_ON"], A4_PX)
    await tab.button("Print").click()
    assert await tab.page.evaluate("printed") == [0]
    assert await measured(tab) == on_screen
