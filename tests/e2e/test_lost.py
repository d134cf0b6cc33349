"""The database is removed under the running daemon: no mail is acknowledged any more, and it ends for a fresh start."""

import smtplib
import threading
from contextlib import suppress

import pytest

SENDERS = 4
MAIL = b"Subject: hello\r\n\r\nmail\r\n"


class Sender(threading.Thread):
    """Sends mail after mail until it is refused; counts what was acknowledged, and notes the last reply."""

    def __init__(self, port, address):
        super().__init__()
        self._port = port
        self._address = address
        self.acknowledged = 0
        self.refusal = None

    def run(self):
        client = smtplib.SMTP("127.0.0.1", self._port, local_hostname="localhost", timeout=30)
        try:
            while True:
                client.sendmail("a@example.com", [self._address], MAIL)
                self.acknowledged += 1
        except smtplib.SMTPRecipientsRefused as error:
            ((self.refusal, _),) = error.recipients.values()
        except smtplib.SMTPResponseException as error:
            self.refusal = error.smtp_code
        except smtplib.SMTPServerDisconnected:
            self.refusal = 421
        finally:
            with suppress(OSError, smtplib.SMTPException):
                client.close()


@pytest.mark.parametrize("ends", [("", "-wal", "-shm", ".lock"), ("",), ("-wal",)])
def test_no_mail_is_promised_and_the_daemon_ends_with_an_error(start, no_limits, ends):
    daemon = start(**no_limits)
    address = daemon.create()
    senders = [Sender(daemon.smtp_port, address) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    while sum(sender.acknowledged for sender in senders) < 50:
        senders[0].join(0.001)
    for end in ends:
        (daemon.folder / f"tmpmaild.db{end}").unlink()
    before = sum(sender.acknowledged for sender in senders)
    for sender in senders:
        sender.join(30)
    # Each had one mail at most that was committed and looked after just before.
    assert sum(sender.acknowledged for sender in senders) - before <= SENDERS
    assert {sender.refusal for sender in senders} <= {421, 451}
    assert 451 in {sender.refusal for sender in senders}
    assert daemon.process.wait(10) == 1
    said = daemon.errors()
    assert said.count(" ERROR ") == 1
    assert "Traceback" not in said
    again = start(daemon.folder, **no_limits)
    assert again.create()
    assert again.stop() == 0


def test_a_request_that_meets_the_loss_is_answered(start):
    daemon = start()
    daemon.database.unlink()
    answer = daemon.request("/api/v1/addresses", "POST")
    assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
    assert daemon.process.wait(10) == 1
