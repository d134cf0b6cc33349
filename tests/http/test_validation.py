"""Tokens, bodies and queries as functions read them; mistakes of several members are in ``test_requests_mistakes.py``."""

import gzip
from contextlib import suppress
from ipaddress import ip_network

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from patience import PATIENCE_SECONDS
from tables import rows_of, table
from tmpmaild.checks import Mistakes
from tmpmaild.errors import InvalidRequest
from tmpmaild.http import requests
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import CreateRequest, FollowRequest, PageQuery, ViewRequest, read_body, read_query
from tmpmaild.model import Page

from .conftest import scope_of

ROWS = rows_of(__file__)


@table(("field", "token"), ROWS["a token is what follows bearer"])
def test_a_token_is_what_follows_bearer(field, token):
    assert requests.token(Request(scope_of("/", "GET", {"Authorization": field}))) == token


def test_a_wrong_member_is_raised_or_kept_for_the_caller_who_gets_what_is_right():
    with pytest.raises(InvalidRequest, match=r"^/remote_images: "):
        read_body(b'{"remote_images": 1}', None, ViewRequest)
    mistakes = Mistakes()
    assert read_body(b'{"private": true, "domain": 1}', None, CreateRequest, mistakes).private
    assert [pointer for pointer, _ in mistakes.errors] == ["/domain"]


@pytest.mark.parametrize(("struct", "member"), [(CreateRequest, "faults"), (FollowRequest, "inboxes")])
def test_of_a_list_that_is_too_long_no_more_is_read_than_may_be_in_it(monkeypatch, struct, member):
    read = []
    original = requests._item
    monkeypatch.setattr(requests, "_item", lambda *one: read.append(one) or original(*one))
    with pytest.raises(InvalidRequest, match=f"^/{member}: "):
        read_body(b'{"%s":[%s{}]}' % (member.encode(), b"{}," * 20_000), None, struct)
    assert len(read) <= 21


@pytest.mark.parametrize("pair", [b"a=b&", b"&", b"has=code&"])
def test_a_query_of_thousands_of_parameters_is_not_taken_apart(monkeypatch, pair):
    monkeypatch.delattr(requests, "QueryParams")
    with pytest.raises(BadRequest, match="more than 200 parameters"):
        read_query(pair * 1000, PageQuery, Mistakes())


def test_a_query_has_a_hundred_parameters_and_does_not_wait_unless_it_says_so():
    assert read_query(b"limit=7" + b"&x=y" * 99, PageQuery, Mistakes()).limit == 7
    assert read_query(b"limit=7", PageQuery, Mistakes()).wait == 0


@given(body=st.binary(max_size=40), content_type=st.none() | st.text(max_size=30))
def test_any_body_is_a_wish_or_a_mistake_of_the_client(body, content_type):
    with suppress(BadRequest, InvalidRequest):
        read_body(body, content_type, CreateRequest)


def test_a_query_becomes_the_page_that_it_asks_for():
    one, other = "msg_" + "0" * 26, "msg_7" + "z" * 25
    query = f"limit=7&order=asc&from=a%26b&subject=%C3%BC&q=%23&has=code&has=link&after={one}&before={other}&wait=5"
    asked = read_query(query.encode(), PageQuery, Mistakes())
    has = frozenset({"code", "link"})
    assert requests.page(asked) == Page(
        one, other, ascending=True, limit=7, sender="a&b", subject="ü", text="#", has=has
    )
    assert asked.wait == 5


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000, b"-1e-400"])
def test_a_number_too_large_for_us_in_an_unknown_member_is_ignored(number):
    assert read_body(b'{"x": ' + number + b"}", None, CreateRequest) == CreateRequest()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "deflate, gzip", "x-gzip", "zstd"])
@pytest.mark.parametrize(
    "body", [b"", gzip.compress(b'{"private":true}', mtime=0), b'{"private":true}'], ids=["none", "packed", "plain"]
)
async def test_an_encoded_body_is_not_read(client, coding, body):
    answer = await client.post(body=body, headers={"Content-Encoding": coding})
    assert (answer.status, answer.json()["code"]) == (415, "unsupported-media-type")
    assert "Content-Encoding" in answer.json()["detail"]


@pytest.mark.parametrize("coding", [{}, {"Content-Encoding": "identity"}, {"Content-Encoding": ""}])
async def test_a_body_may_begin_with_a_byte_order_mark(client, coding):
    answer = await client.post(body=b'\xef\xbb\xbf{"private":true}', headers=coding)
    assert (answer.status, answer.json()["private"]) == (201, True)
    assert (await client.post(body=b"\xef\xbb\xbf", headers=coding)).status == 201
    assert (await client.post(body='{"private":true}'.encode("utf-16"), headers=coding)).status == 400


class SlowBodies:
    """Requests with bodies that stop coming after 48 KiB."""

    def __init__(self, client, tasks):
        self._client = client
        self._tasks = tasks

    async def open(self, peer):
        parts, has_stopped = [bytes(16_384)] * 3, anyio.Event()

        async def receive():
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": True}
            has_stopped.set()
            return await anyio.sleep_forever()

        async def ask():
            await self._client.app(scope_of("/api/v1/addresses", "POST", peer=peer), receive, anyio.sleep_forever)

        self._tasks.start_soon(ask)
        with anyio.fail_after(PATIENCE_SECONDS):
            await has_stopped.wait()


async def test_bodies_that_come_slowly_take_bounded_memory_and_leave_room_for_others(world, monkeypatch):
    monkeypatch.setattr(requests, "_MAX_BODIES_BYTES_OF_CLIENT", 100_000)
    monkeypatch.setattr(requests, "_MAX_BODIES_BYTES", 260_000)
    client = world.client(exempt=[ip_network("192.0.2.9/32")])
    large, small = b"{}" + b" " * 10_000, b"{}" + b" " * 4_000

    async def created(peer, body):
        answer = await client.post(body=body, peer=peer)
        return answer.json().get("code", answer.status)

    async with anyio.create_task_group() as tasks:
        slow = SlowBodies(client, tasks)
        for peer in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
            await slow.open(peer)
        assert await created("192.0.2.1", large) == "busy"
        assert await created("192.0.2.1", small) == 201
        assert await created("192.0.2.2", large) == 201
        for _ in range(2):
            await slow.open("192.0.2.9")
        assert [await created(peer, large) for peer in ("192.0.2.3", "192.0.2.9")] == [201] * 2
        monkeypatch.setattr(requests, "_MAX_BODIES_BYTES", 5 * 49_152)
        assert [await created(peer, large) for peer in ("192.0.2.3", "192.0.2.9")] == ["busy"] * 2
        assert await created("192.0.2.3", small) == 201
        tasks.cancel_scope.cancel()
    assert await created("192.0.2.1", b"{}" + b" " * 60_000) == 201
