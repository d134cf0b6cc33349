import os
import smtplib
import subprocess
import sys
import unittest
from email.message import EmailMessage
from tempfile import TemporaryDirectory

from tmpmaild.client import Client

SETTINGS = {
    "TMPMAILD_CONFIG": os.devnull,
    "TMPMAILD_HTTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__AUTH": "any",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
    "TMPMAILD_CONTROL__LISTEN": "off",
    "TMPMAILD_LOG__LEVEL": "warning",
}


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
        folder = cls.enterClassContext(TemporaryDirectory())
        command = [sys.executable, "-m", "tmpmaild", "serve", "--stop-with-stdin"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        daemon = subprocess.Popen(command, cwd=folder, env=os.environ | SETTINGS, **pipes)
        cls.enterClassContext(daemon)  # at the end it closes the daemon's stdin, and waits for it
        places = {}
        for line in daemon.stdout:
            name, _, place = line.strip().partition(" on ")
            places[name] = place
            if name == "SMTP":
                break
        cls.client = cls.enterClassContext(Client(f"http://{places['HTTP']}"))
        host, _, port = places["SMTP"].partition(":")
        cls.smtp = (host, int(port))

    def setUp(self):
        self.inbox = self.client.create()
        self.addCleanup(self.inbox.delete)

    def test_the_welcome_mail_brings_a_code(self):
        sign_up(self.inbox.address, *self.smtp)
        code = self.inbox.wait_for_code(subject="welcome", timeout=10)
        self.assertEqual(code, "481516")
