"""A view of a hostile mail in a real browser, framed as a page would frame it: nothing runs, nothing is fetched."""

import random
import re
import socket
from urllib.parse import urlsplit

import pytest

from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.http.server import HttpServer
from tmpmaild.inboxes.service import InboxService, NewAddress, Rules
from tmpmaild.model import Envelope
from tmpmaild.ratelimit import RateLimits
from tmpmaild.storage.sqlite.engine import StorageSettings, open_storage

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
    """A running server with one hostile mail."""

    def __init__(self, service, address, message_id, port):
        self.service = service
        self.address = address
        self.message_id = message_id
        self.port = port

    async def view(self, *, remote_images=False):
        grant, _ = await self.service.viewer.permit(self.address, self.message_id, remote_images=remote_images)
        return f"http://127.0.0.1:{self.port}/view/{grant.secret}"


@pytest.fixture
async def house(tmp_path, clock):
    async with open_storage(StorageSettings(tmp_path / "mail.db", 1 << 30, 0, 0, 0, 1.0), clock) as storage:
        chosen = random.Random(1)
        service = InboxService(
            storage,
            Rules(("tmpmaild.example",), 3_600_000),
            clock=clock,
            choice=chosen.choice,
            new_token=lambda: f"{chosen.getrandbits(128):032x}",
        )
        inbox, _ = await service.create(NewAddress(), None)
        envelope = Envelope("a@evil.example", (inbox.address,), "client.example", "192.0.2.7", tls=False)
        message_id = await service.deliver(envelope, [inbox.id], MAIL)
        server = HttpServer(HttpApp(service, HttpSettings(), RateLimits()), max_connections=0)
        listener = socket.create_server(("127.0.0.1", 0))
        await server.start([listener])
        yield House(service, inbox.address, message_id, listener.getsockname()[1])
        await server.stop(0.2)


async def framed(page, url):
    await page.set_content(
        f"<title>safe</title><iframe sandbox='allow-popups allow-popups-to-escape-sandbox' src='{url}'></iframe>"
    )
    frame = page.frames[1]
    await frame.get_by_role("link", name="Confirm").wait_for()
    return frame


async def test_nothing_of_a_hostile_mail_runs_or_is_fetched(house, pages):
    page = await pages.open()
    frame = await framed(page, await house.view())
    await page.wait_for_timeout(300)  # what would come late, such as a refresh
    assert await page.title() == "safe"
    assert urlsplit(frame.url).port == house.port
    assert len(page.frames) == 2


async def test_what_the_mail_wants_to_show_is_shown(house, pages):
    frame = await framed(await pages.open(), await house.view())
    heading = frame.get_by_role("heading", name="Grüße")
    assert await heading.evaluate("one => getComputedStyle(one).color") == "rgb(204, 0, 0)"
    assert await frame.get_by_alt_text("logo").evaluate("one => one.naturalWidth") == 1
    link = frame.get_by_role("link", name="Confirm")
    assert await link.get_attribute("href") == "https://shop.example/confirm"
    assert await link.get_attribute("target") == "_blank"


async def test_images_from_elsewhere_are_fetched_only_by_who_asked_for_them_and_tell_no_referrer(house, browser):
    context = await browser.new_context()
    page = await context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - it takes no built-in function
    await context.route(re.compile("https:"), lambda route: route.abort())
    await framed(page, await house.view(remote_images=True))
    await page.wait_for_timeout(300)
    remote = [request for request in asked if not request.url.startswith(("http://127.0.0.1:", "data:"))]
    assert [request.url for request in remote] == ["https://evil.example/pixel.gif"]
    assert "referer" not in await remote[0].all_headers()
    await context.close()
