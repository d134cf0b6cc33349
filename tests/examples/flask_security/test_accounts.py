import pytest
from accounts import create_app


@pytest.fixture
def client(tmpmail_smtp):
    return create_app(*tmpmail_smtp).test_client()


def test_the_link_in_the_message_confirms_the_address(client, inbox):
    password = "correct horse battery"
    form = {"email": inbox.address, "password": password, "password_confirm": password}
    client.post("/register", data=form)
    link = inbox.wait_for_link(url="/confirm/", timeout=10)
    assert "Your email has been confirmed" in client.get(link, follow_redirects=True).text
