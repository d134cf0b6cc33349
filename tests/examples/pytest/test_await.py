import aiosmtplib
import pytest


@pytest.mark.anyio
async def test_the_welcome_mail_brings_a_code(async_inbox, tmpmail_smtp):
    mail = f"To: {async_inbox.address}\r\nFrom: shop@shop.example\r\nSubject: Welcome\r\n\r\nYour code is 481516.\r\n"
    await aiosmtplib.send(mail, hostname=tmpmail_smtp.host, port=tmpmail_smtp.port)  # your application does this
    assert await async_inbox.wait_for_code(subject="welcome", timeout=10) == "481516"


@pytest.fixture
def anyio_backend():
    return "asyncio"
