"""Takes screenshots (1280 by 800) for the extension stores, in ``clients/browser/store/`` or in a given folder.

python tests/support/extensionpictures.py [FOLDER]
"""

import base64
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import daemons
import extensions
from extensions import Chromium, until
from signupsite import SignUpSite

STORE = Path(__file__).parents[2] / "clients/browser/store"
WIDE = {"width": 1280, "height": 800}
PAGE = Path(__file__).with_name("extensionpictures-page.html").read_text()


def shot(browser, scheme):
    """Return a screenshot of the popup, in light or dark mode."""
    popup = browser.target("/popup.html")
    browser.send(popup, "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.tab.wait_for_timeout(700)
    return base64.b64decode(browser.send(popup, "Page.captureScreenshot")["data"])


def sign_ups(browser, site):
    """Sign up at three sites; leave the popup open on the last site."""
    site.pages["/"] = PAGE
    for host, said in (
        ("harbour.example", ""),
        ("tide.example", "Read it: https://other.example/48/confirm?token=8c1d92ab\n"),
    ):
        browser.open(site.url("/", host))
        browser.fill_address()
        if said:
            address = browser.page("document.querySelector('[type=email]').value")
            site.mail(address, f"Confirm your subscription.\n{said}", "Confirm your subscription", sender="Tide")
    browser.open(site.url("/", "orchard.example"))
    browser.fill_address()
    address = browser.page("document.querySelector('[type=email]').value")
    text = "Your code is 481516.\n\nOr confirm your address: https://orchard.example/confirm?token=9f2c81d07ab34e65\n"
    site.mail(address, text, sender="Orchard")
    browser.press_button()
    browser.says("481516")


def take(browser, folder, pictures):
    """Take screenshots in which each picture of the popup is placed over the page, as in the browser."""
    page = browser.context.new_page()
    page.set_viewport_size(WIDE)
    for name, octets in pictures.items():
        page.emulate_media(color_scheme="dark" if "dark" in name else "light")
        data = base64.b64encode(octets).decode()
        page.set_content(f"{PAGE}<img src='data:image/png;base64,{data}'>")
        page.evaluate("document.querySelector('[type=email]').value = 'k7m3wq9xt2ab@tmp.example.org'")
        page.screenshot(path=folder / f"{name}.png")
    page.goto(f"chrome-extension://{browser.id}/options.html")
    page.locator("#service").fill("https://tmp.example.org/")
    for name, scheme in (("3-settings", "light"), ("4-settings-dark", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(
            "result.className = 'good'; result.textContent = 'Connected to tmp.example.org. The button in the toolbar fills in addresses.'"
        )
        page.screenshot(path=folder / f"{name}.png")


def main(folder=STORE):
    folder = Path(folder)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        daemon = daemons.Daemon(
            place,
            **daemons.NO_LIMITS,
            TMPMAILD_DOMAINS="tmp.example.org",
            TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS="86400",
        )
        site = SignUpSite(daemon.smtp_port)
        extension = extensions.unpacked(Path(place, "unpacked"), host_permissions=["http://127.0.0.1/*"])
        browser = Chromium(playwright, extension)
        until(lambda: browser.connect(daemon.url).startswith("Connected"))
        sign_ups(browser, site)
        take(browser, folder, {"1-popup": shot(browser, "light"), "2-popup-dark": shot(browser, "dark")})
        browser.close()
        site.close()
        daemon.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
