"""Failure of the PostgreSQL primary or its standby: no acknowledged message is lost, and the daemon keeps running.

The system tests measure how long a failover takes.
"""

import asyncio
import signal
import smtplib
from concurrent.futures import ThreadPoolExecutor

import pytest
from failover import Pair, lose

from daemons import wait_until
from patience import PATIENCE_SECONDS
from tmpmaild.config import databaseurl
from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import Envelope, NewInbox, NewMail, ParsedMail
from tmpmaild.storage.engines import PostgresqlSettings
from tmpmaild.storage.postgresql import engine, writer

from .test_metrics import ask

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"
pytestmark = pytest.mark.needs("postgresql")
CANCEL = "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def pair():
    pair = Pair()
    yield pair
    pair.remove()


@pytest.fixture(scope="module")
def daemon(pair, start_in, tmp_path_factory):
    return start_in(tmp_path_factory.mktemp("failover"), TMPMAILD_STORAGE__URL=pair.url)


def test_a_message_whose_wait_for_a_standby_was_cancelled_is_not_acknowledged(pair, daemon):
    address = daemon.create()
    pair.primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    pair.primary.execute("SELECT pg_reload_conf()")
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(daemon.deliver_raw, address, b"Subject: alone\r\n\r\n")
        wait_until(lambda: pair.primary.execute(CANCEL))
        with pytest.raises(smtplib.SMTPDataError) as refusal:
            sending.result()
    assert refusal.value.smtp_code == 451
    assert "the server did not wait for its standby" in daemon.errors()
    pair.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    pair.primary.execute("SELECT pg_reload_conf()")
    daemon.deliver_raw(address, b"Subject: again\r\n\r\n")
    assert daemon.messages(address)[0]["subject"] == "again"


def test_no_acknowledged_mail_is_lost_with_the_primary(pair, daemon):
    pair.have_standby()
    missing, _ = lose(pair, daemon, signal.SIGKILL, senders=2)
    assert missing == []
    wait_until(lambda: ask(f"{daemon.url}/readyz")[0] == 200)


@pytest.mark.proof
async def test_a_commit_that_waits_for_a_standby_is_not_repeated_and_a_newer_primary_is_found(pair, monkeypatch):
    monkeypatch.setattr(writer, "STATEMENT_SECONDS", 0.5)
    pair.have_standby()
    settings = PostgresqlSettings(
        url=databaseurl.parse(pair.url), max_bytes=0, reserve_bytes=1,
        max_messages_per_inbox=0, max_bytes_per_inbox=0, max_share_per_creator=1,
    )  # fmt: skip
    async with engine.open_storage(settings) as storage:
        now_ms = storage.clock()
        new = NewInbox("ada@x.test", now_ms, now_ms + 600_000, private=False, token_hash=b"t", creator=None)
        inbox = await storage.create_inbox(new)
        pair.lose_primary(0)  # the old primary keeps running, as it would without fencing
        old = pair.standby
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await storage.add_message(mail_to(inbox))
                    break
                except StorageUnavailable:
                    assert old.execute(WAITING) <= 1
    assert pair.primary.execute("SELECT count(*) FROM content WHERE subject = 'split'", database=pair.database) == 1


def mail_to(inbox):
    parsed = ParsedMail("a@x.test", "A", "split", "b", None, (), (), ())
    envelope = Envelope("a@x.test", (inbox.address,), "h", "192.0.2.1", tls=False)
    return NewMail(envelope, (inbox.id,), b"b", parsed)
