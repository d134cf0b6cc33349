"""Accessibility of the inbox: axe-core finds no problem in any state.

The other tests cover rules that axe-core cannot check.
"""

from importlib.resources import files
from itertools import pairwise
from types import SimpleNamespace

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)
AXE, OVERFLOWING = SCRIPTS["AXE"], SCRIPTS["OVERFLOWING"]
WIDE = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NARROWEST = {"viewport": {"width": 320, "height": 640}}
DEVICES = pytest.mark.parametrize("device", [WIDE, PHONE], ids=["wide", "phone"])
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
# The rules whose result depends on the screen size; names and roles are the same on all screens.
RULES_OF_LAYOUT = ["target-size", "color-contrast", "scrollable-region-focusable", "aria-hidden-focus", "region"]
CONTRAST = ["color-contrast"]
LONG = "an-exceptionally-long-word-that-does-not-break-anywhere-" * 4
LONG_MAIL = {
    "sender": f"{LONG} <a@example.com>",
    "text": f"Your code is 482913. {LONG} https://example.com/{LONG}",
    "html": f"<p>{LONG}</p><a href='https://{LONG[:50]}.example.com/verify'>Verify your e-mail address {LONG}</a>",
    "attachments": [(f"{LONG[:150]}.bin", "application/octet-stream", b"x")],
}
CODE = {
    "text": "Your verification code is 482913.\nConfirm: https://shop.example/confirm?token=1",
    "html": "<h1>Hello</h1><p>Your verification code is 482913</p><img src='https://shop.example/x.png'>"
    "<a href='https://evil.example/confirm'>Confirm at https://shop.example</a>",
    "attachments": [("a.pdf", "application/pdf", b"x" * 2000), ("a.txt", "text/plain", b"line\n" * 200)],
}


class Visit:
    """An inbox page, with methods that put it into each state."""

    def __init__(self, page, daemon, *, is_phone=False):
        self.page = page
        self.daemon = daemon
        self.is_phone = is_phone

    async def begin(self):
        await self.page.goto(self.daemon.url)
        await self.page.locator("#state.live").wait_for()
        return self

    @property
    async def address(self):
        return await self.page.locator("p.address").text_content()

    async def receive(self, *subjects, **mail):
        address = await self.address
        for subject in subjects:
            self.daemon.deliver(address, subject, **mail)
            await self.page.locator("#list > li", has_text=subject).wait_for()

    async def open(self, mode="html"):
        await self.page.locator("#list .open").first.click()
        await self.show(mode)

    async def press(self, name):
        await self.page.get_by_role("button", name=name, exact=True).first.click()

    async def another(self):
        await self.press("New address")
        await self.page.get_by_role("menuitem", name="Random").click()

    async def ask(self, name):
        """Open a dialog from one of the card's menus."""
        await self.press("New address" if name == "Choose a name" else "More")
        await self.page.get_by_role("menuitem", name=name, exact=True).click()
        await self.page.locator("dialog[open]").wait_for()

    async def show(self, mode):
        await self.page.locator(f"[data-mode={mode}]").click()
        await self.page.locator(f"[data-mode={mode}][aria-pressed=true]").wait_for()
        await self.page.locator(".pane:not([hidden])[aria-busy=false]").wait_for()

    async def close(self):
        await self.page.keyboard.press("Escape")
        await self.page.locator("dialog").wait_for(state="detached")

    async def complaints(self, part="body", *, is_dark_too=False, rules=None):
        """Return axe's findings in this part of the page; on a phone, only the layout rules are checked by default.

        With ``is_dark_too``, the contrast is also checked in dark mode.
        """
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
        await self.page.screenshot(clip={"x": 0, "y": 0, "width": 1, "height": 1})  # a screenshot forces a layout
        found = await self.page.evaluate(AXE, [part, rules or (RULES_OF_LAYOUT if self.is_phone else RULES)])
        if is_dark_too:
            await self.page.emulate_media(color_scheme="dark")
            found += await self.page.evaluate(AXE, [part, CONTRAST])
            await self.page.emulate_media(color_scheme="light")  # the default
        return found


@pytest.fixture
async def visit(daemon, pages):
    async def start(reduced_motion=None, color_scheme=None, forced_colors=None, **options):
        page = await pages.borrow(**options)
        await page.emulate_media(reduced_motion=reduced_motion, color_scheme=color_scheme, forced_colors=forced_colors)
        return await Visit(page, daemon, is_phone="is_mobile" in options).begin()

    return start


async def test_axe_finds_nothing_in_an_open_message(visit):
    one = await visit(**WIDE)
    found = {"empty": await one.complaints()}
    await one.receive("First", "Second", **CODE)
    await one.open()
    found["html"] = await one.complaints(is_dark_too=True)
    for mode in ("text", "headers", "source"):
        await one.show(mode)
        found[mode] = await one.complaints("#reader")
    await one.page.locator(".attachments [aria-expanded]").click()
    await one.page.locator(".preview pre").wait_for()
    await one.page.evaluate("document.querySelector('#list').focus()")
    await one.page.keyboard.press("/")
    await one.page.keyboard.type("fir")
    await one.page.keyboard.press("ArrowDown")
    await one.page.locator("#list .open:focus").wait_for()  # once the search has loaded
    await one.page.keyboard.press("#")
    await one.page.locator("#undo button").wait_for()
    found["preview, search and undo"] = await one.complaints()
    await one.page.route("**/events", lambda route: route.abort())
    await one.press("Check for new messages now")
    await one.page.locator("#state.lost").wait_for()
    found["no connection"] = await one.complaints("header, #card")
    assert {state: told for state, told in found.items() if told} == {}


async def test_axe_finds_nothing_in_dialogs_with_several_inboxes_and_after_errors(visit):
    one = await visit(**WIDE)
    found = {}
    for name in ("QR code", "Choose a name", "Label"):
        await one.ask(name)
        found[name] = await one.complaints("dialog", is_dark_too=name == "Label")
        await one.close()
    await one.page.keyboard.press("?")
    await one.page.locator("dialog[open] kbd").first.wait_for()
    found["keys"] = await one.complaints("dialog")
    await one.close()
    await open_a_foreign_inbox(one, found)
    await one.press("More")
    found["note, marks and menu"] = await one.complaints(is_dark_too=True)
    await one.page.keyboard.press("Escape")
    await one.page.context.route("**/api/v1/addresses", lambda route: route.abort())
    await one.page.reload()
    await one.another()
    await one.page.locator("#toast:not(:empty)").wait_for()
    found["toast"] = await one.complaints("#toast")
    for _ in "12":
        await one.press("More")
        await one.page.get_by_role("menuitem", name="Delete").click()
    await one.page.locator("#card.trouble").wait_for()
    found["gone"] = await one.complaints()
    assert {state: told for state, told in found.items() if told} == {}


async def open_a_foreign_inbox(one, found):
    """Open an inbox through a link, and deliver a message to the browser's own inbox."""
    own, foreign = await one.address, one.daemon.create()
    await one.page.goto(f"{one.daemon.url}/#{foreign.address}.{foreign.token}")
    await one.page.locator("dialog[open] button:not(:disabled)").nth(2).wait_for()
    found["question"] = await one.complaints("dialog")
    await one.press("Someone sent it")
    await one.page.locator("#card.by-link").wait_for()
    one.daemon.deliver(own, "Sign up", **CODE)
    await one.page.locator(".inbox.new").wait_for()


async def test_axe_finds_nothing_in_the_layout_of_a_phone(visit):
    one = await visit(**PHONE)
    found = {}
    await open_a_foreign_inbox(one, found)
    await one.press("More")
    found["note, marks and menu"] = await one.complaints()
    await one.page.keyboard.press("Escape")
    await one.page.locator(".inbox.new .open-inbox").click()
    await one.show("html")
    found["mail"] = await one.complaints()
    await one.page.locator(".attachments [aria-expanded]").click()
    await one.page.locator(".preview pre").wait_for()
    found["preview"] = await one.complaints("#reader")
    assert {state: told for state, told in found.items() if told} == {}


LOW = {"viewport": {"width": 640, "height": 400}}
LANDSCAPE = {"viewport": {"width": 844, "height": 390}}


@pytest.mark.parametrize("size", [LOW, LANDSCAPE], ids=["low", "landscape"])
async def test_axe_finds_nothing_on_low_screens(visit, size):
    one = await visit(**size)
    one.daemon.extend(SimpleNamespace(address=await one.address, token=(await kept(one))["token"]), 600)
    await one.page.get_by_role("button", name="Extend to").wait_for()
    found = {"empty": await one.complaints()}
    assert await one.page.get_by_role("heading", level=1).count() == 1
    await one.receive("First", "Second", **CODE)
    found["list"] = await one.complaints()
    await one.ask("QR code")
    found["dialog"] = await one.complaints()
    assert await one.page.get_by_role("banner").count() == 1
    await one.close()
    await one.open()
    found["mail"] = await one.complaints()
    assert {state: told for state, told in found.items() if told} == {}


async def kept(one):
    return await one.page.evaluate("JSON.parse(localStorage['tmpmaild:/'])[0]")


@DEVICES
async def test_the_tab_key_follows_the_visual_order_of_a_message(visit, device):
    one = await visit(**device)
    await one.receive("First", **CODE)
    await one.open()
    order = "#reader :is(button, a, select, summary):not(:disabled)"
    places = await one.page.locator(order).evaluate_all(SCRIPTS["PLACES"])
    assert len(places) > 9
    assert [(one, other) for one, other in pairwise(places) if other[1] <= one[0]] == []  # Tab never moves backwards


async def test_the_focus_is_visible_in_light_and_dark(visit):
    one = await visit(**WIDE)
    await one.receive("First", "Second", **CODE)
    await one.open()
    await one.page.keyboard.press("Tab")  # makes the focus ring visible
    for scheme in ("light", "dark"):
        await one.page.emulate_media(color_scheme=scheme)
        assert (scheme, await one.page.evaluate(SCRIPTS["WITHOUT_OUTLINE"])) == (scheme, [])


@DEVICES
async def test_targets_are_large_enough_and_named_and_icons_have_no_name(visit, device):
    one = await visit(**device)
    announcer = one.page.locator("#announcer[role=status]")
    await one.receive("First", "Second", **CODE)
    assert await announcer.text_content() == "Code 482913 from Alice"
    found = [await one.page.evaluate(SCRIPTS["SMALL_OR_NAMELESS"])]
    await one.open()
    found.append(await one.page.evaluate(SCRIPTS["SMALL_OR_NAMELESS"]))
    drawn = (
        "[...document.querySelectorAll('svg:not([role=img]), .wait')].filter((one) => one.ariaHidden !== 'true').length"
    )
    assert await one.page.evaluate(drawn) == 0
    await one.show("source")
    found.append(await one.page.evaluate(SCRIPTS["SMALL_OR_NAMELESS"]))
    assert found == [[], [], []]


async def test_nothing_moves_if_reduced_motion_is_preferred(visit):
    one = await visit(reduced_motion="reduce")
    assert await one.page.evaluate("document.getAnimations().length") == 0
    await one.page.emulate_media(reduced_motion="no-preference")
    assert await one.page.evaluate("document.getAnimations().length") > 0


@pytest.mark.parametrize(("device", "font_size"), [(NARROWEST, 100), (PHONE, 200)], ids=["narrow", "large text"])
async def test_no_content_is_cut_off_on_the_narrowest_screen_or_with_text_twice_as_large(visit, device, font_size):
    one = await visit(**device)
    await one.page.evaluate("(percent) => { document.documentElement.style.fontSize = `${percent}%`; }", font_size)
    found = {"empty": await one.page.evaluate(OVERFLOWING)}
    await one.receive(f"A subject that is much too long for such a screen {LONG}", **LONG_MAIL)
    found["list"] = await one.page.evaluate(OVERFLOWING)
    for name in ("QR code", "Choose a name"):
        await one.ask(name)
        found[name] = await one.page.evaluate(OVERFLOWING)
        await one.close()
    await one.page.locator("#list .open").first.click()
    for mode in ("html", "text", "headers", "source"):
        await one.show(mode)
        found[mode] = await one.page.evaluate(OVERFLOWING)
    assert {state: told for state, told in found.items() if told} == {}


REFUSED = {
    "status": 429,
    "headers": {"Retry-After": "30", "RateLimit-Policy": '"default";q=10;w=60', "RateLimit": '"default";r=0;t=30'},
    "json": {"code": "rate-limited"},
}
SMALL_GERMAN_PHONE = {
    "viewport": {"width": 360, "height": 740},
    "has_touch": True,
    "is_mobile": True,
    "locale": "de-DE",
}


async def test_nothing_is_cut_off_on_a_small_phone_in_german(visit):
    one = await visit(**SMALL_GERMAN_PHONE)
    found = {"first visit": await one.page.evaluate(OVERFLOWING)}
    await one.receive("Bitte bestätige deine E-Mail-Adresse", **CODE)
    await one.press("Neue Adresse")
    found["menu"] = await one.page.evaluate(OVERFLOWING)
    await one.page.get_by_role("menuitem", name="Name wählen").click()
    await one.page.get_by_role("textbox", name="Name").fill("zwei..punkte")
    await one.press("Anlegen")
    await one.page.get_by_role("alert").wait_for()
    found["name"] = await one.page.evaluate(OVERFLOWING)
    await one.close()
    await one.open()
    one.daemon.deliver(await one.address, "Noch eine", **CODE)
    await one.page.locator("#incoming").get_by_role("button").first.wait_for()
    found["new mail"] = await one.page.evaluate(OVERFLOWING)
    await one.page.context.route("**/api/**", lambda route: route.fulfill(**REFUSED))
    await one.page.evaluate("localStorage.clear(); sessionStorage.clear()")
    await one.page.reload()
    await one.page.get_by_text("Deine Adresse kommt von selbst").wait_for()
    found["limited"] = await one.page.evaluate(OVERFLOWING)
    assert {state: told for state, told in found.items() if told} == {}
