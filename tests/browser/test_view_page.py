"""A view of a hostile message in a real browser, framed as on the inbox page: no script runs and nothing is fetched."""

import re
import struct
import zlib
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.mail import viewpage
from tmpmaild.mail.htmlview import render
from tmpmaild.model import Envelope
from tmpmaild.ratelimit import RateLimits

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PAYLOADS = [
    "<script>top.document.title='taken'</script>",
    "<img src=x onerror=\"top.document.title='taken'\">",
    "<svg onload=\"top.document.title='taken'\"><animate onbegin=\"top.document.title='taken'\"></svg>",
    "<iframe srcdoc=\"<script>top.document.title='taken'</script>\"></iframe>",
    "<iframe src='https://evil.example/frame'></iframe><object data='https://evil.example/o'></object>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/refresh'><base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/style.css'><style>@import 'https://evil.example/i.css';</style>",
    '<div style="background:url(https://evil.example/b.png);width:9px">b</div>',
    "<table background='https://evil.example/t.png'><tr><td background='//evil.example/u.png'>t</td></tr></table>",
    "<img src='https://evil.example/pixel.gif' width=1 height=1><img srcset='https://evil.example/s.png 1x'>",
    "<video poster='https://evil.example/p.png' src='https://evil.example/v'></video><audio src='//evil.example/a'>",
    "<form action='https://evil.example/f'><input autofocus onfocus=alert(1)><button>x</button></form>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>',
    "<a href='java\nscript:alert(1)' style='position:fixed;inset:0'>one</a><a href='data:text/html,x'>two</a>",
]
MAIL = (
    "Subject: hostile\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    "<h1 style='color:#c00'>Grüße</h1><img id=logo src='cid:pixel' alt=logo>"
    + "".join(PAYLOADS)
    + "<p><a href='https://shop.example/confirm'>Confirm</a></p>\r\n"
    "--b\r\nContent-Type: image/png\r\nContent-ID: <pixel>\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    f"{PIXEL}\r\n--b--\r\n"
).encode()


class House:
    """A running server with one hostile message."""

    def __init__(self, service, address, message_id, port):
        self.service = service
        self.address = address
        self.message_id = message_id
        self.port = port

    async def view(self, *, remote_images=False):
        secret, _, _ = await self.service.viewer.permit(self.address, self.message_id, remote_images=remote_images)
        return f"http://127.0.0.1:{self.port}/view/{secret}"


@pytest.fixture
async def house(service, serve_app):
    inbox, _ = await service.inboxes.create(NewAddress(), None)
    envelope = Envelope("a@evil.example", (inbox.address,), "client.example", "192.0.2.7", tls=False)
    message_id = await service.deliverer.deliver(envelope, [inbox.id], MAIL)
    port = await serve_app(HttpApp(service, HttpSettings(), RateLimits()))
    return House(service, inbox.address, message_id, port)


async def framed(page, url):
    """Open a page that frames a view; it has the same origin, because other origins may not frame it."""
    sandbox = "allow-same-origin allow-modals allow-popups"
    ours = f"<title>safe</title><link rel=icon href='data:,'><iframe sandbox='{sandbox}' src='{url}'></iframe>"
    await page.route("**/ours", lambda route: route.fulfill(body=ours, content_type="text/html"))
    await page.goto(urljoin(url, "/ours"))
    frame = page.frames[1]
    await frame.get_by_role("link", name="Confirm").wait_for()
    return frame


async def test_the_intended_content_of_the_message_is_shown(house, pages):
    frame = await framed(await pages.open(), await house.view())
    heading = frame.get_by_role("heading", name="Grüße")
    assert await heading.evaluate("one => getComputedStyle(one).color") == "rgb(204, 0, 0)"
    assert await frame.get_by_alt_text("logo").evaluate("one => one.naturalWidth") == 1
    link = frame.get_by_role("link", name="Confirm")
    assert await link.get_attribute("href") == "https://shop.example/confirm"
    assert await link.get_attribute("target") == "_blank"


async def test_remote_images_are_only_fetched_on_request_and_without_a_referrer(house, browser):
    context = await browser.new_context()
    page = await context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - built-ins are not accepted
    await context.route(re.compile("https:"), lambda route: route.abort())
    await framed(page, await house.view(remote_images=True))
    await page.wait_for_timeout(300)
    remote = [request for request in asked if not request.url.startswith(("http://127.0.0.1:", "data:"))]
    # The second URL is "x", resolved against the message's base URL.
    assert {request.url for request in remote} == {"https://evil.example/pixel.gif", "https://evil.example/x"}
    assert ["referer" in await request.all_headers() for request in remote] == [False] * 2
    await context.close()


HIDING = """
<style>
  :root,html{color:#fff!important;font-size:0!important;line-height:0!important;margin-top:-99px!important;height:0}
  :root::before,html:before,*::before{content:none!important;display:none!important;visibility:hidden!important}
  html>*,body{margin-top:-99px!important;padding-top:99px}
</style><div style="margin:-99px -9px 0;height:200px;background:#fff">Log in at shop.example</div>
"""


@pytest.mark.parametrize("html", ["<p>Hello</p>", HIDING])
async def test_a_view_in_a_tab_names_the_service_at_its_top_whatever_the_message_styles(pages, html):
    page = await pages.borrow(viewport={"width": 600, "height": 300})
    await page.set_content(viewpage.served_by(render(html, {}, remote_images=False).html, "tmp.example"))
    said = await page.evaluate("getComputedStyle(document.documentElement, '::before').content")
    assert said.strip('"').startswith("tmp.example shows you a message that somebody sent")
    assert await pixel(page, 2, 2) == (255, 248, 220)
    assert await pixel(page, 597, 20) == (255, 248, 220)


# Each image's attributes, and its width and height on a page of 600 px; None means the height of a line.
BLOCKED = {
    "attributes": ("alt=Logo width=200 height=50", 200, 50),
    "styles": ("alt=Logo style='width:200px;height:50px'", 200, 50),
    "a share": ("alt=Logo style='display:block;width:50%;height:auto'", 300, None),
    "at most": ("alt=Logo width=900 style='max-width:100px'", 100, None),
    "too wide": ("alt=Logo width=900 height=80", 600, 80),
    "a rule": ("alt=Logo class=wide width=20", 600, None),
    "as wide as its column": ("alt=Logo style='display:block;width:100%'", 600, None),
    "small with many words": ("alt='Our page on another site' width=24 style='display:block'", 24, None),
    "no text size": ("alt=Logo style='width:70px'", 70, None),
    "words only": ("alt=Logo", None, None),
    "a pixel": ("width=1 height=1", 1, 1),
    "a spacer": ("width=600 height=9 alt=''", 600, 9),
    "nothing": ("", 0, 0),
}


@pytest.mark.parametrize("doctype", ["<!doctype html>", ""])
async def test_a_blocked_image_has_the_stated_size_or_the_height_of_a_line(pages, doctype, subtests):
    page = await pages.borrow(viewport={"width": 600, "height": 400})
    images = "".join(f"<div><img src=https://x.example/ {written}></div>" for written, *_ in BLOCKED.values())
    sheet = "<style>.wide{width:100%} @media (min-width:700px){.wide{width:10px}}</style>"
    mail = f"{doctype}{sheet}<body style='margin:0'><div style='font-size:0'>{images}</div>"
    await page.set_content(render(mail, {}, remote_images=False).html)
    boxes = await page.evaluate("[...document.images].map((one) => [one.offsetWidth, one.offsetHeight])")
    for (name, (_, width, height)), (shown_width, shown_height) in zip(BLOCKED.items(), boxes, strict=True):
        with subtests.test(name):
            assert width in (None, shown_width)
            assert 12 <= shown_height <= 24 if height is None else shown_height == height
    assert await page.get_by_role("img", name="Our page on another site").get_attribute("title")


async def pixel(page, x, y):
    """Return the red, green and blue values of a pixel of the page."""
    image = await page.screenshot(clip={"x": x, "y": y, "width": 1, "height": 1})
    octets, position = b"", 8
    while position < len(image):
        length, kind = struct.unpack_from(">I4s", image, position)
        octets += image[position + 8 : position + 8 + length] if kind == b"IDAT" else b""
        position += 12 + length
    return tuple(zlib.decompress(octets)[1:4])


GREY = "data:image/gif;base64,R0lGODlhAQABAIAAAEBAQP///ywAAAAAAQABAAACAkQBADs="
COLOURED = "<body style='margin:0;background:#fff8e0'><img src=cid:grey width=50 height=50 style='display:block'>"
READY = "<style>@media (prefers-color-scheme:dark){body{background:#123456!important}}</style>"


async def test_the_dark_view_inverts_a_message_except_its_images_unless_it_has_dark_styles(pages):
    page = await pages.open(viewport={"width": 400, "height": 200}, color_scheme="dark")
    paths = ["/plain", "/ready"]
    views = [render(html, {"grey": GREY}, remote_images=False).html for html in (COLOURED, READY + COLOURED)]
    asked = []

    async def answer(route):
        path = urlsplit(route.request.url).path
        asked.append(path)
        frames = "".join(f"<iframe sandbox src={one} width=200 height=100 style='border:0'></iframe>" for one in paths)
        page_of_ours = f"<!doctype html><link rel=icon href='data:,'><body style='margin:0;display:flex'>{frames}"
        await route.fulfill(body=dict(zip(paths, views, strict=True)).get(path, page_of_ours), content_type="text/html")

    async def seen(fragment):
        await page.evaluate(
            "(to) => { for (const one of document.querySelectorAll('iframe')) one.contentWindow.location.replace(one.src + to) }",
            fragment,
        )
        for frame in page.frames[1:]:
            await frame.wait_for_function("(to) => location.hash === to", arg=fragment)
        return [await pixel(page, *point) for point in ((25, 25), (150, 90), (225, 25), (350, 90))]

    await page.route("**/*", answer)
    await page.goto("http://127.0.0.1:1/")
    picture, paper = (64, 64, 64), (255, 248, 224)
    assert await seen("#light") == [picture, paper, picture, paper]
    assert await seen("#dark") == [picture, (14, 7, 0), picture, (0x12, 0x34, 0x56)]
    assert await seen("#light") == [picture, paper, picture, paper]
    assert asked == ["/", *paths]
    assert await page.evaluate("history.length") == 2


INVOICE = (Path(__file__).parent / "templates/mailgen-receipt.html").read_text()
ITEM = re.compile(r"<tr>\s*<td[^>]*>\s*Cup\s.*?</tr>", re.DOTALL)


async def test_an_invoice_is_printed_on_no_extra_pages_and_no_icon_is_requested(pages):
    page = await pages.borrow()
    invoice = ITEM.sub(lambda row: row[0] * 30, INVOICE)
    view = viewpage.titled(render(invoice, {}, remote_images=False).html, "Your invoice", "today")
    await page.set_content(view)
    printed = await page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2
    assert await page.locator("link[rel=icon]").get_attribute("href") == "data:,"
