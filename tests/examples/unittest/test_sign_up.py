import json
import smtplib
import subprocess
import sys
import unittest

from tmpmaild.client import Client


class SignUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [sys.executable, "-m", "tmpmaild", "serve", "--for-tests"]
        daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.enterClassContext(daemon)  # at the end, it closes the daemon's stdin and waits for it
        places = json.loads(daemon.stdout.readline())
        cls.client = cls.enterClassContext(Client(places["http"]))
        host, _, port = places["smtp"].partition(":")
        cls.smtp = (host, int(port))

    def setUp(self):
        self.inbox = self.client.create()
        self.addCleanup(self.inbox.delete)

    def test_the_welcome_message_contains_a_code(self):
        with smtplib.SMTP(*self.smtp) as server:  # your application does this
            mail = "Subject: Welcome\r\n\r\nYour code is 481516.\r\n"
            server.sendmail("shop@shop.example", self.inbox.address, mail)
        code = self.inbox.wait_for_code(subject="welcome", timeout=10)
        self.assertEqual(code, "481516")
