"""Accessibility in all languages: axe-core finds no problem on any screen, in light and dark mode.

Each language has its own labels and lengths, and Arabic is laid out right to left. ``make proof WHAT=access`` runs these
tests. ``test_access.py``, which runs each time, checks more states in English.
"""

from pathlib import Path

import pytest

from .test_access import CODE, CONTRAST, PHONE, RULES, RULES_OF_LAYOUT, WIDE, Visit

pytestmark = pytest.mark.proof

LANGUAGES = sorted(path.stem for path in (Path(__file__).parents[3] / "tmpmaild/web/messages").iterdir())
LANDSCAPE, TABLET = {"width": 844, "height": 390}, {"width": 768, "height": 1024}
# Two sizes for each device: touch screens have larger targets.
SCREENS = [
    pytest.param(PHONE, [PHONE["viewport"], LANDSCAPE], id="touch"),
    pytest.param(WIDE, [WIDE["viewport"], TABLET], id="desktop"),
]


class Sweep(Visit):
    """A page that is checked on several screens, and without the English names that ``Visit`` uses."""

    def __init__(self, page, daemon, sizes):
        super().__init__(page, daemon)
        self._sizes = sizes
        self.found = {}

    async def check(self, state):
        """Check all rules on the first screen, the layout on the other screens, and the contrast in dark mode."""
        for size in self._sizes:
            await self.page.set_viewport_size(size)
            rules = RULES if size == self._sizes[0] else RULES_OF_LAYOUT
            self.found[state, size["width"], "light"] = await self.complaints(rules=rules)
            await self.page.emulate_media(color_scheme="dark")
            self.found[state, size["width"], "dark"] = await self.complaints(rules=CONTRAST)
            await self.page.emulate_media(color_scheme="light")

    async def open_menu(self):
        await self.page.locator("#card .brief .tool[aria-haspopup]").last.click()
        await self.page.locator("[role=menuitem]:focus").wait_for()

    async def leave_message(self):
        await self.page.keyboard.press("Escape")
        await self.page.locator("#reader").wait_for(state="hidden")


@pytest.mark.parametrize(("options", "sizes"), SCREENS)
@pytest.mark.parametrize("language", LANGUAGES)
async def test_axe_finds_nothing_in_an_inbox(pages, daemon, language, options, sizes):
    one = Sweep(await pages.borrow(locale=language, **options), daemon, sizes)
    await one.begin()
    assert await one.page.evaluate("document.documentElement.lang") == language
    await one.check("empty")
    await one.receive("First", **CODE)
    await one.receive("Second", text="No code")
    await one.check("list")
    await one.open_menu()
    await one.check("menu")
    await one.page.locator("[role=menuitem]").first.click()
    await one.page.locator("dialog[open]").wait_for()
    await one.check("link")
    await one.close()
    await one.page.locator("#list .open").last.click()
    for mode in ("html", "headers", "source"):
        await one.show(mode)
        await one.check(mode)
    await one.leave_message()
    await one.page.keyboard.press("?")
    await one.page.locator("dialog[open] kbd").first.wait_for()
    await one.check("keys")
    await one.close()
    await one.page.locator("#search input").fill("nothing like it")
    await one.page.locator("#list > li").first.wait_for(state="hidden")
    await one.check("nothing found")
    await one.page.locator("#search input").fill("")
    await one.page.locator("#list .open").first.click()
    await one.page.keyboard.press("#")
    await one.page.locator("#undo button").wait_for()
    await one.check("undo")
    await one.open_menu()
    await one.page.locator("[role=menuitem]").last.click()
    await one.page.locator("#card.trouble").wait_for()
    await one.check("no address")
    assert {state: told for state, told in one.found.items() if told} == {}


@pytest.mark.parametrize(("options", "sizes"), SCREENS)
@pytest.mark.parametrize("language", LANGUAGES)
async def test_axe_finds_nothing_on_the_page_for_all_messages(pages, shared_catcher, language, options, sizes):
    shared_catcher.request("messages", "DELETE")
    one = Sweep(await pages.borrow(locale=language, **options), shared_catcher, sizes)
    await one.begin()
    await one.check("empty")
    shared_catcher.send("First", to=["anna@shop.example", "archive@company.example", "c@shop.example"], **CODE_TO_ALL)
    for number in range(10):
        shared_catcher.send("Second", to=[f"user{number}@shop.example"])
    await one.page.locator("#list > li", has_text="First").wait_for()
    await one.check("list")
    if await one.page.locator("#inboxes .all").is_visible():
        await one.page.locator("#inboxes .all").click()
    await one.check("recipients")
    await one.page.keyboard.press("Escape")
    await one.page.locator("#list .open").last.click()
    await one.page.locator(".addressees summary").click()
    await one.page.locator(".blind").first.wait_for()
    await one.check("message")
    assert {state: told for state, told in one.found.items() if told} == {}


CODE_TO_ALL = {key: CODE[key] for key in ("text", "html")}
