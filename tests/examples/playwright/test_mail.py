import shutil
import smtplib
from email.message import EmailMessage

import pytest
from playwright.async_api import async_playwright, expect


def send_welcome(address, smtp):
    """Stand in for your application."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", address, "Welcome"
    mail.set_content('<h1>Welcome!</h1><a href="http://127.0.0.1:9/start">Start here</a>', subtype="html")
    with smtplib.SMTP(*smtp, local_hostname="shop.example") as server:
        server.send_message(mail)


@pytest.mark.anyio
async def test_the_welcome_mail_looks_right_and_its_link_opens_a_page(async_inbox, tmpmail_smtp):
    send_welcome(async_inbox.address, tmpmail_smtp)
    mail = await async_inbox.wait_for(subject="welcome", timeout=10)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await mail.open(page)
        await expect(page.get_by_role("heading", name="Welcome!")).to_be_visible()
        async with page.expect_popup():
            await page.get_by_role("link", name="Start here").click()
        await browser.close()


@pytest.fixture
def anyio_backend():
    return "asyncio"
