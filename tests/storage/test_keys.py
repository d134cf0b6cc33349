"""Message ids: ULIDs that sort by arrival, the bounds that a cursor denotes, and a single text form for each key."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.model import Page
from tmpmaild.storage import keys, rows
from tmpmaild.storage.base import OPERATOR_INBOX_ID

message_keys = st.integers(0, keys.MAX_KEY)
texts = st.from_regex(r"\Amsg_[0-7][0-9a-hjkmnp-tv-z]{25}\Z")


@given(message_keys)
def test_an_id_has_the_right_form_and_can_be_converted_back_to_its_key(key):
    text = keys.message_id_of(key)
    assert keys.is_message_id(text)
    assert keys.key_not_above(text) == keys.key_not_below(text) == key


@given(texts, message_keys)
def test_a_cursor_that_is_not_a_message_also_has_a_position(text, key):
    shown = keys.message_id_of(key)
    assert (key <= keys.key_not_above(text)) is (shown <= text)
    assert (key >= keys.key_not_below(text)) is (shown >= text) or keys.key_not_below(text) == keys.MAX_KEY


@given(st.integers(0, keys.MAX_KEY - 1), st.integers(0, (1 << 45) - 1))
def test_a_key_is_greater_than_the_last_key_with_any_clock(last_key, now_ms):
    key = keys.next_key(last_key, now_ms)
    assert key > last_key
    assert key >= keys.first_key(now_ms)


def test_the_greatest_key_is_the_greatest_number_of_a_table_and_the_time_of_an_id_that_of_a_ulid():
    assert struct.unpack(">q", b"\x7f" + b"\xff" * 7) == (keys.MAX_KEY,)
    text = keys.message_id_of(keys.first_key(1_469_918_176_385))
    assert text.startswith("msg_01aryz6s41")  # the ULID specification's own example


@given(st.none() | texts, st.none() | texts, st.integers(2, 10**18 - 1))
def test_a_page_is_between_the_requested_ids_in_any_inbox(after, before, inbox_key):
    low, high = keys.keys_between(Page(after=after, before=before), inbox_key)
    assert low == (-1 if after is None else keys.key_not_above(after, inbox_key)) >= -1
    assert high == (keys.MAX_KEY if before is None else keys.key_not_below(before, inbox_key)) >= 0
    if after and low >= 0:
        assert keys.message_id_in(inbox_key, low) <= after
    if before and high < keys.MAX_KEY:
        assert keys.message_id_in(inbox_key, high) >= before


def test_invalid_ids_are_recognized_and_an_inbox_key_is_only_digits():
    good = keys.message_id_of(1 << 50)
    for bad in ("", "msg_", good[:-1], good + "0", good.upper(), good.replace("msg", "MSG"), "msg_8" + "0" * 25):
        assert not keys.is_message_id(bad)
    for letter in "ilou\n ":
        assert not keys.is_message_id(good[:-1] + letter)
    assert rows.user_inbox_key("2") == 2
    assert rows.user_inbox_key("9" * 18) == 10**18 - 1
    for text in (OPERATOR_INBOX_ID, "", "0", "02", "01", "+2", " 1", "1\n", "٢", "x", "9" * 19, "9" * 10_000):
        assert rows.user_inbox_key(text) is None, text


@pytest.mark.parametrize("key", [0, 1, 1 << 40, keys.MAX_KEY])
def test_a_message_key_is_found_by_its_id_alone(key):
    text = keys.message_id_of(key)
    assert keys.message_key(text) == key
    for other in (text[:-1] + "1", text.upper(), text + "\n", text[4:], "", "\ud800"):
        assert keys.message_key(other) is None
