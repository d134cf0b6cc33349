"""A large response is cut off if its content is deleted or expires while it is being sent, for every endpoint."""

import json
import socket

import anyio
import pytest

from .conftest import bearer, scope_of
from .streams import until

MANY = b"x " * 50_000
MAIL = (
    b"Subject: large\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/plain\r\n\r\n%b\r\n"
    b"--b\r\nContent-Type: text/html\r\n\r\n<p>%b</p>\r\n"
    b"--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=a.pdf\r\n\r\n%b\r\n"
    b"--b--\r\n" % (MANY, MANY, MANY)
)
KINDS = {
    "list": "/messages",
    "mbox": "/messages.mbox",
    "feed": "/feed",
    "message": "/messages/{id}",
    "source": "/messages/{id}/raw",
    "attachment": "/messages/{id}/attachments/0",
    "view": "",
    "secret feed": "",
}
OF_ONE_MESSAGE = ("message", "source", "attachment", "view")


async def target(kind, client, held, message_id):
    at = f"/api/v1/addresses/{held['address']}"
    if kind == "view":
        answer = await client.post(f"{at}/messages/{message_id}/view", headers=bearer(held["token"]))
        return answer.json()["url"]
    if kind == "secret feed":
        return (await client.post(f"{at}/feed", headers=bearer(held["token"]))).json()["url"]
    return at + KINDS[kind].format(id=message_id)


class SlowClient:
    """A client that receives only the first part of a body until the test lets it continue."""

    def __init__(self, client, at, method="GET", body=b""):
        self.sent = []
        self.has_part, self.goes_on, self.has_ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._app = client.app
        self._scope = scope_of(at, method)
        self._bodies = [body]

    async def ask(self):
        await self._app(self._scope, self._receive, self._send)
        self.has_ended.set()

    async def _receive(self):
        if not self._bodies:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": self._bodies.pop()}

    async def _send(self, event):
        if self.has_part.is_set():
            await self.goes_on.wait()
        self.sent.append(event)
        if event["type"] == "http.response.body":
            self.has_part.set()


ENDS = [(kind, end) for kind in KINDS for end in ("clock", "inbox")] + [(kind, "message") for kind in OF_ONE_MESSAGE]


@pytest.mark.both_engines
@pytest.mark.parametrize(("kind", "end"), ENDS)
async def test_no_more_data_is_sent_after_the_content_has_ended(world, held, clock, kind, end):
    client, message_id = world.client(), await world.deliver(held["address"], MAIL)
    clock.advance(ms=3_600_000 - 50)
    slow = SlowClient(client, await target(kind, client, held, message_id))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.ask)
        with anyio.fail_after(10):
            await slow.has_part.wait()
            if end == "clock":
                clock.advance(ms=50)
            else:
                await world.end(end, held, message_id)
            await slow.has_ended.wait()
    assert slow.sent[0]["status"] == 200
    assert slow.sent[-1]["more_body"]
    assert len(world.service.bus) == 0


async def test_an_inbox_that_was_extended_meanwhile_is_sent_completely(world, client, held, clock):
    message_id = await world.deliver(held["address"], MAIL)
    clock.advance(ms=1_800_000)
    await world.service.inboxes.change(held["address"], held["token"], 1)
    slow = SlowClient(client, await target("source", client, held, message_id))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.ask)
        await slow.has_part.wait()
        await world.service.inboxes.change(held["address"], held["token"], 600)
        clock.advance(ms=1000)
        await until(lambda: len(world.service.bus) == 1)
        slow.goes_on.set()
        await slow.has_ended.wait()
    assert not slow.sent[-1].get("more_body")


@pytest.mark.parametrize("path", ["/events", "several"])
async def test_an_unread_event_is_cut_at_expiry(world, client, held, clock, path):
    await world.deliver(held["address"], b"Subject: x\r\n\r\n" + b"x" * 60_000)
    clock.advance(ms=3_600_000 - 50)
    if path == "several":
        method, at, body = "POST", "/api/v1/events", json.dumps({"inboxes": [{"address": held["address"]}]}).encode()
    else:
        method, at, body = "GET", f"/api/v1/addresses/{held['address']}{path}", b""
    slow = SlowClient(client, at, method, body)
    with anyio.fail_after(5):
        await slow.ask()
    assert slow.sent[-1]["more_body"]
    assert not any(b"expired" in event.get("body", b"") for event in slow.sent)


async def test_unsent_data_of_a_cut_response_is_dropped(serve):
    has_ended = anyio.Event()

    async def breaks_off(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(60_000), "more_body": True})
        has_ended.set()

    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    async with serve(breaks_off) as served:
        raw.connect(served.address)
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await has_ended.wait()
        await served.drained()
        assert 0 < received_before_reset(raw) < 30_000


def received_before_reset(raw):
    received = 0
    with raw:
        while True:
            try:
                octets = raw.recv(65536)
            except ConnectionResetError:
                return received
            assert octets
            received += len(octets)
