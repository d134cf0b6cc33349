"""The ``webhook`` of an address: at creation, in a PATCH request, and as shown to the owner."""

import asyncio
import base64
import logging

import pytest
from services import rules

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageFull
from tmpmaild.model import WebhookState
from tmpmaild.storage.sqlite.storage import SqliteStorage
from tmpmaild.webhooktargets import parse_rule

from .test_addresses import Held

ALLOW = (
    "hooks.example.org",
    "*.corp.example",
    "*.bücher.example",
    "10.0.0.0/8",
    "192.0.2.7:8443",
    "[2001:db8::/32]:444",
)
URL = "https://hooks.example.org/mail?a=1"
WEBHOOK = {"url": URL, "events": ["expired", "message", "message"], "has": ["link", "code"]}
SHOWN = {
    "events": ["message", "expired"],
    "has": ["code", "link"],
    "failures": 0,
    "last_call": None,
    "next_call_at": None,
    "url": URL,
}


@pytest.fixture
async def world(open_world):
    rules = tuple(map(parse_rule, ALLOW))
    async with open_world(webhooks=rules, max_lifetime_seconds=7200) as opened:
        yield opened


def without_secret(webhook):
    return {name: value for name, value in webhook.items() if name != "secret"}


@pytest.mark.both_engines
async def test_a_webhook_is_shown_to_the_owner_and_its_secret_once(world, client):
    created = await client.create(webhook=WEBHOOK)
    secret = created["webhook"].pop("secret")
    assert created["webhook"] == SHOWN
    kind, _, encoded = secret.partition("_")
    assert (kind, len(base64.b64decode(encoded, validate=True))) == ("whsec", 32)
    held = Held(client, created)
    assert (await held.ask("GET")).json()["webhook"] == SHOWN
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert "webhook" not in (await client.get(held.path, headers)).json()
    inbox = await world.service.access.find(held.address)
    stored = await world.storage.read_webhook(inbox.id)
    assert (stored.webhook.secret, stored.webhook.url) == (secret, URL)
    other = await client.create(webhook={"url": URL})
    assert other["webhook"]["secret"] != secret
    assert without_secret(other["webhook"]) == SHOWN | {"events": ["message"], "has": []}


@pytest.mark.both_engines
async def test_patch_replaces_or_removes_a_webhook_and_otherwise_leaves_it_unchanged(world, client):
    changed = world.service.webhooks.changed
    held = Held(client, await client.create())
    inbox = await world.service.access.find(held.address)
    assert (await held.ask("GET")).json()["webhook"] is None
    secrets = []
    for _ in range(2):
        answer = (await held.ask("PATCH", body={"webhook": WEBHOOK, "expires_in_seconds": 7200})).json()
        secrets.append(answer["webhook"].pop("secret"))
        assert answer["webhook"] == SHOWN
        assert changed.pop() == inbox.id
    assert len(set(secrets)) == 2
    assert (await held.ask("PATCH", body={"expires_in_seconds": 60})).json()["webhook"] == SHOWN
    assert not changed
    for _ in range(2):
        assert (await held.ask("PATCH", body={"webhook": None})).json()["webhook"] is None
        assert changed.pop() == inbox.id
    assert (await held.ask("GET")).json()["webhook"] is None


@pytest.mark.both_engines
async def test_the_state_of_the_last_call_is_shown(world, client, clock):
    held = Held(client, await client.create(webhook=WEBHOOK))
    inbox = await world.service.access.find(held.address)
    for failures, result in ((2, "timeout"), (0, "204")):
        stored = await world.storage.read_webhook(inbox.id)
        position = stored.state.reported_message_id
        state = WebhookState(position, position, failures, clock(), clock(), result)
        assert await world.storage.store_webhook(stored, state)
        now = (await client.create())["created_at"]
        assert (await held.ask("GET")).json()["webhook"] == SHOWN | {
            "failures": failures,
            "last_call": {"at": now, "result": result},
            "next_call_at": now if failures else None,
        }


async def test_invalid_webhooks_are_reported_with_their_pointers(client, subtests):
    for webhook, pointers in [
        ("x", ["/webhook"]),
        (7, ["/webhook"]),
        (True, ["/webhook"]),
        ([], ["/webhook"]),
        (
            [
                {
                    "url": "https://hooks.example.org/mail?a=1",
                    "events": ["expired", "message", "message"],
                    "has": ["link", "code"],
                }
            ],
            ["/webhook"],
        ),
        ({}, ["/webhook/url"]),
        ({"url": "https://other.example/"}, ["/webhook/url"]),
        ({"url": "http://127.0.0.1/"}, ["/webhook/url"]),
        ({"url": "x"}, ["/webhook/url"]),
        ({"url": "https://hooks.example.org:8443/"}, ["/webhook/url"]),
        ({"url": None, "events": ["message"]}, ["/webhook/url"]),
        ({"url": "https://hooks.example.org/mail?a=1", "events": [], "has": ["link", "code"]}, ["/webhook/events"]),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": ["Message"], "has": ["link", "code"]},
            ["/webhook/events"],
        ),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": "message", "has": ["link", "code"]},
            ["/webhook/events"],
        ),
        ({"url": "https://hooks.example.org/mail?a=1", "events": None, "has": ["link", "code"]}, ["/webhook/events"]),
        (
            {
                "url": "https://hooks.example.org/mail?a=1",
                "events": ["message", "message", "message", "message"],
                "has": ["link", "code"],
            },
            ["/webhook/events"],
        ),
        (
            {
                "url": "https://hooks.example.org/mail?a=1",
                "events": ["expired", "message", "message"],
                "has": ["verdict"],
            },
            ["/webhook/has"],
        ),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": ["expired", "message", "message"], "has": "code"},
            ["/webhook/has"],
        ),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": ["expired", "message", "message"], "has": None},
            ["/webhook/has"],
        ),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": ["expired", "message", "message"], "has": [1]},
            ["/webhook/has"],
        ),
        (
            {
                "url": "https://hooks.example.org/mail?a=1",
                "events": ["expired", "message", "message"],
                "has": ["code", "code", "code", "code"],
            },
            ["/webhook/has"],
        ),
        ({"url": 7, "events": {}, "has": 1}, ["/webhook/events", "/webhook/has", "/webhook/url"]),
        (
            {"url": "https://hooks.example.org/mail?a=1", "events": ["verdict"], "has": ["link", "code"]},
            ["/webhook/events"],
        ),
        ({"url": "x", "events": ["verdict"]}, ["/webhook/events", "/webhook/url"]),
    ]:
        with subtests.test(webhook=webhook, pointers=pointers):
            for answer in (
                await client.post(body={"webhook": webhook}),
                await Held(client, await client.create()).ask("PATCH", body={"webhook": webhook}),
            ):
                assert (answer.status, answer.json()["code"]) == (422, "invalid-request")
                assert sorted(one["pointer"] for one in answer.json()["errors"]) == pointers


async def test_a_secret_that_a_client_chooses_is_ignored(client):
    created = await client.create(webhook=WEBHOOK | {"secret": "whsec_MDEy", "failures": 7, "x": {"y": 10**400}})
    assert created["webhook"]["secret"] != "whsec_MDEy"
    assert without_secret(created["webhook"]) == SHOWN


async def test_a_webhook_for_verdicts_is_accepted_if_senders_are_checked(open_world):
    async with open_world(webhooks=tuple(map(parse_rule, ALLOW)), check=lambda *_: None) as world:
        created = await world.client().create(webhook=WEBHOOK | {"events": ["verdict"]})
        assert created["webhook"]["events"] == ["verdict"]


async def test_an_address_whose_webhook_cannot_be_stored_is_not_created(world, client, monkeypatch):
    async def refuse(*_):
        raise StorageFull("no room")

    monkeypatch.setattr(SqliteStorage, "set_webhook", refuse)
    answer = await client.post(body={"local_part": "wanted", "webhook": WEBHOOK})
    assert (answer.status, answer.json()["code"]) == (503, "storage-full")
    assert (await client.get("/api/v1/addresses/wanted@mail.example.com")).status == 410


async def test_without_the_setting_webhooks_are_refused_and_not_shown(open_world):
    async with open_world() as world:
        client = world.client()
        held = Held(client, await client.create(webhook=None))
        for answer in (
            await client.post(body={"webhook": WEBHOOK}),
            await held.ask("PATCH", body={"webhook": {"url": "http://127.0.0.1/"}}),
        ):
            assert (answer.status, answer.json()["code"]) == (403, "webhooks-off")
        assert (await held.ask("PATCH", body={"webhook": None})).status == 200
        assert "webhook" not in (await held.ask("GET")).json()


async def test_a_webhook_can_be_removed_after_the_operator_has_disabled_them(world, client):
    held = Held(client, await client.create(webhook=WEBHOOK))
    world.service.change_rules(rules(lifetime_seconds=1))
    assert "webhook" not in (await held.ask("GET")).json()
    assert (await held.ask("PATCH", body={"webhook": None})).status == 200
    assert list(await world.storage.list_webhooks()) == []


@pytest.mark.both_engines
async def test_the_url_and_secret_of_a_webhook_are_in_no_list_page_event_or_log_line(world, client, caplog):
    caplog.set_level(logging.INFO)
    created = await client.create(webhook=WEBHOOK)
    held = Held(client, created)
    secret = created["webhook"]["secret"]
    await world.deliver(held.address)
    answers = [await held.ask("GET", part) for part in ("", "/messages", "/messages?has=link")]
    answers += [await client.get(path) for path in ("/api/v1/domains", "/api/v1/openapi.json", held.path)]
    answers.append(await client.post("/api/v1/addresses", body={"webhook": {"url": f"https://{secret}@x.example/"}}))
    assert all(secret.encode() not in answer.body for answer in answers)
    assert [number for number, answer in enumerate(answers) if URL.encode() in answer.body] == [0]
    follow = {"inboxes": [{"address": held.address, "token": held.token}]}
    async with asyncio.timeout(PATIENCE_SECONDS):
        asked = asyncio.ensure_future(client.post("/api/v1/events", body=follow, stays=True))
        await asyncio.sleep(0)
        await held.ask("PATCH", body={"webhook": WEBHOOK})
        await held.ask("DELETE")
        stream = await asked
    assert b"event: inbox" in stream.body
    assert b"webhook" not in stream.body
    assert not [record for record in caplog.records if "whsec" in record.getMessage() or URL in record.getMessage()]
