"""The operator's commands on inboxes: they list and purge the right inboxes, and purged mail is erased."""

import pytest

from tmpmaild.errors import CommandError, StorageFull
from tmpmaild.host.control import NoArguments
from tmpmaild.inboxes.commands import DeleteMailArguments, InboxCommands, ListArguments, PurgeArguments
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import add_inbox, add_mail

LIFETIME_MS = 1000
CLIENTS = ("192.0.2.1", "2001:db8::/64", None)


@pytest.fixture
def commands(storage):
    return InboxCommands(storage, Cleaner(storage, interval_seconds=30)).commands()


@pytest.fixture
async def filled(storage):
    """Create thirty inboxes for three clients, with a message in each."""
    for number in range(30):
        named = {"lifetime_ms": LIFETIME_MS + number, "creator": CLIENTS[number % 3]}
        await add_mail(storage, (await add_inbox(storage, f"box{number}@mail.example.com", **named)).id)


async def answers(commands, name, wanted):
    return [line async for line in commands[name].run(wanted)]


async def listed(commands, client=None):
    lines = await answers(commands, "inboxes", ListArguments(client))
    return [inbox.address.partition("@")[0] for line in lines for inbox in line.inboxes]


async def purged(commands, **wanted):
    last = (await answers(commands, "purge", PurgeArguments(**wanted)))[-1]
    assert last.erased
    return last.ended


@pytest.mark.usefixtures("filled")
async def test_the_list_contains_all_inboxes_or_those_of_a_client_by_any_of_its_addresses(commands):
    assert await listed(commands) == [f"box{number}" for number in range(30)]
    for client in ("2001:db8::1", "2001:db8::ffff", "2001:db8::/64"):
        assert await listed(commands, client) == [f"box{number}" for number in range(1, 30, 3)]
    assert await listed(commands, "::ffff:192.0.2.1") == [f"box{number}" for number in range(0, 30, 3)]
    assert await listed(commands, "198.51.100.1") == []


@pytest.mark.usefixtures("filled")
async def test_a_purge_ends_the_selected_inboxes_and_erases_their_mail(commands, storage, clock, tmp_path):
    await add_mail(storage, OPERATOR_INBOX_ID)
    assert await purged(commands, address="BOX0+tag@mail.example.com") == 1
    assert await purged(commands, client="2001:db8::5") == 10
    assert await purged(commands, client="2001:db8::5") == 0
    assert (await storage.find_inbox("box1@mail.example.com", clock())).message_count == 0
    clock.advance(ms=LIFETIME_MS + 3)
    assert await purged(commands, expired=True) == 2
    assert await purged(commands, expired=True) == 0
    assert len(await listed(commands)) == 17
    assert await purged(commands, all=True) == 17
    assert await listed(commands) == []
    octets = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert octets.count(b"secret-octets") == 1  # only the operator's message is left


class FullFrom:
    """Wraps a storage and simulates a full disk after this many writes; all other calls are passed through."""

    def __init__(self, storage, writes):
        self._storage = storage
        self._writes = writes

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def _write(self):
        self._writes -= 1
        if self._writes < 0:
            raise StorageFull("the database or the disk is full")

    async def move_expiry(self, inbox_id, **times):
        self._write()
        await self._storage.move_expiry(inbox_id, **times)

    async def sweep(self, now_ms):
        self._write()
        return await self._storage.sweep(now_ms)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("writes", "wanted", "ended"),
    [
        (0, PurgeArguments(address="box0@mail.example.com"), 0),
        (1, PurgeArguments(address="box0@mail.example.com"), 1),
        (0, PurgeArguments(all=True), 0),
        (7, PurgeArguments(all=True), 7),
        (30, PurgeArguments(all=True), 30),
        (0, PurgeArguments(client="192.0.2.1"), 0),
        (4, PurgeArguments(client="192.0.2.1"), 4),
    ],
)
async def test_a_purge_on_a_full_disk_reports_its_progress(storage, writes, wanted, ended):
    full = FullFrom(storage, writes)
    commands = InboxCommands(full, Cleaner(full, interval_seconds=30)).commands()
    last = (await answers(commands, "purge", wanted))[-1]
    assert (last.ended, last.erased, last.trouble) == (ended, False, "the database or the disk is full")
    assert len(await listed(commands)) == 30 - ended


async def test_a_deletion_for_postmaster_that_cannot_be_erased_is_reported(storage):
    await add_mail(storage, OPERATOR_INBOX_ID)
    full = FullFrom(storage, 0)
    commands = InboxCommands(full, Cleaner(full, interval_seconds=30)).commands()
    last = (await answers(commands, "postmaster-delete", DeleteMailArguments(all=True)))[-1]
    assert (last.deleted, last.erased, last.trouble) == (1, False, "the database or the disk is full")


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"all": True, "expired": True}, id="all and expired"),
        pytest.param({"address": "box0@mail.example.com", "client": "192.0.2.1"}, id="an address and a client"),
        pytest.param({"address": ""}, id="an empty address"),
        pytest.param({"address": "box"}, id="no address"),
        pytest.param({"address": "nobody@mail.example.com"}, id="an address that is not there"),
        pytest.param({"address": "postmaster@mail.example.com"}, id="the operator"),
        pytest.param({"address": "\ud800@mail.example.com"}, id="a surrogate"),
    ],
)
async def test_a_purge_without_exactly_one_selection_is_refused(commands, wanted):
    with pytest.raises(CommandError):
        await answers(commands, "purge", PurgeArguments(**wanted))
    assert len(await listed(commands)) == 30


@pytest.mark.usefixtures("filled")
async def test_a_backup_is_handed_over_with_its_size(commands):
    size, *parts = await answers(commands, "backup", NoArguments())
    assert b"".join(parts).startswith(b"SQLite format 3")
    assert sum(map(len, parts)) == size.octets
