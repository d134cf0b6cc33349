"""For any path, query and body, the response matches the contract and is never an internal error; JSON round-trips."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tmpmaild.http.schemas import Serializer
from tmpmaild.model import Attachment, Inbox, Listing, Message, Page

OFTEN = settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


def percent(octets):
    return b"".join(b"%%%02X" % octet for octet in octets)


WIDE = st.text(max_size=10).map(lambda text: text.encode("utf-8", "surrogatepass"))
KNOWN = [b"api", b"v1", b"addresses", b"messages", b"problems", b"chosen@mail.example.com", b"..", b""]
SEGMENT = st.sampled_from(KNOWN) | st.binary(max_size=20) | st.binary(max_size=8).map(percent) | WIDE
SEGMENTS = st.lists(SEGMENT, max_size=6) | SEGMENT.map(
    lambda address: [b"api", b"v1", b"addresses", address, b"messages"]
)
PATH = SEGMENTS.map(lambda segments: b"/" + b"/".join(segments).replace(b"?", b""))
NAME = st.sampled_from([b"limit", b"before", b"after", b"order", b"%00"]) | WIDE
VALUE = st.sampled_from([b"1", b"100", b"asc", b"msg_7" + b"z" * 25, b"msg_" + b"0" * 26, b"%ff", b"%u0041"]) | WIDE
QUERY = st.lists(st.tuples(NAME, VALUE).map(b"=".join), max_size=4).map(b"&".join)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
WISH = st.dictionaries(st.sampled_from(["local_part", "domain", "private", "other"]), ANYTHING)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@OFTEN
@given(path=PATH, query=QUERY, method=st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "BREW"]))
async def test_any_path_and_query_get_a_response(client, path, query, method):
    answer = await client.ask(method, path + b"?" + query)
    assert answer.status < 500
    assert answer.status < 400 or answer.json()["status"] == answer.status


@OFTEN
@given(query=QUERY)
async def test_a_live_inbox_is_listed_or_the_query_is_invalid(client, query):
    await client.post(body={"local_part": "chosen"})
    answer = await client.get(b"/api/v1/addresses/chosen@mail.example.com/messages?" + query)
    assert answer.status in {200, 422}


@OFTEN
@given(wish=WISH)
async def test_any_request_for_an_address_is_granted_or_refused(client, wish):
    answer = await client.post(body=json.dumps(wish).encode())
    assert answer.status in {201, 400, 409, 422}


@OFTEN
@given(
    authorization=st.text(st.characters(max_codepoint=255), max_size=20), host=st.text(st.characters(max_codepoint=255))
)
async def test_any_header_gets_a_response(client, authorization, host):
    answer = await client.get("/api/v1/addresses/x@mail.example.com", {"Authorization": authorization}, host=host)
    assert answer.status in {400, 404, 431}


MESSAGE = st.builds(
    Message,
    id=st.just("msg_" + "0" * 26),
    received_at_ms=st.integers(0, 1 << 42),
    recipient=TEXT,
    from_address=TEXT,
    from_name=TEXT,
    subject=TEXT,
    body=TEXT,
    truncated=st.booleans(),
    size_bytes=st.integers(0, 1 << 40),
    has_html=st.booleans(),
    attachments=st.lists(
        st.builds(Attachment, st.integers(0, 9), TEXT, TEXT, st.integers(0), TEXT, st.booleans(), st.none() | TEXT),
        max_size=2,
    ).map(tuple),
)
INBOX = Inbox("1", "chosen@mail.example.com", 0, 1, private=False, token_hash=None, message_count=1, full=False)


@given(message=MESSAGE)
def test_json_responses_round_trip(message):
    encoded = msgspec.json.encode(Serializer("").message_list(Listing(INBOX, (message,), has_more=False)))
    (item,) = json.loads(encoded)["messages"]
    assert (item["from"], item["from_name"], item["to"]) == (message.from_address, message.from_name, message.recipient)
    assert (item["subject"], item["body"], item["size"]) == (message.subject, message.body, message.size_bytes)
    assert item.get("truncated", False) is message.truncated
    assert "truncated" not in item or item["truncated"]
    assert [attachment["filename"] for attachment in item["attachments"]] == [
        one.filename for one in message.attachments
    ]
    assert [attachment["size"] for attachment in item["attachments"]] == [one.size_bytes for one in message.attachments]


@pytest.mark.parametrize(
    ("page", "query"),
    [
        (Page(limit=1), "limit=1&before=msg_0"),
        (Page(limit=2, after="msg_a"), "limit=2&after=msg_a&before=msg_0"),
        (Page(limit=3, before="msg_z", has=frozenset({"code"})), "limit=3&has=code&before=msg_0"),
        (Page(limit=4, before="msg_z", ascending=True), "limit=4&order=asc&after=msg_0&before=msg_z"),
        (
            Page(limit=5, sender="a&b", subject="ü +", text="#"),
            "limit=5&from=a%26b&subject=%C3%BC%20%2B&q=%23&before=msg_0",
        ),
    ],
)
def test_the_next_page_starts_after_the_last_message_of_this_page(page, query):
    message = Message("msg_0", 0, "", "", "", "", "", truncated=False, size_bytes=0, has_html=False, attachments=())
    link = Serializer("/mail").next_page_link(Listing(INBOX, (message,), has_more=True), page)
    assert link == f'</mail/api/v1/addresses/chosen@mail.example.com/messages?{query}>; rel="next"'


def test_the_path_of_an_address_is_a_path():
    assert Serializer("").address_path("a/b?c#d%e <f>@x") == "/api/v1/addresses/a%2Fb%3Fc%23d%25e%20%3Cf%3E@x"
