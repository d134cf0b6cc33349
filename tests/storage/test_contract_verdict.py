"""What every storage engine promises of the verdict on a message: only the ``Storage`` protocol is known here."""

import pytest

from tmpmaild import model
from tmpmaild.errors import MessageNotFound
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.rows import message_id_of

from .conftest import LIFETIME_MS

VERDICT = model.Authentication(
    model.SpfVerdict("pass", "bücher.example"),
    (model.DkimVerdict("fail", "bücher.example", "s1", "bad \0 signature"),),
    model.DmarcVerdict("pass", "reject", "bücher.example"),
    model.ArcVerdict("none"),
    (model.DnsAnswer("bücher.example", "TXT", "v=spf1 " + "🙂" * 9000),),
)


async def _read(engine, name, message_id):
    address = f"{name}@mail.example.com"
    (listed,) = [one for one in await engine.messages(name, model.Page()) if one.id == message_id]
    _, full = await engine.storage.read_message(address, message_id, engine.clock())
    _, source = await engine.storage.read_message(address, message_id, engine.clock(), source=True)
    assert listed.authentication == full.message.authentication == source.message.authentication
    return listed.authentication


async def test_a_verdict_is_read_wherever_its_message_is_and_told_once(engine):
    told = engine.told()
    inbox, other = await engine.inbox("ada"), await engine.inbox("bob")
    message_id = await engine.add(inbox, other)
    await engine.add(inbox)
    assert await _read(engine, "ada", message_id) is None
    told.clear()
    await engine.storage.set_authentication(inbox.id, message_id, VERDICT)
    assert await _read(engine, "ada", message_id) == VERDICT
    assert told == [
        model.InboxChange(inbox.id, full=False, notice=model.VerdictReached(message_id, "pass", "bücher.example"))
    ]
    assert [one.authentication for one in await engine.messages("bob", model.Page())] == [None]
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(inbox.id, message_id, model.unchecked("none", "late"))
    assert await _read(engine, "ada", message_id) == VERDICT
    assert len(told) == 1


async def test_a_verdict_stays_with_a_message_whose_inbox_lives_longer(engine):
    inbox = await engine.inbox("ada")
    message_id = await engine.add(inbox)
    await engine.storage.set_authentication(inbox.id, message_id, VERDICT)
    await engine.move(inbox, engine.clock() + 5 * LIFETIME_MS)
    assert await _read(engine, "ada", message_id) == VERDICT


async def test_nothing_is_stored_for_a_message_or_an_inbox_that_has_ended(engine):
    gone, ended, expired = [await engine.inbox(name) for name in ("gone", "ended", "expired")]
    stored = [await engine.add(inbox) for inbox in (gone, ended, expired)]
    await engine.delete(gone, stored[0])
    await engine.end(ended)
    told = engine.told()
    wrong = [(gone, stored[0]), (ended, stored[1]), (gone, stored[2]), (gone, message_id_of(1)), (gone, "x")]
    for inbox, message_id in wrong:
        with pytest.raises(MessageNotFound):
            await engine.storage.set_authentication(inbox.id, message_id, VERDICT)
    engine.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(expired.id, stored[2], VERDICT)
    with pytest.raises(MessageNotFound):
        await engine.storage.set_authentication(OPERATOR_INBOX_ID, stored[2], VERDICT)
    assert told == []
