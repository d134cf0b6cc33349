"""Who may read an inbox and who may change it; what a stranger can tell from the answers."""

import pytest

from tmpmaild import errors
from tmpmaild.inboxes.access import Access, digest
from tmpmaild.inboxes.caches import Caches

from .conftest import add_inbox

# Who finds an inbox with which token, and whether it could be changed: the name of the error, or "" for the inbox.
# open: anybody may read it; secret: it is private; lost: it is open, and has no token.


@pytest.fixture
async def access(storage):
    for name, more in (("open", {}), ("secret", {"private": True}), ("lost", {"token_hash": b""})):
        await add_inbox(storage, f"{name}@mail.example.com", **{"token_hash": digest("token")} | more)
    return Access(storage, Caches(may_cache=storage.may_cache), require_token=False)


async def assert_found(find, name, token, error):
    address = name if " " in name else f"{name}@mail.example.com"
    if error:
        with pytest.raises(getattr(errors, error)):
            await find(address, token)
    else:
        assert (await find(address, token)).address == address


async def assert_answers(access, name, token, reading, changing):
    await assert_found(access.find, name, token, reading)
    if token is not None:
        await assert_found(access.find_for_change, name, token, changing)


async def test_an_address_is_enough_to_read_but_changing_and_private_inboxes_need_the_token(access, subtests):
    for name, token, reading, changing in (
        ("open", None, "", "AddressNotFound"),
        ("open", "wrong", "", "AddressNotFound"),
        ("open", "", "", "AddressNotFound"),
        ("open", "TOKEN", "", "AddressNotFound"),
        ("open", "token ", "", "AddressNotFound"),
        ("open", "token", "", ""),
        ("secret", None, "AddressNotFound", "AddressNotFound"),
        ("secret", "wrong", "AddressNotFound", "AddressNotFound"),
        ("secret", "", "AddressNotFound", "AddressNotFound"),
        ("secret", "token", "", ""),
        ("lost", "", "", "AddressNotFound"),
        ("lost", "wrong", "", "AddressNotFound"),
    ):
        with subtests.test(name=name, token=token):
            await assert_answers(access, name, token, reading, changing)


async def test_who_has_the_token_learns_of_the_end_and_others_of_a_private_inbox_never_do(access, clock, subtests):
    clock.advance(ms=1000)
    for name, token, reading, changing in (
        ("open", None, "AddressExpired", "AddressNotFound"),
        ("open", "wrong", "AddressExpired", "AddressNotFound"),
        ("open", "token", "AddressExpired", "AddressExpired"),
        ("secret", None, "AddressNotFound", "AddressNotFound"),
        ("secret", "wrong", "AddressNotFound", "AddressNotFound"),
        ("secret", "token", "AddressExpired", "AddressExpired"),
    ):
        with subtests.test(name=name, token=token):
            await assert_answers(access, name, token, reading, changing)


async def test_where_every_inbox_needs_its_token_none_is_asked_for_it_before_anything_is_looked_up(access, subtests):
    access.require_token = True
    for name, token, reading, changing in (
        ("open", None, "Unauthorized", "AddressNotFound"),
        ("nobody", None, "Unauthorized", "AddressNotFound"),
        ("no address", None, "Unauthorized", "AddressNotFound"),
        ("open", "wrong", "AddressNotFound", "AddressNotFound"),
        ("nobody", "wrong", "AddressNotFound", "AddressNotFound"),
        ("no address", "wrong", "AddressNotFound", "AddressNotFound"),
        ("open", "token", "", ""),
    ):
        with subtests.test(name=name, token=token):
            await assert_answers(access, name, token, reading, changing)
