"""Style sheets of messages in a real browser: rules apply, but load no resources, even without our server's policy."""

import re
from pathlib import Path

from scripts import scripts_of
from tmpmaild.mail.htmlview import render

SCRIPTS = scripts_of(__file__)

# U is replaced by a unique URL.
VECTORS = [
    "@import 'U';",
    "@import url(U) screen;",
    "@font-face{font-family:f;src:url(U)}p{font-family:f}",
    "p{background:url(U)}",
    "p{background:u\\72l(U)}",
    "p{background:\\75\\72\\6c('U')}",
    'p{BACKGROUND-IMAGE:URL( "U" )}',
    "p{background:image-set('U' 1x)}",
    "p{background:-webkit-image-set(url(U) 1x)}",
    "p{background-image:cross-fade(url(U),url(U),50%)}",
    "p{background:-webkit-cross-fade(url(U),url(U),50%)}",
    "p{list-style:url(U);display:list-item}",
    "p{border:1px solid;border-image:url(U) 1}",
    "p{-webkit-border-image:url(U) 1}",
    "p{mask:url(U)}",
    "p{-webkit-mask-image:url(U)}",
    "p{mask-border:url(U) 1;-webkit-mask-box-image:url(U)}",
    "p::before{content:url(U)}",
    "p{content:url(U)}",
    "p{filter:url(U#f);backdrop-filter:url(U#f);clip-path:url(U#f)}",
    "p{shape-outside:url(U);float:left}",
    "p{cursor:url(U),auto}",
    ":root{--u:url(U)}p{background:var(--u)}",
    "@property --v{syntax:'<image>';inherits:true;initial-value:url(U)}p{background:var(--v)}",
    "@media all{@media screen{p{background:url(U)}}}",
    "@supports (color:red){p{background:url(U)}}",
    "@layer a{p{background:url(U)}}",
    "@container (width>0px){p{background:url(U)}}",
    "@scope (body){p{background:url(U)}}",
    "@keyframes k{from,to{background:url(U)}}p{animation:k 1s infinite}",
    "body{p{background:url(U)}}",
    "body{& p{background:url(U)}}",
    "p{color:red;&{background:url(U)}}",
    "[title='</style><img src=U>']{color:red}",
    "p{font-family:'</style><img src=U>'}",
    "p{font-family:'\\3c/style\\3e\\3cimg src=U\\3e'}",
    "p{background:linear-gradient(red,blue),url(U)}",
    "p{background:url(x) url(U)}p{background:url(U",
    "<!-- p{background:url(U)} -->",
    "}}p{}@media x{}p{background:url(U)}",
]
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
        await page.wait_for_timeout(200)  # wait for delayed effects, such as loading a font
        if html.startswith("<!doctype"):
            assert asked == []
    assert len(asked) > 30  # the original message requests files
    await context.close()


async def test_rules_of_a_message_apply_as_in_a_browser_and_only_to_its_body(pages):
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
