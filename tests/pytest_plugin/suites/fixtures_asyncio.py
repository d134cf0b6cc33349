import smtplib


async def test_it(async_inbox, tmpmail, tmpmail_smtp):
    assert await async_inbox.messages() == []
    with smtplib.SMTP(*tmpmail_smtp, local_hostname="localhost") as client:
        client.sendmail("a@example.com", ["never.created@mail.example.com"], "Subject: hello\r\n\r\n")
    assert tmpmail.inbox("never.created@mail.example.com").wait_for(timeout=10).subject == "hello"
