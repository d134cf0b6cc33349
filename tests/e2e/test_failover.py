"""What the loss of a standby does; the loss of the primary, which takes long, is in the proofs."""

import smtplib
from concurrent.futures import ThreadPoolExecutor

import pytest
from failover import Pair, until

CANCEL = "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def pair():
    pair = Pair()
    yield pair
    pair.remove()


@pytest.fixture(scope="module")
def daemon(pair, start_in, tmp_path_factory):
    return start_in(tmp_path_factory.mktemp("failover"), TMPMAILD_STORAGE__URL=pair.url)


def test_a_mail_whose_wait_for_a_standby_was_cancelled_is_not_acknowledged(pair, daemon):
    address = daemon.create()
    pair.primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    pair.primary.execute("SELECT pg_reload_conf()")
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(daemon.deliver_octets, address, b"Subject: alone\r\n\r\n")
        until(lambda: pair.primary.execute(CANCEL))
        with pytest.raises(smtplib.SMTPDataError) as refusal:
            sending.result()
    assert refusal.value.smtp_code == 451
    pair.primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
    pair.primary.execute("SELECT pg_reload_conf()")
    daemon.deliver_octets(address, b"Subject: again\r\n\r\n")
    assert daemon.messages(address)[0]["subject"] == "again"
