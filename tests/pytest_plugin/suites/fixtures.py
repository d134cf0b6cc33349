import inspect
import smtplib

import pytest

from tmpmaild.client import AddressExpired, AsyncInbox, Client, Inbox, Webhook, WebhooksOff

seen = []


def send(smtp, recipient, text="Your code is 481516."):
    with smtplib.SMTP(*smtp, local_hostname="localhost") as client:
        client.sendmail("shop@shop.example", [recipient], f"Subject: Welcome\r\n\r\n{text}\r\n")


def test_a_code(inbox, tmpmail_smtp):
    assert type(inbox) is Inbox
    send(tmpmail_smtp, inbox.address)
    assert inbox.wait_for_code(subject="welcome", timeout=10) == "481516"


def test_privacy(inbox, tmpmail):
    assert type(tmpmail) is Client
    seen.append((inbox.address, inbox.token))
    with pytest.raises(Exception, match="address-not-found"):
        tmpmail.inbox(inbox.address)


def test_freshness(inbox, tmpmail):
    ((address, token),) = seen
    assert inbox.address != address
    with pytest.raises(AddressExpired):
        tmpmail.inbox(address, token)


def test_a_failure(new_inbox):
    inbox = new_inbox()
    seen[:] = [(inbox.address, inbox.token)]
    assert "this one" == "fails"


def test_deletion_after_a_failure(tmpmail):
    ((address, token),) = seen
    with pytest.raises(AddressExpired):
        tmpmail.inbox(address, token)


def test_several(new_inbox, inbox, tmpmail):
    one, other = new_inbox(), new_inbox("chosen.by.test", private=False)
    assert len({inbox.address, one.address, other.address}) == 3
    assert tmpmail.inbox("chosen.by.test@mail.example.com").messages() == []


def test_every_wish_of_the_client(new_inbox):
    for name, wish in inspect.signature(Client.create).parameters.items():
        if wish.default is not wish.empty:
            assert new_inbox(**{name: wish.default}).address
    with pytest.raises(WebhooksOff):
        new_inbox(webhook=Webhook("https://hooks.example.org/mail"))


def test_one_deleted_by_the_test(inbox, async_inbox):
    inbox.delete()


def test_unknown_recipients(tmpmail_smtp):
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send((tmpmail_smtp.host, tmpmail_smtp.port), "nobody@mail.example.com")


def test_no_rate_limit(tmpmail):
    for _ in range(30):
        tmpmail.domains()


def test_limits_of_a_tester(tmpmail_smtp, inbox):
    with smtplib.SMTP(*tmpmail_smtp, local_hostname="localhost") as client:
        client.login("any", "thing")
        assert int(client.esmtp_features["size"]) == 100 * 1024 * 1024
    inbox.extend(30 * 86400)


async def test_await(async_inbox, tmpmail_smtp):
    assert type(async_inbox) is AsyncInbox
    send(tmpmail_smtp, async_inbox.address)
    assert await async_inbox.wait_for_code(timeout=10) == "481516"
    async for event in async_inbox.follow():
        assert event.mail.code == "481516"
        break


async def test_a_fixture_asked_for_while_a_loop_is_running(request):
    assert await request.getfixturevalue("async_inbox").messages() == []
