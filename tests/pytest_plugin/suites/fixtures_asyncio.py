import asyncio
import smtplib

import pytest

ADDRESS = "never.created@mail.example.com"


async def test_it(async_inbox, tmpmail, tmpmail_smtp):
    assert await async_inbox.messages() == []
    found = asyncio.create_task(asyncio.to_thread(tmpmail.inbox, ADDRESS, timeout=30))
    await asyncio.sleep(0)
    with smtplib.SMTP(*tmpmail_smtp, local_hostname="localhost") as client:
        client.sendmail("a@example.com", [ADDRESS], "Subject: hello\r\n\r\n")
    inbox = await found
    assert (await asyncio.to_thread(inbox.wait_for, timeout=10)).subject == "hello"


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_chosen_name_is_free_when_its_test_has_ended(new_inbox, time):
    assert new_inbox("chosen.name").address == "chosen.name@mail.example.com"
