import smtplib
import time

import pytest

from tmpmaild.client import Fault

PAUSES_SECONDS = (0.05, 0.1, 0.2)


def send(address, smtp):
    """Stand in for your application, which retries after a 4xx reply or a lost connection."""
    for pause_seconds in PAUSES_SECONDS:
        try:
            with smtplib.SMTP(*smtp, local_hostname="shop.example", timeout=5) as server:
                server.sendmail("shop@shop.example", address, "Subject: Welcome\r\n\r\nHello!\r\n")
        except smtplib.SMTPRecipientsRefused as error:
            code, _ = error.recipients[address]
            if code >= 500:
                raise
        except (smtplib.SMTPResponseException, smtplib.SMTPServerDisconnected):
            pass
        else:
            return
        time.sleep(pause_seconds)
    raise TimeoutError("given up")


def test_a_greylisted_message_arrives_at_the_third_attempt(inbox, tmpmail_smtp):
    inbox.set_faults([Fault("rcpt", "451 4.7.1 Greylisted", times=2)])
    send(inbox.address, tmpmail_smtp)
    assert len(inbox.messages()) == 1
    assert inbox.faults() == []


def test_a_message_arrives_once_if_the_server_disconnects(inbox, tmpmail_smtp):
    inbox.set_faults([Fault("end", "421 4.3.0 Going down", delay_seconds=0.1)])
    send(inbox.address, tmpmail_smtp)
    assert len(inbox.messages()) == 1


def test_a_permanently_refused_message_is_not_retried(inbox, tmpmail_smtp):
    inbox.set_faults([Fault("rcpt", "550 5.1.1 No such user", times=100)])
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(inbox.address, tmpmail_smtp)
    assert [fault.times for fault in inbox.faults()] == [99]
