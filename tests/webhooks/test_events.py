"""The events of a webhook, in order, and the parts omitted from a document that is too large."""

import msgspec
import pytest
from msgspec.structs import replace
from webhookharness import SECRET

from tmpmaild.http.schemas import Serializer
from tmpmaild.model import StoredWebhook, Webhook, WebhookState
from tmpmaild.webhooks.events import MAX_BODY_BYTES, Events, Step

NOW_MS = 1_790_000_000_000
WEBHOOK = Webhook("https://hooks.example.org/", frozenset({"message"}), frozenset(), SECRET)
LEASED = StoredWebhook(
    "7", "a@mail.example.com", NOW_MS + 86_400_000, 1, WEBHOOK, WebhookState("msg_1", "msg_0"), "msg_2"
)


@pytest.fixture
def events(harness):
    return Events(harness.service.mail, Serializer("").webhook_body)


async def leased(harness, inbox, state=None):
    stored = await harness.storage.read_webhook(inbox.id)
    return stored if state is None else replace(stored, state=state)


async def test_an_unwanted_expiry_event_removes_the_webhook_without_a_call():
    assert await Events(None, None).next(LEASED, LEASED.expires_at_ms) == Step(event=None, state=None)


async def test_messages_are_reported_one_by_one_in_order(harness, events):
    inbox = await harness.inbox()
    ids = [await harness.deliver(inbox, subject) for subject in ("first", "second")]
    state, reported = None, []
    for has_more in (True, False):
        step = await events.next(await leased(harness, inbox, state), harness.clock())
        state = step.state
        reported.append(msgspec.json.decode(step.event.body)["data"]["subject"])
        assert (step.event.name, step.has_more) == (("message.received", state.reported_message_id), has_more)
    assert (reported, state.reported_message_id) == (["first", "second"], ids[-1])
    step = await events.next(await leased(harness, inbox, state), harness.clock())
    assert (step.event, step.state, step.has_more) == (None, state, False)


async def test_the_expiry_is_the_last_event(harness, events):
    inbox = await harness.inbox("ada", "expired")
    step = await events.next(await leased(harness, inbox), inbox.expires_at_ms)
    assert (step.event.name, step.state) == (("inbox.expired", inbox.id), None)


@pytest.mark.parametrize(
    ("body", "is_left_out"),
    [(b"a" * 70 + b"\r\n", False), ((b"\x01" * 70 + b"\r\n") * 1000, True), ((b"a" * 70 + b"\r\n") * 5000, True)],
    ids=["short", "six times as long as JSON", "long"],
)
async def test_the_text_is_left_out_of_a_document_that_would_be_too_large(harness, events, body, is_left_out):
    inbox = await harness.inbox()
    await harness.deliver(inbox, "hello", body)
    step = await events.next(await leased(harness, inbox), harness.clock())
    data = msgspec.json.decode(step.event.body)["data"]
    assert len(step.event.body) <= MAX_BODY_BYTES
    assert (data["subject"], data["body"] == "", data.get("truncated", False)) == ("hello", is_left_out, is_left_out)
