"""The style sheets of mails in a real browser: rules apply, and load nothing even without the policy of our server."""

import re
from pathlib import Path

from scripts import scripts_of
from tables import rows_of
from tmpmaild.mail.htmlview import render

SCRIPTS = scripts_of(__file__)

VECTORS = rows_of(__file__)["VECTORS"]
LAYOUT = Path(__file__).with_suffix(".html").read_text()


def page_of(html):
    return render(html, {}, remote_images=False).html


def hostile_mail():
    return "".join(
        f"<style>{vector.replace('U', f'https://evil.example/{n}')}</style>"
        f'<p style="{vector[2:-1].replace("U", f"https://evil.example/inline{n}").replace(chr(34), "")}">x</p>'
        for n, vector in enumerate(VECTORS)
    )


async def test_no_style_sheet_loads_anything(browser):
    context = await browser.new_context()
    asked = []
    page = await context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    await context.route(re.compile("https:"), lambda route: route.abort())
    for html in (page_of(hostile_mail()), hostile_mail()):
        await page.set_content(html)
        await page.wait_for_timeout(200)  # what would come late, such as a font
        if html.startswith("<!doctype"):
            assert asked == []
    assert len(asked) > 30  # the same mail as it came
    await context.close()


async def test_rules_of_a_mail_apply_as_in_a_browser_and_only_to_its_body(pages):
    page = await pages.borrow(viewport={"width": 800, "height": 600})
    await page.set_content(page_of(LAYOUT))
    seen = await page.evaluate(SCRIPTS["LOOK"])
    assert seen == {
        "width": "600px",
        "phone": "none",
        "ground": "rgb(18, 52, 86)",
        "colours": ["rgb(255, 0, 0)", "rgb(0, 0, 255)", "rgb(0, 255, 0)"],
        "padding": "7px",
        "size": "20px",
        "head": "nonenone",
    }
    await page.hover("p:last-of-type")
    assert (await page.evaluate(SCRIPTS["LOOK"]))["colours"][2] == "rgb(1, 2, 3)"
    await page.set_viewport_size({"width": 340, "height": 600})
    await page.emulate_media(color_scheme="dark")
    seen = await page.evaluate(SCRIPTS["LOOK"])
    assert (seen["width"], seen["phone"], seen["ground"]) == ("340px", "block", "rgb(0, 0, 0)")
