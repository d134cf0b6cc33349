import smtplib


def test_it(inbox, async_inbox, tmpmail_smtp):
    html = (
        "Subject: <script>alert(1)</script>\r\nContent-Type: text/html\r\n\r\n"
        "<p>481516</p><script>alert(2)</script>\r\n"
    )
    with smtplib.SMTP(*tmpmail_smtp, local_hostname="localhost") as client:
        client.sendmail("shop@shop.example", [inbox.address], html)
        client.sendmail("shop@shop.example", [async_inbox.address], "Subject: plain\r\n\r\nhello\r\n")
    assert False
