"""The database goes away, comes back, or is replaced by its standby: no acknowledged mail is lost, and nothing restarted."""

import signal
import smtplib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from failover import Pair, lose, until

CANCEL = "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def pair():
    pair = Pair()
    yield pair
    pair.remove()


@pytest.fixture(scope="module")
def daemon(pair, start_in, tmp_path_factory):
    return start_in(tmp_path_factory.mktemp("failover"), TMPMAILD_STORAGE__URL=pair.url)


def is_ready(daemon):
    try:
        with urllib.request.urlopen(f"{daemon.url}/readyz", timeout=30) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        error.close()
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_no_acknowledged_mail_is_lost_with_the_primary(pair, daemon, how):
    missing, seconds = lose(pair, daemon, how)
    assert missing == []
    assert seconds < 10 * 3  # 10 on a machine that is not busy: tests/proofs/test_failover.py
    until(lambda: is_ready(daemon))
    if how == signal.SIGKILL:
        pair.rebuild()


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
