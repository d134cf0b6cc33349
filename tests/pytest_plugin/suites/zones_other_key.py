import shop


def test_with_another_key(inbox, tmpmail_smtp):
    shop.welcome(inbox.address, tmpmail_smtp, b"A" * 43 + b"=")
    inbox.wait_for(verdict=True).assert_authenticated("shop.example")
