"""The webhooks of inboxes as their owners set them; the API's side is in ``tests/http/test_addresses_webhooks.py``."""

import pytest

from tmpmaild.errors import InvalidRequest


async def test_commits_are_noted_only_while_webhooks_are_allowed(world):
    def waiting():
        return next(one for one in world.dispatcher.measures() if one.name == "webhooks_waiting").values()

    inbox = await world.inbox()
    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, result="204")
    world.service.webhooks.allowed = ()
    await world.deliver(inbox)
    assert waiting() == {(): 0}
    world.serve()
    world.dispatcher._note(await world.storage.read_webhook(inbox.id))
    await world.deliver(inbox)
    assert waiting() == {(): 1}


async def test_a_webhook_is_made_only_of_what_the_operator_allows(world):
    make = world.service.webhooks.make
    made = make(f"http://127.0.0.1:{world.receiver.port}/in", ["message"], ["code"])
    assert (made.events, made.has, made.secret[:6]) == ({"message"}, {"code"}, "whsec_")
    for url, events in (("no URL", ["message"]), ("https://a.example/", ["message"]), (made.url, ["verdict"])):
        with pytest.raises(InvalidRequest):
            make(url, events, [])
