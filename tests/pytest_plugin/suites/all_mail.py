"""Tests of an application that sends a message to three recipients and a Bcc; run by ../test_allmail.py."""

import smtplib
from email.message import EmailMessage

import pytest

from tmpmaild.client import InvalidRequest, UnexpectedMail, WaitTimeout

TO = ["anna@shop.example", "bob@other.example", "info@company.example"]
BCC = "archive@company.example"


@pytest.fixture
def application(tmpmail_smtp):
    """Return the application, which sends an order to its customers and a copy to its archive."""

    def order(number):
        message = EmailMessage()
        message["From"], message["To"] = "shop@shop.example", ", ".join(TO)
        message["Subject"] = f"Order {number}"
        message.set_content(f"Your code is {481516 + number}.\nSee https://shop.example/confirm?order={number}\n")
        with smtplib.SMTP(*tmpmail_smtp) as server:
            server.send_message(message, to_addrs=[*TO, BCC])

    return order


def test_a_message_is_listed_once_with_all_of_its_recipients(all_mail, application):
    application(1)
    mail = all_mail.wait_for(subject="Order 1", timeout=30)
    assert mail.recipients == (*TO, BCC)
    assert mail.code == "481517"
    assert all_mail.count() == 1
    assert all_mail.latest().id == mail.id


def test_the_next_test_begins_without_messages(all_mail):
    assert all_mail.latest() is None


def test_exactly_two_were_sent(all_mail, application):
    application(1)
    application(2)
    assert [mail.subject for mail in all_mail.assert_count(2, timeout=30, within=0)] == ["Order 1", "Order 2"]
    with pytest.raises(UnexpectedMail, match=r"^expected exactly 1, but more arrived"):
        all_mail.assert_count(1, timeout=30, within=0)
    with pytest.raises(WaitTimeout):
        all_mail.assert_count(3, timeout=0)


def test_the_messages_to_one_recipient(all_mail, application):
    application(1)
    assert all_mail.wait_for_code(to="BOB@other.example", timeout=30) == "481517"
    assert all_mail.wait_for_link(to=BCC, url="confirm", timeout=30) == "https://shop.example/confirm?order=1"
    all_mail.assert_no_mail(to="carol@shop.example", within=0)
    assert all_mail.count(to="carol@shop.example") == 0
    assert all_mail.clear(to="carol@shop.example") == 0
    with pytest.raises(InvalidRequest):
        all_mail.clear(to="")
    assert all_mail.clear(to="anna@shop.example") == 1


def test_the_inbox_of_a_recipient_has_a_copy(all_mail, application, tmpmail):
    application(1)
    all_mail.wait_for(timeout=30)
    inbox = tmpmail.inbox("anna@shop.example")
    assert [mail.subject for mail in inbox.messages()] == ["Order 1"]
    all_mail.clear()
    assert inbox.messages() == []


async def test_await(async_all_mail, all_mail, application):
    application(1)
    mail = await async_all_mail.wait_for(to=BCC, timeout=30)
    assert (await async_all_mail.latest()).id == mail.id == all_mail.latest().id
    await async_all_mail.assert_no_mail(to="carol@shop.example", within=0)
    with pytest.raises(UnexpectedMail):
        await async_all_mail.assert_no_mail(within=0)
    assert await async_all_mail.clear() == 1


def test_what_was_sent_in_a_test_with_await_is_deleted(all_mail):
    assert all_mail.latest() is None
