import smtplib
from email.message import EmailMessage


def sign_up(address, smtp):
    """Stand in for your application, which sends the message."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "The Shop <shop@shop.example>", address, "Welcome to the shop"
    mail.set_content("Your verification code is 481516.\nOr follow https://shop.example/confirm?t=8kq2\n")
    with smtplib.SMTP(*smtp, local_hostname="shop.example") as server:
        server.send_message(mail)


def test_the_welcome_mail_brings_a_code_and_a_link(inbox, tmpmail_smtp):
    sign_up(inbox.address, tmpmail_smtp)
    mail = inbox.wait_for(subject="welcome", timeout=10)
    assert mail.sender == "shop@shop.example"
    assert mail.code == "481516"
    assert mail.link == "https://shop.example/confirm?t=8kq2"
