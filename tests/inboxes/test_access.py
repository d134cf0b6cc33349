"""Who may read an inbox and who may change it; what a stranger can tell from the answers."""

import pytest

from tmpmaild.errors import AddressExpired, AddressNotFound, Unauthorized
from tmpmaild.inboxes.access import Access, digest
from tmpmaild.inboxes.caches import Caches
from tmpmaild.model import NewInbox

OPEN, SECRET = "open@mail.example.com", "secret@mail.example.com"


@pytest.fixture
async def storage(storage, clock):
    for address, private in ((OPEN, False), (SECRET, True)):
        new = NewInbox(address, clock(), clock() + 1000, private=private, token_hash=digest("token"), creator=None)
        await storage.create_inbox(new)
    return storage


@pytest.fixture
def access(storage, clock):
    return Access(storage, Caches(may_cache=storage.may_cache), require_token=False)


async def test_an_address_is_enough_to_read_unless_its_inbox_is_private(access):
    for token in (None, "wrong", "token"):
        assert (await access.find(OPEN, token)).address == OPEN
    assert (await access.find(SECRET, "token")).address == SECRET
    for token in (None, "wrong", ""):
        with pytest.raises(AddressNotFound):
            await access.find(SECRET, token)


async def test_changing_always_needs_the_right_token(access):
    for address in (OPEN, SECRET):
        assert (await access.find_for_change(address, "token")).address == address
        for token in ("wrong", "", "TOKEN", "token "):
            with pytest.raises(AddressNotFound):
                await access.find_for_change(address, token)


async def test_who_has_the_token_learns_of_the_end_and_others_of_a_private_inbox_never_do(access, clock):
    clock.advance(ms=1000)
    with pytest.raises(AddressExpired):
        await access.find(OPEN, None)
    for address in (OPEN, SECRET):
        with pytest.raises(AddressExpired):
            await access.find_for_change(address, "token")
        with pytest.raises(AddressNotFound):
            await access.find_for_change(address, "wrong")
    with pytest.raises(AddressNotFound):
        await access.find(SECRET, "wrong")


async def test_where_every_inbox_needs_its_token_none_is_asked_for_it_before_anything_is_looked_up(storage, clock):
    strict = Access(storage, Caches(may_cache=storage.may_cache), require_token=True)
    for address in (OPEN, "nobody@mail.example.com", "no address"):
        with pytest.raises(Unauthorized):
            await strict.find(address, None)
        with pytest.raises(AddressNotFound):
            await strict.find(address, "wrong")
    assert (await strict.find(OPEN, "token")).address == OPEN


async def test_an_inbox_without_a_token_is_changed_by_nobody(storage, access, clock):
    new = NewInbox("old@mail.example.com", clock(), clock() + 1000, private=True, token_hash=b"", creator=None)
    await storage.create_inbox(new)
    for token in ("", "wrong"):
        with pytest.raises(AddressNotFound):
            await access.find_for_change("old@mail.example.com", token)
