import smtplib

import pytest


def send(smtp, recipient, text):
    with smtplib.SMTP(*smtp, local_hostname="localhost") as client:
        client.sendmail("shop@shop.example", [recipient], text)


@pytest.fixture
def mailed(inbox, tmpmail_smtp):
    print("token", inbox.token)
    send(
        tmpmail_smtp,
        inbox.address,
        "Subject: Wel\x1b[31mcome\r\n\r\n"
        "Your code is 481516.\x1b[2J\u202e\r\n\r\nhttps://shop.example/confirm?t=1\r\n".encode(),
    )
    return inbox


def test_plain(mailed):
    assert False


async def test_with_await(async_inbox, tmpmail_smtp):
    send(tmpmail_smtp, async_inbox.address, "Subject: awaited\r\n\r\n")
    assert False


@pytest.fixture
def broken(mailed):
    raise ValueError("in a fixture")


def test_whose_fixture_fails(broken):
    pass


def test_several(new_inbox, tmpmail_smtp):
    new_inbox()
    send(tmpmail_smtp, new_inbox().address, "Subject: second\r\n\r\n")
    assert False


def test_many(inbox, tmpmail_smtp):
    for number in range(12):
        text = f"Subject: number {number}\r\n\r\n" + f"{'x' * 900}\r\n" * 1000
        send(tmpmail_smtp, inbox.address, text)
    assert False


def test_refused(inbox, tmpmail_smtp):
    for wrong in ("no-one@mail.example.com", "kate@mial.example.com"):
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            send(tmpmail_smtp, wrong, "Subject: x\r\n\r\n")
    assert False


def test_deleted(inbox):
    inbox.delete()
    assert False


def test_without():
    assert False


def test_good(mailed):
    pass
