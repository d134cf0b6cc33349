import aiosmtplib
import pytest

MAIL = "Subject: Welcome\r\n\r\nYour code is 481516.\r\n"


@pytest.mark.anyio
async def test_the_welcome_message_contains_a_code(async_inbox, tmpmail_smtp):
    host, port = tmpmail_smtp  # your application does this:
    await aiosmtplib.send(MAIL, sender="a@shop.example", recipients=[async_inbox.address], hostname=host, port=port)
    assert await async_inbox.wait_for_code(subject="welcome", timeout=10) == "481516"


@pytest.fixture
def anyio_backend():
    return "asyncio"
