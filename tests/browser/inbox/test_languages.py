"""The inbox in all its languages: everything fits on the narrowest screen, and Arabic is laid out right to left."""

from pathlib import Path

from scripts import scripts_of

from .test_access import CODE, NARROWEST, OVERFLOWING, visit  # noqa: F401 - the fixture
from .test_small_screens import BROKEN_WORDS

SCRIPTS = scripts_of(__file__)

MESSAGES = Path(__file__).parents[3] / "tmpmaild/web/messages"
LANGUAGES = sorted({path.stem for path in MESSAGES.iterdir()} - {"en", "de"})  # other tests cover English and German
ARABIC_PHONE = {"viewport": {"width": 340, "height": 740}, "has_touch": True, "is_mobile": True, "locale": "ar-EG"}
WIDTH_OF_A_LABEL = 354  # at this width and above, the button next to the address has a label


async def test_no_content_is_cut_off_on_the_narrowest_screen_in_any_language(visit):  # noqa: F811
    # `speak` cannot change requests that a service worker makes for the page.
    one = await visit(**NARROWEST, service_workers="block")
    found = {}
    await one.page.set_viewport_size({"width": 390, "height": 844})
    for language in LANGUAGES:
        await speak(one.page, language)
        await one.begin()
        found[language, "empty"] = await one.page.evaluate(SCRIPTS["SQUEEZED"])
        found[language, "empty"] += await one.page.locator("#card > .brief > button").evaluate_all(SCRIPTS["BELOW"])
    await one.receive("Confirm", **CODE)
    for language in LANGUAGES:
        await speak(one.page, language)
        await one.begin()
        assert await one.page.evaluate(SCRIPTS["SPOKEN"]) == [language] * 2
        await one.page.locator("#list > li").wait_for()
        for width in (WIDTH_OF_A_LABEL, 320):
            await one.page.set_viewport_size({"width": width, "height": 640})
            found[language, width] = [
                *await one.page.evaluate(OVERFLOWING),
                *await one.page.evaluate(SCRIPTS["SQUEEZED"]),
                *await one.page.locator(".address > span").evaluate_all(BROKEN_WORDS),
            ]
        await one.page.set_viewport_size({"width": 768, "height": 1024})
        found[language, "card"] = await one.page.locator("#card > .brief > button").evaluate_all(SCRIPTS["BELOW"])
        await one.page.set_viewport_size({"width": 320, "height": 640})
        await one.page.locator("#card .brief .tool").click()
        await one.page.locator("[role=menuitem]:focus").wait_for()
        found[language, "menu"] = await one.page.evaluate(OVERFLOWING)
        await one.page.keyboard.press("Escape")
        await one.open()
        found[language, "mail"] = await one.page.evaluate(OVERFLOWING)
        found[language, "tabs"] = await one.page.locator(".modes button span").evaluate_all(BROKEN_WORDS)
        await one.close()
    assert {state: told for state, told in found.items() if told} == {}


async def speak(page, language):
    """Send a language with all requests. The browser never uses its cache for intercepted requests."""
    await page.unroute_all()
    await page.route(
        "**/*", lambda route: route.continue_(headers=route.request.headers | {"accept-language": language})
    )


async def test_in_arabic_the_page_is_laid_out_right_to_left_and_latin_text_is_unchanged(visit):  # noqa: F811
    one = await visit(**ARABIC_PHONE)
    found = {"first visit": await one.page.evaluate(OVERFLOWING)}
    assert await one.page.evaluate("[document.dir, document.documentElement.lang]") == ["rtl", "ar"]
    text = await one.page.locator("#empty-text").text_content()
    assert f"\u2068{await one.address}\u2069" in text
    await one.receive("Confirm your address", **CODE)
    found["list"] = await one.page.evaluate(OVERFLOWING)
    sides = [".brand", ".address", "#mail-title", "#list .code span", "#search", "#list time"]
    assert await one.page.evaluate(SCRIPTS["IS_RIGHT"], sides) == sides[:4]
    assert (
        await one.page.locator("#list .open [dir=auto]").evaluate_all(
            "all => all.map((each) => [getComputedStyle(each).direction, getComputedStyle(each).textAlign])"
        )
        == [["ltr", "right"]] * 3
    )
    await one.press("المزيد")
    await one.page.locator("[role=menuitem]:focus").wait_for()
    found["menu"] = await one.page.evaluate(OVERFLOWING)
    edges = [
        (await one.page.locator(f"#card .brief {part}").bounding_box())["x"] for part in (".tool", ".menu:popover-open")
    ]
    assert abs(edges[0] - edges[1]) < 1
    await one.page.keyboard.press("Escape")
    await one.open()
    found["mail"] = await one.page.evaluate(OVERFLOWING)
    assert (
        await one.page.frame_locator("iframe").locator("html").evaluate("html => getComputedStyle(html).direction")
        == "ltr"
    )
    assert await one.page.locator("#reader .code b").evaluate("code => getComputedStyle(code).textAlign") == "right"
    assert await one.page.locator("p.address, .code [dir]").evaluate_all(
        "all => [...new Set(all.map((each) => each.dir))]"
    ) == ["ltr"]
    assert {state: told for state, told in found.items() if told} == {}
