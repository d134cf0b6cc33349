"""A service with a storage, and a dispatcher that calls its webhooks."""

from contextlib import asynccontextmanager

import anyio
import msgspec
from services import service_over

from patience import PATIENCE_SECONDS
from tmpmaild.http.schemas import Serializer
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Webhook
from tmpmaild.webhooks.calling import Caller
from tmpmaild.webhooks.dispatcher import Dispatcher
from tmpmaild.webhooks.events import Events
from tmpmaild.webhooktargets import parse_rule

LIFETIME_MS = 3_600_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class WebhookHarness:
    """A service and its webhook dispatcher, which runs within ``sending``. ``receiver`` is a target on loopback."""

    def __init__(self, storage, clock, receiver) -> None:
        self.clock, self.storage, self.receiver = clock, storage, receiver
        self.serve()

    def serve(self, check=None):
        """Replace the service and the dispatcher, as after a restart. ``check`` is for authenticating senders."""
        allowed = (parse_rule(f"127.0.0.0/8:{self.receiver.port}"),)
        rules = {"max_lifetime_seconds": 7200, "webhooks": allowed}
        self.service = service_over(self.storage, check=check, **rules)
        self.dispatcher = self._dispatcher(self.service.webhooks)

    def another(self, **more):
        """Return another daemon's dispatcher."""
        return self._dispatcher(Webhooks(self.storage, self.service.webhooks.allowed), **more)

    def _dispatcher(self, webhooks, caller=None, **more):
        events = Events(self.service.mail, Serializer("").webhook_body)
        dispatcher = Dispatcher(self.storage, webhooks, events, caller or Caller(), self.service.blocks, **more)
        self.storage.on_committed(dispatcher.on_commit)
        return dispatcher

    async def inbox(self, name="ada", *events, has=(), host="127.0.0.1", private=False):
        """Create an inbox with a webhook."""
        inbox, _ = await self.service.inboxes.create(NewAddress(local_part=name, private=private), None)
        url = f"http://{host}:{self.receiver.port}/{name}"
        await self.set(inbox, Webhook(url, frozenset(events or ["message"]), frozenset(has), SECRET))
        return inbox

    async def set(self, inbox, webhook):
        await self.service.webhooks.set(inbox.id, webhook)

    async def deliver(self, inbox, subject="hello", body=b"text\r\n"):
        envelope = Envelope("a@example.org", (inbox.address,), "client.example", "192.0.2.7", tls=False)
        inbox_id = await self.service.deliverer.recipient(Mailbox(*inbox.address.split("@")))
        return await self.service.deliverer.deliver(
            envelope, [inbox_id], b"Subject: %b\r\n\r\n%b" % (subject.encode(), body)
        )

    def pass_time(self, seconds):
        """Advance the clock and wake the dispatcher."""
        self.clock.advance(seconds=seconds)
        self.service.webhooks.mark_changed("0")

    async def until(self, condition):
        """Wait until a condition on the storage is true; return the condition's value."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while not (found := await condition()):
                await anyio.sleep(0.005)
        return found

    def figure(self, name):
        """Return the value of a dispatcher metric that has no labels."""
        (found,) = [one for one in self.dispatcher.metrics() if one.name == name]
        return found.values()[()]

    async def state(self, inbox):
        stored = await self.storage.read_webhook(inbox.id)
        return stored and stored.state

    async def settled(self, inbox, **wanted):
        """Wait until a webhook's state has these values."""

        async def is_so():
            state = await self.state(inbox)
            return state and all(getattr(state, name) == value for name, value in wanted.items()) and state

        return await self.until(is_so)

    @asynccontextmanager
    async def sending(self, dispatcher=None):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon((dispatcher or self.dispatcher).run)
            yield
            tasks.cancel_scope.cancel()

    def told(self):
        """Return the path and the document of each request so far."""
        return [(one.line.split()[1], msgspec.json.decode(one.body)) for one in self.receiver.told]

    def subjects(self):
        return [document["data"]["subject"] for _, document in self.told()]
