"""The database is removed while the daemon runs: the daemon stops acknowledging messages and exits."""

import pytest

from daemons import NO_LIMITS
from patience import PATIENCE_SECONDS
from senders import SENDERS, Sender


@pytest.mark.parametrize("ends", [("", "-wal", "-shm", ".lock"), ("",), ("-wal",)])
def test_no_mail_is_acknowledged_and_the_daemon_exits_with_an_error(start, ends):
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
    # For each sender, one message may already have been committed and checked when the files were removed.
    assert sum(len(sender.acknowledged) for sender in senders) - before <= SENDERS
    assert {451} <= set().union(*(sender.refusals for sender in senders)) <= {421, 451}
    assert daemon.process.wait(PATIENCE_SECONDS) == 1
    said = daemon.errors()
    assert said.count(" ERROR ") == 1
    assert "Traceback" not in said
    again = start(daemon.folder, **NO_LIMITS)
    assert again.create()
    assert again.stop() == 0


def test_a_request_during_the_loss_gets_a_response(start):
    daemon = start()
    daemon.database.unlink()
    answer = daemon.request("/api/v1/addresses", "POST")
    assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
    assert daemon.process.wait(PATIENCE_SECONDS) == 1
