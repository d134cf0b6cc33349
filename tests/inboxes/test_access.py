"""Permission to read and to change an inbox, and what responses reveal to a client without the token."""

import pytest

from tmpmaild import errors
from tmpmaild.inboxes.access import Access, digest
from tmpmaild.inboxes.caches import Caches

from .conftest import add_inbox

# The results of finding and of changing an inbox with a token: an error name, or "" for success.
# "open" is an inbox that every client may read, "secret" is private, and "lost" is open and has no token.


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


async def test_an_address_suffices_to_read_but_changes_and_private_inboxes_need_the_token(access, subtests):
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


async def test_the_end_of_a_private_inbox_is_only_reported_with_its_token(access, clock, subtests):
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


async def test_if_every_inbox_needs_its_token_requests_without_one_are_refused_before_any_lookup(access, subtests):
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
