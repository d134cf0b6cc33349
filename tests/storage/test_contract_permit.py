"""When the permit raises, nothing of the inbox is read, and the error tells nothing of it."""

import pytest

from tmpmaild.errors import AddressNotFound
from tmpmaild.model import Page

ADA = "ada@mail.example.com"


def refuse(_inbox):
    raise AddressNotFound("not for you")


def reads(storage, message_id, permit):
    return [
        lambda: storage.list_messages(ADA, Page(), 0, permit),
        lambda: storage.list_messages(ADA, Page(text="hello"), 0, permit),
        lambda: storage.read_message(ADA, message_id, 0, permit),
        lambda: storage.read_message(ADA, message_id, 0, permit, source=True),
        lambda: storage.read_message(ADA, "", 0, permit, source=True, is_next=True),
    ]


@pytest.fixture
async def message_id(engine):
    return await engine.add(await engine.inbox("ada"))


async def test_the_permit_sees_the_inbox_and_is_asked_once(engine, message_id):
    for read in reads(engine.storage, message_id, (seen := []).append):
        seen.clear()
        assert await read() is not None
        assert [inbox.address for inbox in seen] == [ADA]


async def test_nobody_is_asked_for_an_inbox_that_is_not_there(engine):
    assert await engine.storage.list_messages("none@mail.example.com", Page(), 0, refuse) is None


async def test_a_refusal_reads_no_message(engine, message_id):
    """Otherwise the time of the answer would tell what is in an inbox."""
    statements = await engine.reading_statements()
    for read in reads(engine.storage, message_id, refuse):
        with pytest.raises(AddressNotFound):
            await read()
    assert len(statements) >= 4
    assert [one for one in statements if "message AS m" in one or "content" in one] == []
