"""A suite for Mailpit with mailpit-api-client and pytest. mailpit_client_after.py is the migrated suite."""

import re
import time

import pytest
from shop import ARCHIVE, Shop


@pytest.fixture
def api(mailpit_api):
    mailpit_api.delete_messages([])
    return mailpit_api


@pytest.fixture
def shop():
    return Shop("localhost", 1025)


def eventually(api, subject):
    for _ in range(50):
        for found in api.get_messages(limit=50).messages:
            if found.subject == subject:
                return api.get_message(found.id)
        time.sleep(0.1)
    raise AssertionError(f"no mail with the subject {subject}")


def test_the_code_of_the_mail_confirms_the_address(api, shop):
    shop.sign_up("anna@shop.example")
    message = eventually(api, "Confirm your address")
    assert (message.from_.name, message.from_.address) == ("The Shop", "shop@shop.example")
    assert shop.confirm("anna@shop.example", re.search(r"code is (\d{6})", message.text)[1])


def test_the_mail_has_the_link(api, shop):
    shop.sign_up("anna@shop.example")
    message = eventually(api, "Confirm your address")
    assert re.search(r'href="([^"]+)"', message.html)[1].startswith("https://shop.example/confirm?t=")


def test_an_order_goes_to_the_customer_a_copy_and_the_archive(api, shop):
    shop.order("anna@shop.example")
    message = eventually(api, "Your order 7")
    recipients = [one.address for one in [*message.to, *message.cc, *message.bcc]]
    assert recipients == ["anna@shop.example", "bob@other.example", ARCHIVE]


def test_an_order_has_its_invoice_attached(api, shop):
    shop.order("anna@shop.example")
    message = eventually(api, "Your order 7")
    (invoice,) = message.attachments
    assert (invoice.file_name, invoice.content_type) == ("Invoice-7.pdf", "application/pdf")
    assert api.get_message_attachment(message.id, invoice.part_id) == "%PDF-1.7 seven"


def test_each_mail_is_there_once_and_can_be_deleted(api, shop):
    shop.order("anna@shop.example")
    shop.sign_up("anna@shop.example")
    order = eventually(api, "Your order 7")
    assert len(api.get_messages().messages) == 2
    api.delete_messages([order.id])
    assert [one.subject for one in api.get_messages().messages] == ["Confirm your address"]
