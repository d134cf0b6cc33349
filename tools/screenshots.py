"""Takes the screenshots in docs/screenshots, using daemons, mail sent over SMTP, and Chromium. Requires a good font."""

import asyncio
import json
import os
import re
import shutil
import smtplib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from email.message import EmailMessage
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from playwright.async_api import Browser, Page, async_playwright

from tmpmaild.pytest_plugin.zones import Zones

FOLDER: Final = Path(__file__).parents[1] / "docs/screenshots"
HERE: Final = Path(__file__).parent
SETTINGS: Final = {
    "TMPMAILD_DOMAINS": "tmp.example.org",
    "TMPMAILD_HTTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS": "86400",
}
NO_LIMIT: Final = {"TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0"}
ZONE = "".join(  # DNS records for the domains of verified senders
    f'{domain}.example. 60 IN TXT "v=spf1 ip4:127.0.0.1 -all"\n'
    f'_dmarc.{domain}.example. 60 IN TXT "v=DMARC1; p=reject"\n'
    for domain in ("bahn", "harbour", "orchard", "tide")
)
WELCOME = (HERE / "screenshots-welcome.html").read_text("utf-8")
NEWSLETTER = (HERE / "screenshots-newsletter.html").read_text("utf-8")


class Mail(Struct, frozen=True):
    """A message to send."""

    sender: str
    subject: str
    text: str
    html: str = ""
    file: str = ""


TICKET = Mail(
    "Nordlicht Bahn <tickets@bahn.example>", "Your ticket to Bergen", "Have a good journey.\n", file="ticket.pdf"
)
LETTER = Mail(
    "Tide Weekly <letters@tide.example>",
    "Slow news for a long weekend",
    "Three reads that take longer than a coffee.\n",
    NEWSLETTER,
)
PROOF = Mail("Ada from Lumen <ada@lumen.example>", "Re: the proof you asked for", "It holds, see below.\n")
CODE = Mail("Orchard <no-reply@orchard.example>", "Confirm your e-mail address", "Your code is 481 516.\n", WELCOME)
OTHER_CODE = Mail("Harbour Bank <no-reply@harbour.example>", "Sign in", "Your sign-in code is 730418.\n")

WIDE: Final[Mapping[str, Any]] = {"viewport": {"width": 1280, "height": 800}}
WIDEST: Final[Mapping[str, Any]] = {"viewport": {"width": 1920, "height": 1080}}
DARK: Final[Mapping[str, Any]] = {**WIDE, "color_scheme": "dark"}
PHONE: Final[Mapping[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}
DARK_PHONE: Final[Mapping[str, Any]] = {**PHONE, "color_scheme": "dark"}


class Service:
    """A daemon, its API and its SMTP port."""

    def __init__(self, folder: str, settings: dict[str, str], command: str) -> None:
        command_line = [sys.executable, "-m", "tmpmaild", command]
        environment = os.environ | SETTINGS | settings
        self.process = subprocess.Popen(  # noqa: S603 - ours
            command_line, cwd=folder, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self.process.stdout is not None
        banner = ""
        while "/messages" not in banner:
            banner += self.process.stdout.readline()
        self.http_port, self.smtp_port = (
            int(re.search(rf"{protocol}\D*127\.0\.0\.1:(\d+)", banner, re.IGNORECASE)[1])  # type: ignore[index]
            for protocol in ("HTTP", "SMTP")
        )
        self.url = f"http://127.0.0.1:{self.http_port}"

    def create(self, name: str) -> dict[str, Any]:
        """Return a new address."""
        body = json.dumps({"local_part": name}).encode()
        connection = HTTPConnection("127.0.0.1", self.http_port)
        connection.request("POST", "/api/v1/addresses", body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            created: dict[str, Any] = json.load(answer)
        return created

    def deliver(self, recipients: str, *mails: Mail) -> None:
        """Send messages; with several recipients, the To field contains only the first."""
        everybody = recipients.split(", ")
        for mail in mails:
            message = EmailMessage()
            message["From"], message["To"], message["Subject"] = mail.sender, everybody[0], mail.subject
            message.set_content(mail.text)
            if mail.html:
                message.add_alternative(mail.html, subtype="html")
            if mail.file:
                message.add_attachment(b"%PDF-1.7\n" * 4000, maintype="application", subtype="pdf", filename=mail.file)
            with smtplib.SMTP("127.0.0.1", self.smtp_port) as connection:
                connection.send_message(message, f"bounces@{message['From'].addresses[0].domain}", everybody)

    def stop(self) -> None:
        """Stop the daemon."""
        self.process.terminate()
        self.process.wait()


@contextmanager
def service(command: str = "serve", **settings: str) -> Iterator[Service]:
    """Run a daemon."""
    with tempfile.TemporaryDirectory() as folder:
        running = Service(folder, settings, command)
        try:
            yield running
        finally:
            running.stop()


class Studio:
    """Opens pages in one browser and takes screenshots."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @asynccontextmanager
    async def page(
        self, url: str, options: Mapping[str, Any], inboxes: Sequence[dict[str, Any]] = ()
    ) -> AsyncIterator[Page]:
        """Open the page as if the browser had created these inboxes and last shown the final inbox."""
        context = await self._browser.new_context(**options)
        page = await context.new_page()
        await page.goto(f"{url}/api/v1/openapi.json")
        kept = [{"seen": [], **inbox} for inbox in inboxes]
        if kept:
            await page.evaluate("kept => localStorage['tmpmaild:/'] = JSON.stringify(kept)", kept)
            await page.evaluate("address => localStorage['tmpmaild:/:current'] = address", kept[-1]["address"])
        await page.goto(url)
        yield page
        await context.close()

    async def take(self, page: Page, name: str) -> None:
        """Take a screenshot once all animations have finished."""
        await page.evaluate("document.fonts.ready")
        await page.wait_for_timeout(400)
        await page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")


async def open_mail(page: Page, subject: str, text: str) -> None:
    """Open a message and wait until it is rendered."""
    await page.locator("#list .open", has_text=subject).click()
    await page.frame_locator("iframe").get_by_text(text).first.wait_for()
    await page.get_by_text(re.compile("^Sender verified:")).filter(visible=True).first.wait_for()


async def take_mail(studio: Studio, running: Service) -> None:
    """Take screenshots of the inbox with an open message."""
    inbox = running.create("k7m3wq9xt2ab")
    running.deliver(inbox["address"], TICKET, LETTER, PROOF, CODE)
    for name, options in {"light": WIDE, "dark": DARK}.items():
        async with studio.page(running.url, options, [inbox]) as page:
            await open_mail(page, CODE.subject, "Not you?")
            await studio.take(page, name)
            await open_mail(page, LETTER.subject, "The harbour")
            await studio.take(page, f"{name}-newsletter")
    for name, options in {"phone": PHONE, "phone-dark": DARK_PHONE}.items():
        async with studio.page(running.url, options, [inbox]) as page:
            await page.locator("#list .open").nth(3).wait_for()
            await studio.take(page, name)
            await open_mail(page, LETTER.subject, "The harbour")
            await studio.take(page, f"{name}-newsletter")


async def take_inboxes(studio: Studio, running: Service) -> None:
    """Take screenshots of several inboxes, one of which receives a code."""
    inboxes = [running.create(name) for name in ("harbour", "lumen", "orchard")]
    running.deliver(inboxes[2]["address"], TICKET, CODE)
    running.deliver(inboxes[1]["address"], PROOF)
    async with studio.page(running.url, WIDE, inboxes) as page:
        await page.locator("#list .open").nth(1).wait_for()
        await page.locator("#state.live").wait_for()
        running.deliver(inboxes[0]["address"], OTHER_CODE)
        await page.locator(".inbox.new", has_text="730418").wait_for()
        await open_mail(page, CODE.subject, "Not you?")
        await studio.take(page, "inboxes")
        await page.set_viewport_size(WIDEST["viewport"])
        await studio.take(page, "columns")


async def take_first_visits(studio: Studio, running: Service) -> None:
    """Take screenshots of an empty inbox."""
    for name, options in {"first-visit": WIDE, "phone-first-visit": PHONE}.items():
        async with studio.page(running.url, options) as page:
            await page.locator("#state.live").wait_for()
            await page.wait_for_timeout(500)
            await studio.take(page, name)


async def take_troubles(studio: Studio) -> None:
    """Take screenshots of a page that cannot create an address, and a page that has lost its connection."""
    with service(TMPMAILD_RATE_LIMIT__BURST="1") as running:
        running.create("somebody")
        async with studio.page(running.url, PHONE) as page:
            await page.locator("#card.trouble").wait_for()
            await studio.take(page, "phone-limited")
    with service(**NO_LIMIT) as running:
        inbox = running.create("k7m3wq9xt2ab")
        running.deliver(inbox["address"], PROOF, CODE)
        async with studio.page(running.url, PHONE, [inbox]) as page:
            await page.locator("#list .open").nth(1).wait_for()
            running.stop()
            await page.locator("#state.lost").wait_for()
            await studio.take(page, "phone-lost")


async def take_catcher(studio: Studio) -> None:
    """Take screenshots of the page for all messages."""
    with service("catch") as running:
        running.deliver("sam@orchard.example, archive@orchard.example", TICKET)
        for name in ("kim", "noor", "ola", "pia", "rui", "uma"):
            running.deliver(f"{name}@orchard.example", OTHER_CODE)
        running.deliver("editors@tide.example", LETTER)
        running.deliver("ada@lumen.example, sam@orchard.example", PROOF)
        running.deliver("sam+test@orchard.example, support@orchard.example, archive@orchard.example", CODE)
        for name, options in {"catcher": WIDEST, "phone-catcher": PHONE}.items():
            async with studio.page(running.url, options) as page:
                await page.locator("#state.live").wait_for()
                if options is WIDEST:
                    await page.locator("#list .open", has_text=CODE.subject).click()
                    await page.frame_locator("iframe").get_by_text("Not you?").first.wait_for()
                    await page.locator(".addressees summary").click()
                    await page.locator(".blind").first.wait_for()
                await studio.take(page, name)


async def main() -> None:
    """Take all screenshots."""
    async with async_playwright() as playwright:
        executable = shutil.which("chromium")
        studio = Studio(await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"]))
        with Zones(ZONE) as zones, service(**NO_LIMIT, TMPMAILD_SENDERS__RESOLVER=zones.place) as running:
            await take_mail(studio, running)
            await take_first_visits(studio, running)
            await take_inboxes(studio, running)
        await take_troubles(studio)
        await take_catcher(studio)


if __name__ == "__main__":
    asyncio.run(main())
