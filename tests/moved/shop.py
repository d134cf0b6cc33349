"""The application under test for the Python suites in this folder; it sends its mail with smtplib."""

import smtplib
from email.message import EmailMessage

ARCHIVE = "archive@company.example"


class Shop:
    """A shop that sends its mail to a server."""

    def __init__(self, host, port):
        self._server = (host, port)
        self._codes = {}

    def sign_up(self, email):
        """Send a code and a link."""
        code = self._codes[email] = str(100_000 + len(self._codes))
        message = self._message(email, "Confirm your address", f"Your verification code is {code}.\n")
        url = f"https://shop.example/confirm?t={code}"
        html = f'<p>Your verification code is {code}.</p><p><a href="{url}">Confirm your address</a></p>'
        message.add_alternative(html, subtype="html")
        self._send(message, [email])

    def confirm(self, email, code):
        """Return whether a code matches the code that was sent to an address."""
        return self._codes[email] == code

    def order(self, email):
        """Send an invoice with a copy (Cc) to Bob and a blind copy (Bcc) to the archive."""
        message = self._message(email, "Your order 7", "Thank you for your order.\n")
        message["Cc"], message["X-Shop"] = "bob@other.example", "berlin"
        message.add_attachment(b"%PDF-1.7 seven", maintype="application", subtype="pdf", filename="Invoice-7.pdf")
        self._send(message, [email, "bob@other.example", ARCHIVE])

    def _message(self, email, subject, text):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "The Shop <shop@shop.example>", email, subject
        message.set_content(text)
        return message

    def _send(self, message, recipients):
        with smtplib.SMTP(*self._server, local_hostname="shop.example") as server:
            server.send_message(message, to_addrs=recipients)
