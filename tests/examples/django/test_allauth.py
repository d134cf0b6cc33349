import pytest


@pytest.fixture(autouse=True)
def real_mail(settings, tmpmail_smtp):
    """Send messages over SMTP: by default, Django's tests keep them in memory."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = tmpmail_smtp
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "any", "login"


@pytest.mark.django_db
def test_a_customer_signs_up_with_the_code_in_the_message(client, inbox):
    client.post("/accounts/signup/", {"email": inbox.address, "password1": "correct horse battery"})
    code = inbox.wait_for_code(timeout=10)
    answer = client.post("/accounts/confirm-email/", {"code": code})
    assert answer.url == "/welcome"
