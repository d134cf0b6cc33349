"""Address lists as real and hostile mail writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear
from tables import rows_of, table
from tmpmaild.mail import headers

ROWS = rows_of(__file__)

TEXT = st.text(max_size=200) | st.binary(max_size=200).map(lambda octets: octets.decode("ascii", "surrogateescape"))
SHAPES = st.lists(
    st.sampled_from(
        [
            *'"\\()<>,;:@=?[]* \t\r\n\0',
            *("=?utf-8?q?", "=?x?b?", "?=", "=C3", "a", "\udce9", "\ud800", "''", "a@b.example", "<c@d.example>"),
        ]
    )
).map("".join)


@table(("value", "name", "address"), ROWS["the first mailbox is read"])
def test_the_first_mailbox_is_read(value, name, address):
    assert headers.first_mailbox(value) == (name, address)


@settings(deadline=None)
@given(TEXT | SHAPES)
def test_any_address_list_gives_clean_text(value):
    for text in headers.first_mailbox(value):
        text.encode()
        assert not any(character in text for character in "\r\n\0")


@table(("value", "found"), ROWS["every mailbox is read"])
def test_every_mailbox_is_read(value, found):
    assert headers.mailboxes(value) == found


@settings(deadline=None)
@given(TEXT | SHAPES)
def test_all_mailboxes_begin_with_the_first_and_are_clean_text(value):
    first, found = headers.first_mailbox(value), headers.mailboxes(value)
    assert found[0] == first if first[1] else ("", "") not in found
    for text in (text for mailbox in found for text in mailbox):
        text.encode()
        assert not any(character in text for character in "\r\n\0")


ADDRESS = st.from_regex(r"[a-z]{1,5}@[a-z]{1,5}\.example", fullmatch=True)
NAME = st.text("ab c,;:<>()@äé.", max_size=8).map(lambda text: " ".join(f"A{text}".split()))


@settings(deadline=None)
@given(st.lists(st.tuples(NAME, ADDRESS), max_size=8))
def test_what_was_quoted_comes_back(written):
    value = ", ".join(f'"{name}" <{address}>' for name, address in written)
    assert headers.mailboxes(value) == [(name.rstrip(" ,"), address) for name, address in written]


@pytest.mark.parametrize(
    ("value", "without"),
    [
        ("a, b", "a, b"),
        ("a (b (c) \\) d) e(f)", "a   e "),
        ("a (b", "a (b"),
        ("a) (b)", "a)  "),
        ('"(a)" (b)', "(a)  "),
    ],
)
def test_comments_are_taken_out(value, without):
    assert headers.without_comments(value) == without


@table(
    "piece",
    [*ROWS["reading takes linear time"], *'"(<)[:,;=\\ \udcff'],
)
@table("read", [headers.first_mailbox, headers.mailboxes, headers.without_comments])
def test_reading_takes_linear_time(read, piece):
    assert_linear(read, piece * (8000 // len(piece)))
