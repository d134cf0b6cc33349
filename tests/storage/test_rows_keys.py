"""Ids from clients: exactly one text leads to each key."""

import pytest

from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.rows import MAX_KEY, holders_inbox_key, message_id_of, message_key


@pytest.mark.parametrize("key", [0, 1, 1 << 40, MAX_KEY])
def test_a_message_key_is_found_by_its_id_alone(key):
    text = message_id_of(key)
    assert message_key(text) == key
    for other in (text[:-1] + "1", text.upper(), text + "\n", text[4:], "", "\ud800"):
        assert message_key(other) is None


def test_an_inbox_key_is_found_by_its_digits_alone():
    assert holders_inbox_key("2") == 2
    assert holders_inbox_key("9" * 18) == 10**18 - 1
    for text in ("", "0", "02", "+2", "2 ", "2\n", "٢", "x", "9" * 19, "9" * 10_000):
        assert holders_inbox_key(text) is None, text


@pytest.mark.parametrize("text", [OPERATOR_INBOX_ID, "01", " 1", "1\n", "+1"])
def test_nothing_leads_to_the_operators_inbox(text):
    assert holders_inbox_key(text) is None
