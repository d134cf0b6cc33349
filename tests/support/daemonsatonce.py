"""Several daemons on one database in one process, each with its own connections and clock."""

import asyncio
from contextlib import AsyncExitStack

from patience import PATIENCE_SECONDS
from tmpmaild.model import Envelope, NewInbox, NewMail, Page, ParsedMail
from tmpmaild.storage.engines import PostgresqlSettings
from tmpmaild.storage.postgresql import engine

DAEMONS = 4
SENDERS = 40
MAILS = 5  # per sender
PARSED = ParsedMail("a@x.test", "A", "s", "b", None, (), (), ())
LIFETIME_MS = 3_600_000


async def follow_four_daemons(url, now_ms):
    """Deliver to two inboxes from forty senders; check that every follower sees each message exactly once, in order.

    Each of four daemons follows one of the inboxes; their clocks are a minute apart. Raises ``AssertionError``.
    """
    settings = PostgresqlSettings(
        url=url, max_bytes=0, reserve_bytes=1, max_messages_per_inbox=0, max_bytes_per_inbox=0, max_share_per_creator=1
    )
    async with AsyncExitStack() as stack:
        daemons = [
            await stack.enter_async_context(engine.open_storage(settings, lambda late=place: now_ms - 60_000 * late))
            for place in range(DAEMONS)
        ]
        inboxes = [await _create(daemons[0], name, now_ms) for name in ("ada", "bob")]

        async def send(number):
            order = inboxes if number % 3 else inboxes[::-1]
            for _ in range(MAILS):
                await daemons[number % DAEMONS].add_message(_mail(order))

        followers = [_follow(daemon, inboxes[place % 2], now_ms) for place, daemon in enumerate(daemons)]
        *seen, _ = await asyncio.wait_for(
            asyncio.gather(*followers, asyncio.gather(*map(send, range(SENDERS)))), PATIENCE_SECONDS
        )
    for ids in seen:
        assert len(set(ids)) == len(ids) == SENDERS * MAILS
        assert ids == sorted(ids)
    assert (seen[0], seen[1]) == (seen[2], seen[3])


async def _create(daemon, name, now_ms):
    new = NewInbox(f"{name}@x.test", now_ms, now_ms + LIFETIME_MS, private=False, token_hash=b"t", creator=None)
    return await daemon.create_inbox(new)


def _mail(inboxes):
    envelope = Envelope("a@x.test", tuple(inbox.address for inbox in inboxes), "h", "192.0.2.1", tls=False)
    return NewMail(envelope, tuple(inbox.id for inbox in inboxes), b"b", PARSED)


async def _follow(daemon, inbox, now_ms):
    seen = []
    while len(seen) < SENDERS * MAILS:
        page = Page(after=seen[-1] if seen else None, ascending=True)
        listing = await daemon.list_messages(inbox.address, page, now_ms)
        seen += [message.id for message in listing.messages]
    return seen
