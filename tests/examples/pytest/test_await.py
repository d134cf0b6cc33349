from email.message import EmailMessage

import aiosmtplib
import pytest


async def sign_up(address, smtp):
    """Stand in for your application, which sends the mail."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "The Shop <shop@shop.example>", address, "Welcome to the shop"
    mail.set_content("Your verification code is 481516.\n")
    await aiosmtplib.send(mail, hostname=smtp.host, port=smtp.port, local_hostname="shop.example")


@pytest.mark.anyio
async def test_the_welcome_mail_brings_a_code(async_inbox, tmpmail_smtp):
    await sign_up(async_inbox.address, tmpmail_smtp)
    assert await async_inbox.wait_for_code(subject="welcome", timeout=10) == "481516"


@pytest.fixture
def anyio_backend():
    return "asyncio"
