"""The daemon stops within five seconds of the signal, regardless of the activity of its connected clients."""

import smtplib
import time

import pytest

STOPS_WITHIN_SECONDS = 5


@pytest.mark.parametrize("round_number", range(3))
def test_an_endless_message_does_not_delay_the_stop(start, round_number, figure):
    daemon = start()
    address = daemon.create()
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="localhost") as client:
        client.helo()
        client.mail("a@example.com")
        client.rcpt(address)
        client.docmd("DATA")
        began = time.monotonic()
        assert daemon.stop() == 0
        taken = time.monotonic() - began
        assert taken < STOPS_WITHIN_SECONDS
        figure("stop amid a mail that never ends", f"{taken:.1f} s", f"< {STOPS_WITHIN_SECONDS} s")
        client.close()
