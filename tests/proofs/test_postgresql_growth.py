"""On PostgreSQL nothing of what has expired takes room for long: hours of mail, on a clock that the test sets."""

import asyncio

import pytest

import clusters
from tmpmaild.model import Envelope, NewInbox, NewMail, ParsedMail, Verbatim
from tmpmaild.storage.engines import PostgresqlSettings
from tmpmaild.storage.postgresql import engine

LIFETIME_MINUTES = 60
MAILS_PER_INBOX = 10
HEAD = b"Subject: growth\r\n\r\n"
SENDERS = 64


@pytest.fixture
def database():
    cluster = clusters.started_cluster(autovacuum_naptime="1s")
    yield cluster, cluster.database()
    clusters.remove(cluster)


class Clock:
    now_ms = 1_790_000_000_000

    def __call__(self):
        return self.now_ms


def mail(inbox, number):
    raw = HEAD + bytes([97 + number % 26]) * (50_000 if number % 100 == 0 else 2_000)
    parsed = ParsedMail(
        "a@x.test", "A", "growth", Verbatim(len(HEAD), len(raw)), None, (), (("Subject", "growth"),), ()
    )
    return NewMail(
        Envelope("a@x.test", (inbox.address,), "mx.x.test", "192.0.2.1", tls=False), (inbox.id,), raw, parsed
    )


async def minute(storage, clock, number, mails):
    """Create inboxes, fill them, and sweep as a daemon does in a minute."""
    now_ms = clock()
    new = [
        NewInbox(
            f"{number}-{place}@x.test",
            now_ms,
            now_ms + LIFETIME_MINUTES * 60_000,
            private=False,
            token_hash=b"t",
            creator=None,
        )
        for place in range(max(mails // MAILS_PER_INBOX, 1))
    ]
    inboxes = await asyncio.gather(*map(storage.create_inbox, new))
    for start in range(0, mails, SENDERS):
        part = range(start, min(start + SENDERS, mails))
        await asyncio.gather(*(storage.add_message(mail(inboxes[place % len(inboxes)], place)) for place in part))
    for _ in range(2):
        clock.now_ms += 30_000
        while await storage.sweep(clock()):
            pass
        await storage.erase()


async def test_the_database_is_at_most_twice_as_large_as_its_live_mail(database, amount, figure):
    cluster, name = database
    mails = amount(whole=100_000, quick=12_000) // 60
    hours = amount(whole=6, quick=2)
    settings = PostgresqlSettings(
        url=cluster.parsed_url(name), max_bytes=1 << 40, reserve_bytes=1,
        max_messages_per_inbox=0, max_bytes_per_inbox=0, max_share_per_creator=1,
    )  # fmt: skip
    clock = Clock()

    def size():
        return cluster.execute("CHECKPOINT", f"SELECT pg_database_size('{name}')")

    async with engine.open_storage(settings, clock) as storage:
        empty_bytes = size()
        largest_bytes = 0
        for number in range(hours * 60):
            await minute(storage, clock, number, mails)
            if number == LIFETIME_MINUTES - 1:
                live_bytes = size() - empty_bytes  # nothing has expired yet
            if number >= LIFETIME_MINUTES and number % 7 == 0:
                largest_bytes = max(largest_bytes, size() - empty_bytes)
        messages = storage._usage.messages
    figure(
        f"PostgreSQL, {hours} simulated hours of {mails * 60:,} mails",
        f"{largest_bytes / live_bytes:.2f} x live mail ({live_bytes >> 20} MiB), {messages:,} messages at the end",
        "<= 2 x",
    )
    assert largest_bytes <= 2 * live_bytes
    assert messages <= (LIFETIME_MINUTES + 2) * mails
