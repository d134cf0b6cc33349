import pytest
from shop import create_app


@pytest.fixture
def shop(tmpmail_smtp):
    return create_app(*tmpmail_smtp).test_client()


def test_the_code_in_the_message_opens_the_shop(shop, inbox):
    shop.post("/sign-up", data={"email": inbox.address})
    code = inbox.wait_for_code(subject="confirm", timeout=10)
    answer = shop.post("/confirm", data={"email": inbox.address, "code": code})
    assert answer.text == "You are in.\n"


def test_the_code_of_somebody_else_does_not_open_the_shop(shop, new_inbox):
    alice, mallory = new_inbox(), new_inbox()
    for one in (alice, mallory):
        shop.post("/sign-up", data={"email": one.address})
    code = mallory.wait_for_code(subject="confirm", timeout=10)
    answer = shop.post("/confirm", data={"email": alice.address, "code": code})
    assert answer.status_code == 403
