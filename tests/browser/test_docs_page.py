"""The ``/docs`` page in a browser: it is readable on any screen, needs no script, and only loads its own files."""

import re
from importlib.resources import files

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from scripts import scripts_of
from tmpmaild.http import pages as pages_for_people
from tmpmaild.http.app import OPERATIONS, describe_api
from tmpmaild.http.crosssite import CrossSite
from tmpmaild.http.files import docs_files
from tmpmaild.http.middleware import Middleware
from tmpmaild.http.problems import Problems
from tmpmaild.http.routing import Resource
from tmpmaild.metrics import Count
from tmpmaild.ratelimit import RateLimits

from .inbox.test_access import AXE, CONTRAST, RULES

SCRIPTS = scripts_of(__file__)


@pytest.fixture(scope="module")
async def origin(serve_app):
    """Serve the page, at the root and under a prefix."""
    problems = Problems("")
    page = pages_for_people.docs(describe_api())
    routes = [
        *[Route(path, Resource(get=file)) for path, file in docs_files(page).items()],
        Route("/problems/{code}", Resource(get=problems.page)),
    ]
    app = Starlette(routes=[*routes, Mount("/some/prefix", routes=routes)])
    parts = {
        "limits": RateLimits(),
        "requests": Count("requests", "", ("operation", "status")),
        "unreadable": Count("unreadable", ""),
        "untrusted": Count("untrusted", ""),
        "cross_site": CrossSite(),
    }
    return f"http://127.0.0.1:{await serve_app(Middleware(app, problems=problems, **parts))}"


# Contrast is not checked here, because colours are the same on all screens.
ON_A_PHONE = ["target-size", "scrollable-region-focusable"]


async def test_the_page_fetches_only_itself_and_its_style(pages, origin):
    page = await pages.borrow()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{origin}/docs")
    assert [url for url in asked if not url.startswith("data:")] == [f"{origin}/docs", f"{origin}/docs.css"]


async def test_without_scripts_the_page_is_complete_even_below_a_prefix(pages, origin):
    page = await pages.open(java_script_enabled=False)
    await page.goto(f"{origin}/some/prefix/docs")
    assert await page.locator("article").count() == len(OPERATIONS)
    await page.locator("#createAddress summary").click()
    assert await page.get_by_text("address-taken").is_visible()
    await page.goto(f"{origin}/some/prefix/problems/address-taken")
    assert (await page.get_by_role("heading").first.bounding_box())["width"] > 400


async def test_nothing_is_wider_than_the_window_and_axe_finds_nothing(pages, origin):
    page = await pages.borrow()
    await page.goto(f"{origin}/docs")
    await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
    for width in (320, 360, 390, 1100, 2560):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.locator("pre, p, li").evaluate_all(cut) == [], width
    await page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    await page.evaluate(SCRIPTS["THIN_OUT"])
    for width, scheme, rules in ((1440, "light", RULES), (360, "light", ON_A_PHONE), (1440, "dark", CONTRAST)):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.emulate_media(color_scheme=scheme)
        colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour))) < 3 * 128) == (scheme == "dark")
        assert (width, scheme, await page.evaluate(AXE, ["body", rules])) == (width, scheme, [])


async def test_a_picture_from_elsewhere_is_refused(browser, origin):
    """The Content-Security-Policy protects the page even if it contains unsafe markup."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{origin}/docs")
    directive = await page.evaluate(SCRIPTS["VIOLATE"])
    await context.close()
    assert directive == "img-src"
