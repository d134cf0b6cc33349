import pytest
from shop import create_app


@pytest.mark.parametrize("customer", range(8))
def test_customers_get_their_own_codes(customer, tmpmail_smtp, inbox):
    shop = create_app(*tmpmail_smtp).test_client()
    shop.post("/sign-up", data={"email": inbox.address})
    (mail,) = inbox.messages()
    answer = shop.post("/confirm", data={"email": inbox.address, "code": mail.code})
    assert answer.status_code == 200
