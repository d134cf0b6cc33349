"""``GET`` and ``DELETE`` of one message, and its attachments."""

import base64
import hashlib
from pathlib import Path

import pytest

from tmpmaild.model import AcceptedRecipient, SmtpSession

from .conftest import bearer, expected

pytestmark = pytest.mark.both_engines

RAW = Path(__file__).with_name("messages-one.eml").read_bytes()


@pytest.fixture
def at(held):
    return f"/api/v1/addresses/{held['address']}/messages"


async def test_one_message_shows_exactly_these_fields(world, client, held, at):
    message_id = await world.deliver(held["address"], RAW, recipient="Chosen+tag@mail.example.com")
    answer = await client.get(f"{at}/{message_id}")
    assert answer.status == 200
    message = answer.json()
    (in_list,) = (await client.get(at)).json()["messages"]
    more = {"html": message["html"], "headers": message["headers"]}
    assert message == in_list | more | expected("one", message_id)
    assert message["html"].rstrip() == '<p>Your verification code is <b>481516</b></p><img src="cid:logo">'
    assert message["headers"][0] == ["From", "Ann Other <ann@example.org>"]
    assert ["Subject", "grüße"] in message["headers"]
    assert [code["value"] for code in message["codes"]] == ["481516"]


async def test_the_session_that_brought_a_message_is_shown_with_it(world, client, held, at):
    recipients = (AcceptedRecipient("Chosen+tag@mail.example.com", 1_790_000_000_001),)
    session = SmtpSession(
        "EHLO", "TLSv1.3", "TLS_AES_256", "LOGIN", "SIZE=5  BODY=8BITMIME", 1_790_000_000_002, recipients
    )
    message_id = await world.deliver(held["address"], RAW, recipient="Chosen+tag@mail.example.com", session=session)
    assert (await client.get(f"{at}/{message_id}")).json()["session"] == expected("session", message_id)


async def test_missing_parts_of_a_message_are_null_or_empty(world, client, held, at):
    message_id = await world.deliver(held["address"], b"\r\nbody\r\n", sender="")
    message = (await client.get(f"{at}/{message_id}")).json()
    assert (message["html"], message["date"]) == (None, None)
    assert (message["message_id"], message["cc"], message["reply_to"], message["codes"]) == ("", [], [], [])
    assert message["envelope"]["from"] == ""


async def test_attachments_are_fetched_by_their_url(world, client, held, at):
    message_id = await world.deliver(held["address"], RAW)
    (message,) = (await client.get(at)).json()["messages"]
    logo, pdf = message["attachments"]
    assert (logo["inline"], logo["content_id"], logo["url"]) == (True, "logo", f"{at}/{message_id}/attachments/0")
    for attachment, content, kind in ((logo, b"\x89PNG\r\n\x1a\n", "image/png"), (pdf, b"hello", "application/pdf")):
        answer = await client.get(attachment["url"])
        assert answer.header("content-type") == kind
        assert (answer.status, answer.body) == (200, content)
        assert hashlib.sha256(answer.body).hexdigest() == attachment["sha256"]
        assert int(answer.header("content-length")) == attachment["size"]
        assert answer.header("content-disposition").startswith("attachment; ")
        assert answer.header("x-content-type-options") == "nosniff"
        assert "sandbox" in answer.header("content-security-policy")
        assert answer.header("cache-control") == "no-store"
    assert 'filename="x.pdf"' in answer.header("content-disposition")


async def test_attachments_exist_under_no_other_number(world, client, held, at, subtests):
    for index in ["2", "-1", "x", "", "0x0", "01", "1.0", "%C2%B2", "999999999", "9" * 100, "0%0a"]:
        with subtests.test(index=index):
            message_id = await world.deliver(held["address"], RAW)
            answer = await client.get(f"{at}/{message_id}/attachments/{index}")
            assert (answer.status, answer.json()["code"]) in [(404, "message-not-found"), (404, "not-found")]


async def test_range_requests_get_the_complete_content(world, client, held, at):
    message_id = await world.deliver(held["address"], RAW)
    ranges = {"Range": "bytes=" + ",".join(f"{at}-" for at in range(1000))}
    for tail in ("attachments/1", "raw", ""):
        answer = await client.get(f"{at}/{message_id}/{tail}".rstrip("/"), ranges)
        assert answer.status == 200
        assert answer.header("content-range") is None


async def test_a_large_message_is_returned_completely(world, client, held, at):
    text, content = "x" * 200_000, bytes(range(256)) * 4000
    raw = RAW.replace(b"Your", text.encode(), 1).replace(b"aGVsbG8=", base64.encodebytes(content))
    message_id = await world.deliver(held["address"], raw)
    message = (await client.get(f"{at}/{message_id}")).json()
    assert message["body"].startswith(text)
    assert (await client.get(message["attachments"][1]["url"])).body == content


async def test_only_the_deleted_message_disappears(world, client, held, at):
    first, second, third = [await world.deliver(held["address"], RAW) for _ in range(3)]
    answer = await client.ask("DELETE", f"{at}/{second}", bearer(held["token"]))
    assert (answer.status, answer.body) == (204, b"")
    for tail in ("", "/raw", "/attachments/0"):
        answer = await client.get(f"{at}/{second}{tail}")
        assert (answer.status, answer.json()["code"]) == (404, "message-not-found")
    assert (await client.ask("POST", f"{at}/{second}/view")).status == 404
    assert [message["id"] for message in (await client.get(at)).json()["messages"]] == [third, first]
    assert (await client.ask("DELETE", f"{at}/{second}", bearer(held["token"]))).status == 404


async def test_each_url_in_the_body_of_a_message_has_its_position(world, client, held, at):
    """Positions count code points, so a character beyond 16 bits counts once. Each occurrence of a URL is listed."""
    first, second = "https://x.example/a(EU)_V2.pdf", "https://x.example/verify?t=aB3_"
    body = f"🎉 Guide: {first}\uff0cand {second}، again <{first}>"
    message_id = await world.deliver(
        held["address"], b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + body.encode()
    )
    message = (await client.get(f"{at}/{message_id}")).json()
    assert [link["href"] for link in message["body_links"]] == [first, second, first]
    assert [message["body"][link["start"] : link["end"]] for link in message["body_links"]] == [first, second, first]
    assert {link["href"] for link in message["links"]} == {first, second}
    (in_list,) = (await client.get(at)).json()["messages"]
    assert "body_links" not in in_list
