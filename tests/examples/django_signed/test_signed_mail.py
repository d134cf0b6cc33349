from django.core.mail import EmailMessage


def test_mail_from_the_project_is_signed_and_aligned(inbox, settings, tmpmail_smtp):
    settings.EMAIL_BACKEND = "signed_mail.EmailBackend"  # by default, Django's tests keep messages in memory
    settings.EMAIL_HOST, settings.EMAIL_PORT = tmpmail_smtp
    author = {"From": "Shop <hello@shop.example>"}
    EmailMessage("Welcome", "Grüße!", "bounces@mailer.example", [inbox.address], headers=author).send()
    mail = inbox.wait_for(subject="Welcome", verdict=True)
    mail.assert_authenticated("shop.example")
