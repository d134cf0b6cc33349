"""Makes the pictures of README.md anew: a daemon, mail by SMTP, and Chromium. Run by ``make screenshots``."""

import asyncio
import json
import os
import re
import shutil
import smtplib
import subprocess
import sys
import tempfile
import urllib.request
from email.message import EmailMessage
from pathlib import Path

from playwright.async_api import async_playwright

FOLDER = Path(__file__).parents[2] / "docs/screenshots"
SETTINGS = {
    "TMPMAILD_DOMAINS": "tmp.example.org",
    "TMPMAILD_HTTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
}
WELCOME = """<div style="font: 16px/1.5 sans-serif; max-width: 32rem; margin: 1rem auto; color: #1d2a3a">
<h1 style="color: #2f5bd0">Welcome to Orchard</h1><p>Hello! Type this code to confirm your e-mail address:</p>
<p style="font-size: 30px; letter-spacing: 5px"><b>481 516</b></p>
<p>or <a href="https://orchard.example/confirm?token=9f2c81d07ab34e65">confirm your address</a> with one click.</p>
<p style="color: #6b7a8c">Not you? Then ignore this mail.</p><img src="https://orchard.example/open.gif"></div>"""
MAILS = [
    ("Nordlicht Bahn <tickets@bahn.example>", "Your ticket to Bergen", "Have a good journey.\n", "", ["ticket.pdf"]),
    ("Tide Weekly <letters@tide.example>", "Slow news for a long weekend", "Three long reads.\n", "", []),
    ("Ada from Lumen <ada@lumen.example>", "Re: the proof you asked for", "It holds, see below.\n", "", []),
    ("Orchard <no-reply@orchard.example>", "Confirm your e-mail address", "Your code is 481 516.\n", WELCOME, []),
]
WIDE = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}
PICTURES = {"light": WIDE, "dark": {**WIDE, "color_scheme": "dark"}, "phone": PHONE}


def start(folder):
    """Start a daemon and return it with its ports."""
    command = [sys.executable, "-m", "tmpmaild", "serve"]
    daemon = subprocess.Popen(command, cwd=folder, env=os.environ | SETTINGS, stdout=subprocess.PIPE, text=True)
    banner = "".join(daemon.stdout.readline() for _ in range(4))
    return daemon, *map(int, re.findall(r"127\.0\.0\.1:(\d+)\n", banner)[:2])


def create(origin):
    body = json.dumps({"local_part": "k7m3wq9xt2ab"}).encode()
    request = urllib.request.Request(f"{origin}/api/v1/addresses", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def deliver(port, recipient, mail):
    sender, subject, text, html, files = mail
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, recipient, subject
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    for name in files:
        message.add_attachment(b"%PDF-1.7\n" * 4000, maintype="application", subtype="pdf", filename=name)
    with smtplib.SMTP("127.0.0.1", port) as connection:
        connection.send_message(message, "bounces@example.com", [recipient])


async def take(browser, url, name, options):
    context = await browser.new_context(**options)
    page = await context.new_page()
    await page.goto(url)
    mail = page.get_by_role("button", name="Orchard", exact=False)
    await mail.wait_for()
    if options is not PHONE:
        await mail.click()
        await page.frame_locator("iframe").get_by_text("Not you?").wait_for()
    await page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
    await context.close()


async def main():
    with tempfile.TemporaryDirectory() as folder:
        daemon, http_port, smtp_port = start(folder)
        try:
            origin = f"http://127.0.0.1:{http_port}"
            inbox = create(origin)
            for mail in MAILS:
                deliver(smtp_port, inbox["address"], mail)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                for name, options in PICTURES.items():
                    await take(browser, f"{origin}/#{inbox['address']}.{inbox['token']}", name, options)
        finally:
            daemon.terminate()
            daemon.wait()


asyncio.run(main())
