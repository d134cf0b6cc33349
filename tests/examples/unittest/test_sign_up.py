import json
import smtplib
import subprocess
import sys
import unittest
from email.message import EmailMessage

from tmpmaild.client import Client


def sign_up(address, host, port):
    """Stand in for your application, which sends the mail."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "The Shop <shop@shop.example>", address, "Welcome to the shop"
    mail.set_content("Your verification code is 481516.\n")
    with smtplib.SMTP(host, port, local_hostname="shop.example") as server:
        server.send_message(mail)


class SignUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [sys.executable, "-m", "tmpmaild", "serve", "--for-tests"]
        daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.enterClassContext(daemon)  # at the end it closes the daemon's stdin, and waits for it
        places = json.loads(daemon.stdout.readline())
        cls.client = cls.enterClassContext(Client(places["http"]))
        host, _, port = places["smtp"].partition(":")
        cls.smtp = (host, int(port))

    def setUp(self):
        self.inbox = self.client.create()
        self.addCleanup(self.inbox.delete)

    def test_the_welcome_mail_brings_a_code(self):
        sign_up(self.inbox.address, *self.smtp)
        code = self.inbox.wait_for_code(subject="welcome", timeout=10)
        self.assertEqual(code, "481516")
