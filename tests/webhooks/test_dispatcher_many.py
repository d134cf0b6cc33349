"""Many webhooks: found page by page, with mail that comes meanwhile, and without holding up the event loop."""

from blockbuster import blockbuster_ctx


async def test_mail_that_comes_while_webhooks_are_read_is_told_of_at_once_and_nothing_blocks_the_loop(world):
    names = [f"inbox{number}" for number in range(250)]  # more than a page
    inboxes = [await world.inbox(name) for name in names]
    with blockbuster_ctx("tmpmaild"):
        async with world.sending(world.another()):
            for inbox in inboxes[::50]:
                await world.deliver(inbox, inbox.address)
            await world.receiver.wait(5)
