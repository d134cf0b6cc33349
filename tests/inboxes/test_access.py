"""Who may read an inbox and who may change it; what a stranger can tell from the answers."""

import pytest

from tables import rows_of, table
from tmpmaild import errors
from tmpmaild.inboxes.access import Access, digest
from tmpmaild.inboxes.caches import Caches

from .conftest import add_inbox

ROWS = rows_of(__file__)


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


@table("row", ROWS["while it lives"])
async def test_an_address_is_enough_to_read_but_changing_and_private_inboxes_need_the_token(access, row):
    await assert_answers(access, *row)


@table("row", ROWS["when it has ended"])
async def test_who_has_the_token_learns_of_the_end_and_others_of_a_private_inbox_never_do(access, clock, row):
    clock.advance(ms=1000)
    await assert_answers(access, *row)


@table("row", ROWS["where every inbox needs its token"])
async def test_where_every_inbox_needs_its_token_none_is_asked_for_it_before_anything_is_looked_up(access, row):
    access.require_token = True
    await assert_answers(access, *row)
