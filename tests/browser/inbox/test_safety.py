"""Hostile mail in the inbox: it comes by SMTP and is opened in every form; nothing of it runs, loads, or becomes markup."""

import re
from base64 import b64encode
from html import escape
from itertools import zip_longest
from urllib.parse import quote

import pytest

from scripts import scripts_of
from tables import rows_of

SCRIPTS = scripts_of(__file__)

ROWS = rows_of(__file__)
HTML, MUTANTS, HREFS, TEXTS = (dict(ROWS[name]) for name in ("HTML", "MUTANTS", "HREFS", "TEXTS"))
ALL = HTML | MUTANTS | HREFS | TEXTS
ALARM = "window.canary = (names) => rung(names[0])"
MODES = ["text", "headers", "source"]
UNTOUCHED = {"html": [], "text": [], "headers": [], "source": [], "preview": []}


def armed(name):
    return ALL[name].replace("RUN", f"canary`{name}`").replace("URL", f"https://evil.example/{name}")


def paired(names):
    """Return them in pairs, of which the last may be one alone."""
    return [names[first : first + 2] for first in range(0, len(names), 2)]


def encoded(text):
    words = (b64encode(text[start : start + 10].encode()).decode() for start in range(0, len(text), 10))
    return "\r\n ".join(f"=?utf-8?B?{word}?=" for word in words)


def mail(closed, mutant, href, text):
    """Return a mail with payloads at each place: ``mutant`` may swallow what follows, ``text`` is at all that are no HTML."""
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
    """The page on an inbox of its own, with an alarm for whatever a mail must not do."""

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
    """Report to the open inbox whatever a mail must not do."""

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
    """Return a function that opens an inbox with these mails."""

    async def start(*mails):
        one = Inbox(guarded_page, daemon, daemon.create())
        if mails:
            daemon.deliver_octets(one.inbox.address, *mails, sender="mallory@evil.example")
        await one.visit(keep)
        if mails:
            await one.page.locator("#list > li").nth(len(mails) - 1).wait_for()
        return one

    yield start
    guarded_page.inbox.is_open = False
    await shared_pages.clear(guarded_page)
    assert shared_pages._complaints == []


async def test_nothing_of_a_hostile_mail_runs_or_loads_or_becomes_markup_of_the_page(open_inbox):
    names = [
        (closed, mutant or "plaintext", href or "href-js", text or "text-img")
        for closed, mutant, href, text in zip_longest(paired(list(HTML)), MUTANTS, HREFS, TEXTS)
    ]
    inbox = await open_inbox(*(mail(*each) for each in names))
    for row, each in enumerate(reversed(names)):
        assert (each, await inbox.read(row), inbox.alarms) == (each, UNTOUCHED, [])
    await inbox.page.wait_for_timeout(300)  # what would come late, such as a refresh
    assert inbox.alarms == []
    assert await inbox.page.title() == "tmpmaild"


async def test_the_alarm_rings_for_a_page_where_payloads_may_run(open_inbox):
    inbox = await open_inbox(mail(["script"], "plaintext", "href-js", "text-img"))
    await inbox.page.context.route("https://evil.example/**", lambda route: route.abort())
    other = await inbox.page.context.new_page()
    await other.set_content(armed("img-onerror") + armed("iframe") + armed("svg-onload"))
    await other.evaluate("document.body.append(document.createElement('p'))")
    assert {"ran img-onerror", "ran svg-onload", "asked for https://evil.example/iframe"} <= set(inbox.alarms)
    await inbox.page.evaluate("document.querySelector('#list').append(document.createElement('form'))")
    assert (await inbox.read(0))["text"] == ["<form></form>"]


async def test_the_frame_holds_even_what_no_sanitiser_has_seen(daemon, browser, keep):
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    await context.route("https://evil.example/**", lambda route: route.abort())
    inbox = Inbox(await arm(await context.new_page()), daemon, daemon.create())
    daemon.deliver(inbox.inbox.address, html="<p>Hello</p>")
    await inbox.visit(keep)
    served = {}
    await context.route("**/view/*", lambda route: route.fulfill(content_type="text/html; charset=utf-8", **served))
    # What swallows the rest is in a document of its own, which the sandbox holds too.
    documents = [f"<iframe srcdoc='{escape(armed(name))}'></iframe>" for name in MUTANTS]
    for payloads in (map(armed, HTML), documents):
        served["body"] = f"<!doctype html>{''.join(payloads)}"
        assert await inbox.read(0, modes=[]) == {"html": []}
        assert [alarm for alarm in inbox.alarms if not alarm.startswith("asked for")] == []
    assert len(inbox.page.frames) > len(MUTANTS)
    await context.close()


HIDING = "\u061c\u200b\u200e\u200f\u202a\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\0\x1b"


async def test_characters_that_hide_or_turn_text_around_are_not_shown_beside_ours(open_inbox):
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


LINKS = dict(ROWS["LINKS"])


async def test_a_link_shows_the_host_that_it_leads_to_and_warns_of_another_in_its_text(open_inbox):
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


async def test_what_is_copied_is_the_code_that_is_shown_without_hidden_characters(open_inbox):
    inbox = await open_inbox("Subject: x\r\n\r\nYour verification code: 48\u200b29\u202e13\r\n".encode())
    await inbox.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    await inbox.page.locator("#reader .code button").click()
    assert await inbox.page.locator("#reader .code b").text_content() == "482913"
    assert await inbox.page.evaluate("window.copied") == "482913"
