"""Webhooks set by the owners of inboxes; ``tests/http/test_addresses_webhooks.py`` covers the API."""

import pytest

from tmpmaild.errors import InvalidRequest
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.webhooktargets import parse_rule

URL = "http://127.0.0.1:8080/in"


@pytest.fixture
async def webhooks(storage):
    return Webhooks(storage, (parse_rule("127.0.0.0/8:8080"),))


async def test_a_new_webhook_has_a_new_secret(webhooks):
    first, second = webhooks.make(URL, ["message"], ["code"]), webhooks.make(URL, ["message"], ["code"])
    assert (first.url, first.events, first.has, first.secret[:6]) == (URL, {"message"}, {"code"}, "whsec_")
    assert first.secret != second.secret


@pytest.mark.parametrize(
    ("url", "events", "pointer"),
    [
        pytest.param("no URL", ["message"], "/webhook/url", id="not a URL"),
        pytest.param("https://a.example/", ["message"], "/webhook/url", id="no rule has the host"),
        pytest.param(URL, ["verdict"], "/webhook/events", id="senders are not checked"),
    ],
)
async def test_a_webhook_that_the_operator_does_not_allow_is_refused(webhooks, url, events, pointer):
    with pytest.raises(InvalidRequest) as raised:
        webhooks.make(url, events, [])
    assert [found for found, _ in raised.value.errors] == [pointer]
