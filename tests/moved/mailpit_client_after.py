"""mailpit_client_before.py, migrated to tmpmaild with the section on mailpit-api-client in docs/coming-from.md."""

import pytest
from shop import ARCHIVE, Shop


@pytest.fixture
def shop(tmpmail_smtp):
    return Shop(*tmpmail_smtp)


def test_the_code_of_the_mail_confirms_the_address(all_mail, shop):
    shop.sign_up("anna@shop.example")
    mail = all_mail.wait_for(subject="Confirm your address")
    assert (mail.sender_name, mail.sender) == ("The Shop", "shop@shop.example")
    assert shop.confirm("anna@shop.example", mail.code)


def test_the_mail_has_the_link(all_mail, shop):
    shop.sign_up("anna@shop.example")
    mail = all_mail.wait_for(subject="Confirm your address")
    assert mail.link.startswith("https://shop.example/confirm?t=")


def test_an_order_goes_to_the_customer_a_copy_and_the_archive(all_mail, shop):
    shop.order("anna@shop.example")
    mail = all_mail.wait_for(subject="Your order 7")
    assert mail.recipients == ("anna@shop.example", "bob@other.example", ARCHIVE)


def test_an_order_has_its_invoice_attached(all_mail, shop):
    shop.order("anna@shop.example")
    mail = all_mail.wait_for(subject="Your order 7")
    attachment = mail.get_attachment("invoice-*.pdf")
    assert (attachment.filename, attachment.content_type) == ("Invoice-7.pdf", "application/pdf")
    assert attachment.content() == b"%PDF-1.7 seven"


def test_each_mail_is_there_once_and_can_be_deleted(all_mail, shop):
    shop.order("anna@shop.example")
    shop.sign_up("anna@shop.example")
    mail = all_mail.wait_for(subject="Your order 7")
    assert len(all_mail.messages()) == 2
    mail.delete()
    assert [one.subject for one in all_mail.messages()] == ["Confirm your address"]
