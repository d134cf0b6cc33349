from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from api import create_app


@pytest.fixture
async def shop(tmpmail_smtp):
    transport = httpx.ASGITransport(create_app(*tmpmail_smtp))
    async with httpx.AsyncClient(transport=transport, base_url="https://shop.example") as client:
        yield client


@pytest.mark.anyio
async def test_the_link_in_the_message_verifies_the_address(shop, async_inbox):
    user = {"email": async_inbox.address, "password": "correct horse battery"}
    assert (await shop.post("/register", json=user)).status_code == 201

    link = await async_inbox.wait_for_link(url="/verify", timeout=10)
    (token,) = parse_qs(urlsplit(link).query)["token"]
    verified = await shop.post("/verify", json={"token": token})
    assert verified.json()["is_verified"]


@pytest.fixture
def anyio_backend():
    return "asyncio"
