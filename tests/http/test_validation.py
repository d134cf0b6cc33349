"""Bodies and queries, parsed into function arguments; ``test_validation_errors.py`` covers several errors at once."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.errors import InvalidRequest
from tmpmaild.http import inputs, validation
from tmpmaild.http.inputs import CreateRequest, FollowRequest, PageQuery, ViewRequest
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.validation import parse_json, parse_query
from tmpmaild.model import Page
from tmpmaild.validation import ValidationErrors


def test_an_invalid_member_is_raised_or_collected_along_with_the_valid_members():
    with pytest.raises(InvalidRequest, match=r"^/remote_images: "):
        parse_json(b'{"remote_images": 1}', None, ViewRequest)
    errors = ValidationErrors()
    assert parse_json(b'{"private": true, "domain": 1}', None, CreateRequest, errors).private
    assert [pointer for pointer, _ in errors.errors] == ["/domain"]


@pytest.mark.parametrize(("struct", "member"), [(CreateRequest, "faults"), (FollowRequest, "inboxes")])
def test_only_the_allowed_number_of_items_is_read_from_a_list_that_is_too_long(monkeypatch, struct, member):
    read = []
    decode = msgspec.json.decode
    monkeypatch.setattr(msgspec.json, "decode", lambda *given, **more: read.append(given) or decode(*given, **more))
    with pytest.raises(InvalidRequest, match=f"^/{member}: "):
        parse_json(b'{"%s":[%s{}]}' % (member.encode(), b"{}," * 20_000), None, struct)
    assert len(read) <= 25  # includes the calls for the list and its items, and three calls for the whole body


@pytest.mark.parametrize("pair", [b"a=b&", b"&", b"has=code&"])
def test_a_query_with_thousands_of_parameters_is_not_parsed(monkeypatch, pair):
    monkeypatch.delattr(validation, "QueryParams")
    with pytest.raises(BadRequest, match="more than 200 parameters"):
        parse_query(pair * 1000, PageQuery, ValidationErrors())


def test_a_query_may_have_a_hundred_parameters_and_waits_only_on_request():
    assert parse_query(b"limit=7" + b"&x=y" * 99, PageQuery, ValidationErrors()).limit == 7
    assert parse_query(b"limit=7", PageQuery, ValidationErrors()).wait == 0


@given(body=st.binary(max_size=40), content_type=st.none() | st.text(max_size=30))
def test_any_body_is_a_request_or_an_error_of_the_client(body, content_type):
    with suppress(BadRequest, InvalidRequest):
        parse_json(body, content_type, CreateRequest)


def test_a_query_becomes_the_requested_page():
    one, other = "msg_" + "0" * 26, "msg_7" + "z" * 25
    query = f"limit=7&order=asc&from=a%26b&subject=%C3%BC&q=%23&has=code&has=link&after={one}&before={other}&wait=5"
    asked = parse_query(query.encode(), PageQuery, ValidationErrors())
    has = frozenset({"code", "link"})
    assert inputs.page(asked) == Page(one, other, ascending=True, limit=7, sender="a&b", subject="ü", text="#", has=has)
    assert asked.wait == 5


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000, b"-1e-400"])
def test_a_number_too_large_for_us_in_an_unknown_member_is_ignored(number):
    assert parse_json(b'{"x": ' + number + b"}", None, CreateRequest) == CreateRequest()


@pytest.mark.parametrize("coding", [{}, {"Content-Encoding": "identity"}, {"Content-Encoding": ""}])
async def test_a_body_may_start_with_a_byte_order_mark(client, coding):
    answer = await client.post(body=b'\xef\xbb\xbf{"private":true}', headers=coding)
    assert (answer.status, answer.json()["private"]) == (201, True)
    assert (await client.post(body=b"\xef\xbb\xbf", headers=coding)).status == 201
    assert (await client.post(body='{"private":true}'.encode("utf-16"), headers=coding)).status == 400
