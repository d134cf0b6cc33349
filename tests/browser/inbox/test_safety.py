"""Hostile mail, sent over SMTP and opened in every mode: it runs no script, loads no resource and adds no markup."""

import re
from base64 import b64encode
from html import escape
from itertools import zip_longest
from urllib.parse import quote

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

# The payloads, by name. RUN stands for a call that raises an alarm with the payload's name, and URL for a URL that
# contains the name.
HTML = {
    "script": "<script>RUN</script>",
    "script-src": "<script src=URL></script>",
    "script-svg": "<svg><script href=URL /></svg>",
    "script-nested": "<scr<script>ipt>RUN</scr</script>ipt>",
    "img-onerror": "<img src=x onerror=RUN>",
    "img-slashes": "<img/src='x'/onerror=RUN//>",
    "img-tab": "<img src=x\tonerror\n=\tRUN>",
    "img-remote": "<img src=URL width=1 height=1>",
    "img-srcset": "<picture><source srcset='URL 1x'><img srcset='URL 2x' src='//evil.example/img-srcset'></picture>",
    "svg-onload": "<svg onload=RUN>",
    "svg-animate": (
        "<svg><a><animate attributeName=href values=javascript:RUN begin=0s onbegin=RUN /><text>x</text></a></svg>"
    ),
    "svg-image": "<svg><image href=URL /><use href='URL#x'/><feImage href=URL /></svg>",
    "svg-foreign": (
        "<svg><foreignObject><body onload=RUN><iframe srcdoc='<script>RUN</script>'></iframe></foreignObject></svg>"
    ),
    "math-href": "<math href='javascript:RUN'><mi xlink:href='javascript:RUN'>x</mi></math>",
    "focus": "<input autofocus onfocus=RUN><b tabindex=1 id=x autofocus onfocus=RUN>x</b>",
    "toggle": "<details open ontoggle=RUN><summary>x</summary></details>",
    "marquee": "<marquee onstart=RUN>x</marquee>",
    "animation": "<style>@keyframes x{}</style><b style='animation-name:x' onanimationstart=RUN>x</b>",
    "video": "<video poster=URL autoplay onloadstart=RUN><source src=URL onerror=RUN></video>",
    "audio": "<audio src=URL autoplay onerror=RUN></audio>",
    "iframe": "<iframe src=URL></iframe>",
    "iframe-js": "<iframe src='javascript:RUN'></iframe>",
    "srcdoc": '<iframe srcdoc="<script>RUN</script><img src=URL>"></iframe>',
    "object": "<object data=URL></object><embed src=URL><applet code=URL></applet>",
    "form": "<form action=URL id=f><input name=q></form><button form=f formaction='javascript:RUN'>x</button>",
    "form-target": "<form action=URL target=_top><input type=submit value=Confirm></form>",
    "base": "<base href='https://evil.example/base/' target=_top><img src=img.png>",
    "refresh": '<meta http-equiv=refresh content="0;url=URL">',
    "refresh-js": '<meta http-equiv=refresh content="0;url=javascript:RUN">',
    "csp": '<meta http-equiv=Content-Security-Policy content="script-src *; report-uri URL">',
    "link": "<link rel=stylesheet href=URL><link rel=prefetch href=URL><link rel=dns-prefetch href=//evil.example>",
    "css-import": "<style>@import 'URL';@font-face{font-family:x;src:url(URL)}*{font-family:x}</style>",
    "css-url": "<p style='background:url(URL);list-style:url(URL);cursor:url(URL),auto'>x</p>",
    "css-set": "<p style=\"background:image-set('URL' 1x);width:9px\">x</p>",
    "css-escape": "<p style='background:\\75\\72\\6c(URL);border-image:u\\72l(URL)'>x</p>",
    "css-expression": "<p style='width:expression(RUN);behavior:url(URL);-moz-binding:url(URL)'>x</p>",
    "overlay": "<a href=URL style='position:fixed;inset:0;z-index:99999;opacity:0'>x</a>",
    "background": "<table background=URL><tr><td background=URL>x</table>",
    "ping": "<a href='https://shop.example/' ping=URL>x</a><map><area href='javascript:RUN' ping=URL></map>",
    "template": (
        "<template><img src=x onerror=RUN></template><template shadowrootmode=open><script>RUN</script></template>"
    ),
    "clobber": (
        "<a id=app><a id=reader><img name=body id=list><form name=documentElement><input name=attributes></form>"
    ),
    "portal": "<portal src=URL></portal><fencedframe></fencedframe><model src=URL></model>",
    "xml": "<?xml-stylesheet href='javascript:RUN'?><!DOCTYPE x SYSTEM 'URL'><x>&#60;script>RUN</x>",
}

# Payloads that swallow the markup after them, or that are parsed differently when they are parsed again.
MUTANTS = {
    "mxss-noscript": "<noscript><p title='</noscript><img src=x onerror=RUN>'>",
    "mxss-style": "<style><!--</style><img title='--><img src=x onerror=RUN>'>",
    "mxss-textarea": "<textarea><p title='</textarea><img src=x onerror=RUN>'>",
    "mxss-math": "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=RUN&gt;'>",
    "mxss-svg": "<svg></p><style><a id='</style><img src=x onerror=RUN>'>",
    "mxss-form": "<form><math><mtext></form><form><mglyph><style></math><img src=x onerror=RUN>",
    "mxss-select": "<select><template><style><!--</style><a rel='--></template></select><img src=x onerror=RUN>'>",
    "mxss-xmp": "<xmp><p title='</xmp><svg/onload=RUN>'>",
    "mxss-title": "<title><p title='</title><script>RUN</script>'>",
    "mxss-cdata": "<svg><![CDATA[</svg><img src=x onerror=RUN>]]>",
    "mxss-comment": "<!--><img src=x onerror=RUN>--!><script>RUN</script>",
    "mxss-nul": "<scr\0ipt>RUN</scr\0ipt><img \0src=x on\0error=RUN>",
    "plaintext": "<img src=x onerror=RUN><plaintext>",
    "unclosed-quote": '<a title="<img src=x onerror=RUN>',
    "unclosed-tag": "<img src=x onerror=RUN ",
    "utf7": "+ADw-script+AD4-RUN+ADw-/script+AD4-",
    "overlong": "\u00bcscript\u00beRUN\u00bc/script\u00be",
    "polyglot": (
        "javascript:/*--></title></style></textarea></script></xmp><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+RUN//'>"
    ),
    "bogus": "</ onclick=RUN><//script>RUN<! x='><img src=x onerror=RUN>'>",
    "frameset": "<frameset onload=RUN><frame src='javascript:RUN'></frameset>",
    "body": "</body></html><body onload=RUN onpageshow=RUN background=URL>",
}

HREFS = {
    "href-js": "javascript:RUN",
    "href-case": "JaVaScRiPt:RUN",
    "href-spaces": " \x01javascript:RUN",
    "href-tab": "java\tscr\nipt:RUN",
    "href-entity": "&#106;avascript&colon;RUN",
    "href-data": "data:text/html,<script>RUN</script>",
    "href-vbscript": "vbscript:RUN",
    "href-blob": "blob:http://127.0.0.1/RUN",
    "href-file": "file:///etc/passwd",
    "href-view-source": "view-source:javascript:RUN",
    "href-own": "/api/v1/addresses",
    "href-intent": "intent://evil.example#Intent;scheme=javascript;end",
}

# Payloads for places where no markup is expected: subjects, names, addresses, file names, media types, header values,
# plain text.
TEXTS = {
    "text-script": "<script>RUN</script>",
    "text-img": "<img src=x onerror=RUN>",
    "text-attribute": '" onfocus=RUN autofocus tabindex=1 x="',
    "text-single": "' onmouseover=RUN style='position:fixed;inset:0' x='",
    "text-backtick": "`${RUN}`",
    "text-close": "</b></span></button></pre></title></textarea><svg onload=RUN>",
    "text-entity": "&lt;img src=x onerror=RUN&gt;&#60;script&#62;RUN",
    "text-link": "javascript:RUN",
    "text-template": "{{constructor.constructor('RUN')()}}${RUN}#{RUN}{from}{n}",
    "text-replace": "$& $1 $` $' $$ {subject}",
    "text-prototype": "__proto__",
    "text-crlf": "x\r\n\r\n<script>RUN</script>",
    "text-nul": "\0<img src=x onerror=RUN>\0",
    "text-long": "<img src=x onerror=RUN>" * 300,
    "text-emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f3f3\ufe0f\u200d\U0001f308" * 50,
    "text-rtl": "שלום عليكم <img src=x onerror=RUN>",
    "text-zalgo": "Z" + "\u0315\u031b\u0340\u0355" * 200,
    "text-surrogate": "\ufffe\uffff\U0010ffff\u2028<svg onload=RUN>\u2029",
    "text-svg-data": "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='RUN'/>",
    "text-style": "</style><style>*{background:url(URL)}</style>",
}

ALL = HTML | MUTANTS | HREFS | TEXTS
ALARM = "window.canary = (names) => rung(names[0])"
MODES = ["text", "headers", "source"]
UNTOUCHED = {"html": [], "text": [], "headers": [], "source": [], "preview": []}


def armed(name):
    return ALL[name].replace("RUN", f"canary`{name}`").replace("URL", f"https://evil.example/{name}")


def paired(names):
    """Return the names in pairs; the last pair may contain only one name."""
    return [names[first : first + 2] for first in range(0, len(names), 2)]


def encoded(text):
    words = (b64encode(text[start : start + 10].encode()).decode() for start in range(0, len(text), 10))
    return "\r\n ".join(f"=?utf-8?B?{word}?=" for word in words)


def mail(closed, mutant, href, text):
    """Return a message with payloads in every place.

    ``mutant`` may swallow the markup after it, and ``text`` is plain text.
    """
    said, inert = armed(text), re.sub(r'[^!-~]|["\\]', " ", armed(text)[:200])
    html = f"<p>A mail</p><a href='{armed(href)}'>Confirm your address</a>{''.join(map(armed, closed))}{armed(mutant)}"
    return (
        f'From: {encoded(said)} <"{inert}"@evil.example>\r\nSubject: {encoded(said)}\r\n'
        f"X-Hostile: {inert}\r\nX-Encoded: {encoded(said[:300])}\r\nMessage-ID: <{inert}>\r\nMIME-Version: 1.0\r\n"
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n"
        f"--c\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nYour code is 482913 {folded(said)}\r\n"
        f"--c\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--c--\r\n"
        f"--b\r\nContent-Type: image/svg+xml; name*=utf-8''{quote(said[:300])}\r\nContent-ID: <{inert}>\r\n"
        f"Content-Disposition: attachment; filename*=utf-8''{quote(said[:300])}\r\n\r\n<svg onload='canary`svg-file`'/>\r\n"
        f'--b\r\nContent-Type: {inert}; x="{inert}"\r\nContent-Disposition: attachment; filename="{inert}"\r\n\r\n{folded(said)}\r\n'
        "--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: attachment; filename=previewed.txt\r\n\r\n"
        f"{folded(said)}\r\n--b--\r\n"
    ).encode("utf-8", "replace")


def folded(text):
    return "\r\n".join(text[start : start + 900] for start in range(0, len(text), 900))


class Inbox:
    """The page with its own inbox, and a record of the alarms raised by a message's forbidden actions."""

    def __init__(self, page, daemon, inbox):
        self.page = page
        self.daemon = daemon
        self.inbox = inbox
        self.alarms = []

        self.is_open = False

    async def visit(self, keep):
        self.page.inbox = self
        await keep(self.page, self.daemon, self.inbox)
        await self.page.goto(self.daemon.url)
        await self.page.locator(".live").wait_for()
        self.is_open = True

    def on_request(self, request):
        if not request.url.startswith(f"{self.daemon.url}/"):
            self.alarms.append(f"asked for {request.url}")

    def on_navigation(self, frame):
        if frame == self.page.main_frame and self.is_open:
            self.alarms.append(f"went to {frame.url}")

    async def on_dialog(self, dialog):
        self.alarms.append(f"said {dialog.message}")
        await dialog.dismiss()

    async def read(self, row, modes=MODES):
        return await self.page.evaluate(SCRIPTS["READ"], [row, modes])


async def arm(page):
    """Report each forbidden action of a message to the open inbox."""

    def tell(name):
        def tell_it(thing):
            return getattr(page.inbox, name)(thing)

        return tell_it

    context = page.context
    await context.expose_binding("rung", lambda _source, name: page.inbox.alarms.append(f"ran {name}"))
    await context.add_init_script(ALARM)
    context.on("page", lambda _: page.inbox.alarms.append("a new window"))
    context.on("request", tell("on_request"))
    page.on("dialog", tell("on_dialog"))
    page.on("framenavigated", tell("on_navigation"))
    return page


@pytest.fixture(scope="module")
async def guarded_page(shared_pages):
    return await arm(await shared_pages.open())


@pytest.fixture
async def open_inbox(daemon, guarded_page, shared_pages, keep):
    """Return a function that opens an inbox with these messages."""

    async def start(*mails):
        one = Inbox(guarded_page, daemon, daemon.create())
        if mails:
            daemon.deliver_raw(one.inbox.address, *mails, sender="mallory@evil.example")
        await one.visit(keep)
        if mails:
            await one.page.locator("#list > li").nth(len(mails) - 1).wait_for()
        return one

    yield start
    guarded_page.inbox.is_open = False
    await shared_pages.clear(guarded_page)
    assert shared_pages._complaints == []


async def test_no_part_of_a_hostile_message_runs_loads_or_becomes_markup_of_the_page(open_inbox):
    names = [
        (closed, mutant or "plaintext", href or "href-js", text or "text-img")
        for closed, mutant, href, text in zip_longest(paired(list(HTML)), MUTANTS, HREFS, TEXTS)
    ]
    inbox = await open_inbox(*(mail(*each) for each in names))
    for row, each in enumerate(reversed(names)):
        assert (each, await inbox.read(row), inbox.alarms) == (each, UNTOUCHED, [])
    await inbox.page.wait_for_timeout(300)  # wait for delayed effects, such as a refresh
    assert inbox.alarms == []
    assert await inbox.page.title() == "tmpmaild"


async def test_the_alarm_is_raised_in_a_page_where_payloads_may_run(open_inbox):
    inbox = await open_inbox(mail(["script"], "plaintext", "href-js", "text-img"))
    await inbox.page.context.route("https://evil.example/**", lambda route: route.abort())
    other = await inbox.page.context.new_page()
    await other.set_content(armed("img-onerror") + armed("iframe") + armed("svg-onload"))
    await other.evaluate("document.body.append(document.createElement('p'))")
    assert {"ran img-onerror", "ran svg-onload", "asked for https://evil.example/iframe"} <= set(inbox.alarms)
    await inbox.page.evaluate("document.querySelector('#list').append(document.createElement('form'))")
    assert (await inbox.read(0))["text"] == ["<form></form>"]


async def test_the_frame_contains_even_unsanitised_payloads(daemon, browser, keep):
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    await context.route("https://evil.example/**", lambda route: route.abort())
    inbox = Inbox(await arm(await context.new_page()), daemon, daemon.create())
    daemon.deliver(inbox.inbox.address, html="<p>Hello</p>")
    await inbox.visit(keep)
    served = {}
    await context.route("**/view/*", lambda route: route.fulfill(content_type="text/html; charset=utf-8", **served))
    # Each payload that swallows the markup after it gets its own document, which is also sandboxed.
    documents = [f"<iframe srcdoc='{escape(armed(name))}'></iframe>" for name in MUTANTS]
    for payloads in (map(armed, HTML), documents):
        served["body"] = f"<!doctype html>{''.join(payloads)}"
        assert await inbox.read(0, modes=[]) == {"html": []}
        assert [alarm for alarm in inbox.alarms if not alarm.startswith("asked for")] == []
    assert len(inbox.page.frames) > len(MUTANTS)
    await context.close()


HIDING = "\u061c\u200b\u200e\u200f\u202a\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\0\x1b"


async def test_characters_that_hide_or_reverse_text_are_not_shown_next_to_the_pages_text(open_inbox):
    said = f"invoice{HIDING}fdp.exe"
    inbox = await open_inbox(
        f"From: {encoded(said)} <mallory@evil.example>\r\nSubject: {encoded(said)}\r\n"
        f"Content-Type: application/pdf; name*=utf-8''{quote(said)}\r\n"
        f"Content-Disposition: attachment; filename*=utf-8''{quote(said)}\r\n\r\nx\r\n".encode()
    )
    await inbox.page.locator(".attachments b").wait_for()
    shown = await inbox.page.locator("#list [dir], #reader [dir]").all_text_contents()
    assert [text for text in shown if set(text) & set(HIDING)] == []
    async with inbox.page.expect_download() as saved:
        await inbox.page.locator(".attachments button").click()
    name = (await saved.value).suggested_filename
    assert (await inbox.page.locator(".attachments b").text_content()).startswith(name)


# A link's URL and text, the displayed host, and whether a warning names the other host.
LINKS = {
    "plain": ("https://shop.example/confirm", "Confirm your address", "shop.example", False),
    "same site": ("https://click.shop.example/confirm", "https://shop.example/confirm", "click.shop.example", False),
    "another host": ("https://evil.example/confirm", "https://shop.example/confirm", "evil.example", True),
    "host among words": ("https://evil.example/confirm", "Confirm at shop.example now", "evil.example", True),
    "host with a full stop": ("https://evil.example/confirm", "Confirm at https://shop.example.", "evil.example", True),
    "host in brackets": ("https://evil.example/confirm", "Confirm (shop.example)", "evil.example", True),
    "user name": ("https://shop.example@evil.example/confirm", "Confirm your address", "evil.example", False),
    "user name and text": (
        "https://shop.example:x@evil.example/confirm",
        "Confirm at shop.example",
        "evil.example",
        True,
    ),
    "backslash": (
        "https://evil.example\\@shop.example/confirm",
        "Confirm at https://shop.example",
        "evil.example",
        True,
    ),
    "homograph": ("https://\u0430pple.example/confirm", "https://apple.example/confirm", "xn--pple-43d.example", True),
    "host as a subdomain": (
        "https://shop.example.evil.example/confirm",
        "Confirm at https://shop.example",
        "shop.example.evil.example",
        True,
    ),
    "turned around": ("https://evil.example/confirm", "Confirm \u202ehttps://shop.example\u202c", "evil.example", True),
    "hidden in the host": ("https://evil.example/confirm", "Confirm sh\u00adop.ex\u200bample", "evil.example", True),
}


async def test_a_link_shows_its_target_host_and_warns_if_its_text_names_a_different_host(open_inbox):
    def with_link(href, text):
        html = f"<p>Please confirm your e-mail address: <a href='{href}'>{text}</a></p>"
        return f"Subject: Confirm\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n".encode()

    inbox = await open_inbox(*(with_link(href, text) for href, text, *_ in LINKS.values()))
    shown = {}
    for row, name in enumerate(reversed(LINKS)):
        await inbox.page.locator("#list .open").nth(row).click()
        said = "".join(await inbox.page.locator("#reader .found .link a").all_text_contents())
        shown[name] = (said.removeprefix("Open "), await inbox.page.locator("#reader .found .warning").count() == 1)
    assert shown == {name: (host, warns) for name, (*_, host, warns) in reversed(LINKS.items())}


async def test_the_copied_code_is_the_shown_code_without_hidden_characters(open_inbox):
    inbox = await open_inbox("Subject: x\r\n\r\nYour verification code: 48\u200b29\u202e13\r\n".encode())
    await inbox.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    await inbox.page.locator("#reader .code button").click()
    assert await inbox.page.locator("#reader .code b").text_content() == "482913"
    assert await inbox.page.evaluate("window.copied") == "482913"
