"""The webhooks of inboxes as their owners set them; the API's side is in ``tests/http/test_addresses_webhooks.py``."""


async def test_commits_are_told_only_while_webhooks_are_allowed(world):
    told = []

    class Watcher:
        hear = told.append
        look_at = told.append

    world.serve()
    inbox = await world.inbox()
    world.service.webhooks.watch(Watcher)
    await world.deliver(inbox)
    assert [change.inbox_id for (change,) in told] == [inbox.id]
    world.service.webhooks.allowed = ()
    await world.deliver(inbox)
    assert len(told) == 1
