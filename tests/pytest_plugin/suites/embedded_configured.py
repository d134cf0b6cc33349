import smtplib
import ssl


def test_domains(tmpmail, inbox, tmp_path_factory):
    files = {file.name for file in tmp_path_factory.getbasetemp().glob("tmpmaild*/*")}
    assert "tmpmaild.db" in files
    assert "tmpmaild.db.control" not in files
    assert tmpmail.domains() == ["mail.shop.example", "second.example"]
    assert inbox.address.endswith("@mail.shop.example")


def test_smtp(inbox, tmpmail_smtp, tmpmail_smtps, tmpmail_ca_file):
    assert tmpmail_smtp.host == "127.0.0.1"
    context = ssl.create_default_context(cafile=tmpmail_ca_file)
    with smtplib.SMTP("localhost", tmpmail_smtp.port, local_hostname="localhost") as client:
        client.ehlo()
        assert client.esmtp_features["size"] == "2048"
        client.starttls(context=context)
        client.login("any", "thing")
        client.sendmail("a@shop.example", [inbox.address], "Subject: hello\r\n\r\n")
    with smtplib.SMTP_SSL("localhost", tmpmail_smtps.port, local_hostname="localhost", context=context) as client:
        client.sendmail("a@shop.example", [inbox.address], "Subject: again\r\n\r\n")
    assert [mail.subject for mail in inbox.wait_for_messages(2, timeout=10)] == ["hello", "again"]


async def test_rate(inbox, async_inbox):
    for _ in range(4):
        assert await async_inbox.messages() == inbox.messages() == []
