"""Notifications of one daemon's commits to another daemon: two engines on one PostgreSQL database."""

import asyncio

import pytest
from msgspec.structs import replace

from patience import PATIENCE_SECONDS
from tests.storage.conftest import postgresql_settings
from tmpmaild.model import (
    DmarcVerdict,
    ExpiryMoved,
    InboxChange,
    InboxDeleted,
    MessageDeleted,
    VerdictReached,
    unchecked,
)
from tmpmaild.storage.postgresql import engine, notifications

from .conftest import connected


@pytest.fixture
async def raw(database):
    """Return a session that does not notify the daemons of its changes."""
    session = await connected(database)
    yield session
    await session.close()


class Ear:
    """Records the changes that a storage reports, and how often it reports that changes may have been missed."""

    def __init__(self, storage, *listened) -> None:
        self.changes = []
        self.missed = 0
        self.listened = set(listened)
        storage.on_committed(self.changes.extend)
        storage.watch(lambda: self.listened, self.miss, lambda _: None)

    def miss(self):
        self.missed += 1

    async def hears(self, condition):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(self):
                await asyncio.sleep(0.005)


def of(inbox, **change):
    return InboxChange(inbox.id, **{"full": False, **change})


async def test_a_second_daemon_is_notified_of_every_kind_of_change_in_order(two):
    first, second = two
    ear, own = Ear(second.storage), Ear(first.storage)
    inbox = await first.inbox("ada")
    message = await first.add(inbox)
    found = replace(unchecked("none", ""), dmarc=DmarcVerdict("pass", "reject", "shop.example"))
    await first.storage.set_authentication(inbox.id, found, message_id=message)
    await ear.hears(lambda ear: len(ear.changes) >= 2)  # wait for the verdict, which is read from the database
    await first.delete(inbox, message)
    await first.move(inbox, inbox.expires_at_ms + 1000)
    # Wait, because an expiry is not reported if it has since been moved again.
    await ear.hears(lambda ear: len(ear.changes) >= 4)
    await first.end(inbox)
    expected = [
        of(inbox),
        of(inbox, notice=VerdictReached(message, "pass", "shop.example")),
        of(inbox, notice=MessageDeleted(message)),
        of(inbox, notice=ExpiryMoved(inbox.expires_at_ms + 1000)),
        of(inbox, full=True, notice=InboxDeleted()),
    ]
    await ear.hears(lambda ear: len(ear.changes) >= len(expected))
    assert ear.changes == expected
    assert own.changes == expected


async def test_a_false_end_or_verdict_is_ignored_whatever_its_source(two, raw):
    first, second = two
    inbox, other = await first.inbox("ada"), await first.inbox("bob")
    message = await first.add(inbox)
    ear = Ear(second.storage)
    for forged in (
        f"{inbox.id},f,x",
        f"{inbox.id},,-{message}",
        f"{inbox.id},,-msg_0forged",
        f"{inbox.id},,v{message}",
        f"{inbox.id},,@{inbox.expires_at_ms - 1000}",
        f"{inbox.id},,@{inbox.expires_at_ms + 1000}",
        f"{inbox.id},,@{'9' * 18}",
        f"{inbox.id},,@{'9' * 40}",
        f"{'9' * 40},,x",
        "\u0667,,x",
    ):
        await raw.execute("SELECT pg_notify('tmpmaild', $1)", forged)
    await first.add(other)
    await ear.hears(lambda ear: of(other) in ear.changes)
    assert ({change.notice for change in ear.changes}, ear.missed) == ({None}, 0)
    await first.delete(inbox, message)
    await ear.hears(lambda ear: of(inbox, notice=MessageDeleted(message)) in ear.changes)


async def test_a_commit_without_a_notification_is_found_if_a_client_waits(quick_looks, two, raw):
    first, second = two
    inbox, other = await first.inbox("ada"), await first.inbox("bob")
    ear = Ear(second.storage, inbox.id)
    # A change is reported first, because mail may have arrived before any client was waiting.
    await ear.hears(lambda ear: of(inbox) in ear.changes)
    ear.changes.clear()
    for key in (inbox.id, other.id):
        await raw.execute("UPDATE inbox SET last_key = 7, expires_at_ms = expires_at_ms + 1 WHERE id = $1", int(key))
    await ear.hears(lambda ear: len(ear.changes) >= 2)
    assert ear.changes == [of(inbox), of(inbox, notice=ExpiryMoved(inbox.expires_at_ms + 1))]


async def test_an_expiry_change_that_was_notified_is_not_reported_again_by_polling(two, raw, monkeypatch):
    monkeypatch.setattr(notifications, "POLL_SECONDS", 3600)
    first, second = two
    inbox, other = await first.inbox("ada"), await first.inbox("bob")
    ear = Ear(second.storage, inbox.id, other.id)

    def look():
        second.storage._notifications._poll_at = 0.0
        second.storage._notifications._woken.set()

    look()
    await ear.hears(lambda ear: {of(inbox), of(other)} <= set(ear.changes))
    moved = of(inbox, notice=ExpiryMoved(inbox.expires_at_ms + 1000))
    await first.move(inbox, inbox.expires_at_ms + 1000)
    await ear.hears(lambda ear: moved in ear.changes)
    await raw.execute("UPDATE inbox SET expires_at_ms = expires_at_ms + 1 WHERE id = $1", int(other.id))
    look()
    await ear.hears(lambda ear: of(other, notice=ExpiryMoved(other.expires_at_ms + 1)) in ear.changes)
    assert ear.changes.count(moved) == 1


async def test_an_error_does_not_stop_notifications_and_too_many_doubts_count_as_missed(
    quick_looks, two, raw, monkeypatch, caplog
):
    first, second = two
    inbox = await first.inbox("ada")
    ear = Ear(second.storage, "no number")
    while "notifying other daemons failed; will retry" not in caplog.text:
        await asyncio.sleep(0.005)
    ear.listened.clear()
    await first.add(inbox)
    await ear.hears(lambda ear: of(inbox) in ear.changes)
    monkeypatch.setattr(notifications, "_MAX_WORDS", 0)
    await raw.execute("SELECT pg_notify('tmpmaild', $1)", f"{inbox.id},,x")
    await ear.hears(lambda ear: ear.missed)
    caplog.clear()


async def test_notifications_on_a_connection_that_has_closed_count_as_missed(database, clock):
    loop, raised = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: raised.append(context))
    async with engine.open_storage(postgresql_settings(database), clock) as storage:
        ear = Ear(storage)
        connection = storage._notifications._listening_on
        # The event loop calls the listener after this call has returned.
        connection._process_notification(0, notifications.CHANNEL, "1,,")
        connection.terminate()
        await ear.hears(lambda heard: heard.missed)
    assert (raised, ear.changes) == ([], [])


async def test_a_daemon_that_cannot_report_all_changes_reports_that_changes_were_missed(two, monkeypatch):
    monkeypatch.setattr(notifications, "_MAX_WORDS", 3)
    first, second = two
    inboxes = [await first.inbox(f"name{number}") for number in range(4)]
    ear = Ear(second.storage)
    await first.add(*inboxes)
    await ear.hears(lambda ear: ear.missed)


WORDS_OF_1_0_3 = {
    "7,,": InboxChange("7", full=False),
    "7,fs,": InboxChange("7", full=True, share_full=True),
    "7,,-msg_01": InboxChange("7", full=False, notice=MessageDeleted("msg_01")),
    "7,,@1800000000000": InboxChange("7", full=False, notice=ExpiryMoved(1_800_000_000_000)),
    "7,,vmsg_01": InboxChange("7", full=False, notice=VerdictReached("msg_01")),
    "7,f,x": InboxChange("7", full=True, notice=InboxDeleted()),
}


def test_daemons_of_different_versions_use_the_same_notifications():
    assert [notifications.word(change) for change in WORDS_OF_1_0_3.values()] == list(WORDS_OF_1_0_3)
    assert notifications.changes(WORDS_OF_1_0_3) == list(WORDS_OF_1_0_3.values())
    assert notifications.changes(["!", "b", "7,f?,%new"]) == [InboxChange("7", full=True)]


def test_a_notification_is_never_longer_than_the_server_accepts():
    changes = [InboxChange(str(number), full=True, share_full=True) for number in range(5000)]
    texts = list(notifications.payloads(map(notifications.word, changes)))
    assert all(len(text.encode()) < 8000 for text in texts)
    assert notifications.changes(" ".join(texts).split()) == changes
