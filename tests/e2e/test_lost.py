"""The database is removed under the running daemon: no mail is acknowledged any more, and it ends for a fresh start."""

import pytest

from daemons import NO_LIMITS
from patience import PATIENCE_SECONDS
from senders import SENDERS, Sender


@pytest.mark.parametrize("ends", [("", "-wal", "-shm", ".lock"), ("",), ("-wal",)])
def test_no_mail_is_promised_and_the_daemon_ends_with_an_error(start, ends):
    daemon = start(**NO_LIMITS)
    address = daemon.create()
    senders = [Sender(daemon.smtp_port, [address], number) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    while sum(len(sender.acknowledged) for sender in senders) < 50:
        senders[0].join(0.001)
    for end in ends:
        (daemon.folder / f"tmpmaild.db{end}").unlink()
    before = sum(len(sender.acknowledged) for sender in senders)
    for sender in senders:
        sender.join(PATIENCE_SECONDS)
    # Each had one mail at most that was committed and looked after just before.
    assert sum(len(sender.acknowledged) for sender in senders) - before <= SENDERS
    assert {451} <= set().union(*(sender.refusals for sender in senders)) <= {421, 451}
    assert daemon.process.wait(PATIENCE_SECONDS) == 1
    said = daemon.errors()
    assert said.count(" ERROR ") == 1
    assert "Traceback" not in said
    again = start(daemon.folder, **NO_LIMITS)
    assert again.create()
    assert again.stop() == 0


def test_a_request_that_meets_the_loss_is_answered(start):
    daemon = start()
    daemon.database.unlink()
    answer = daemon.request("/api/v1/addresses", "POST")
    assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
    assert daemon.process.wait(PATIENCE_SECONDS) == 1
