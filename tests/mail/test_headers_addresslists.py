"""Address lists as real and hostile mail writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear
from tables import table
from tmpmaild.mail import headers

TEXT = st.text(max_size=200) | st.binary(max_size=200).map(lambda octets: octets.decode("ascii", "surrogateescape"))
SHAPES = st.lists(
    st.sampled_from(
        [
            *'"\\()<>,;:@=?[]* \t\r\n\0',
            *("=?utf-8?q?", "=?x?b?", "?=", "=C3", "a", "\udce9", "\ud800", "''", "a@b.example", "<c@d.example>"),
        ]
    )
).map("".join)


@table(
    ("value", "name", "address"),
    [
        ("ann@example.org", "", "ann@example.org"),
        ("<ann@example.org>", "", "ann@example.org"),
        ("Ann Example <ann@example.org>", "Ann Example", "ann@example.org"),
        ('"Example, Ann" <ann@example.org>', "Example, Ann", "ann@example.org"),
        ("Example, Ann <ann@example.org>", "Example, Ann", "ann@example.org"),
        ('"a \\"b\\" c" <ann@example.org>', 'a "b" c', "ann@example.org"),
        ('"a@b.example" <ann@example.org>', "a@b.example", "ann@example.org"),
        ('"ann example"@example.org', "", '"ann example"@example.org'),
        ("ann@example.org (Ann (A) Example)", "Ann (A) Example", "ann@example.org"),
        ("(first) Ann <ann@example.org>", "Ann", "ann@example.org"),
        ("ann@example.org, Bob <bob@example.org>", "", "ann@example.org"),
        ("Ann <ann@example.org>, Bob <bob@example.org>", "Ann", "ann@example.org"),
        ("Team: Ann <ann@example.org>, bob@example.org;", "Ann", "ann@example.org"),
        ("Undisclosed recipients:;", "", ""),
        ("Re: Ann <ann@example.org>", "Re: Ann", "ann@example.org"),
        ("Ann <ann@example.org", "Ann", "ann@example.org"),
        ("Ann ann@example.org>", "", "ann@example.org"),
        ('"unclosed <ann@example.org>', "unclosed", "ann@example.org"),
        ("Ann (unclosed <ann@example.org>", "Ann (unclosed", "ann@example.org"),
        ("<@relay.example,@other.example:ann@example.org>", "", "ann@example.org"),
        ("<mailto:ann@example.org>", "", "ann@example.org"),
        ("< ann@example.org >", "", "ann@example.org"),
        ("ann@[192.0.2.1]", "", "ann@[192.0.2.1]"),
        ("ann@[IPv6:2001:db8::1]", "", "ann@[IPv6:2001:db8::1]"),
        ("Nobody <>, ann@example.org", "", "ann@example.org"),
        ("root", "root", ""),
        ("", "", ""),
        ("=?utf-8?q?M=C3=BCller=2C_Ann?= <ann@example.org>", "Müller, Ann", "ann@example.org"),
        ("=?utf-8?q?M=C3=BCller, Ann?= <ann@example.org>", "Müller, Ann", "ann@example.org"),
        ('"=?utf-8?q?M=C3=BCller?=" <ann@example.org>', "Müller", "ann@example.org"),
        ("=?utf-8?q?=3Ca=40b=3E=2C?= <ann@example.org>", "<a@b>,", "ann@example.org"),
        ("=?utf-8?q?a=40b?=", "a@b", ""),
        ("J\udcf6rg <j@example.org>", "Jörg", "j@example.org"),
        ("jörg@bücher.example", "", "jörg@bücher.example"),
    ],
)
def test_the_first_mailbox_is_read(value, name, address):
    assert headers.first_mailbox(value) == (name, address)


@settings(deadline=None)
@given(TEXT | SHAPES)
def test_any_address_list_gives_clean_text(value):
    for text in headers.first_mailbox(value):
        text.encode()
        assert not any(character in text for character in "\r\n\0")


@table(
    ("value", "found"),
    [
        ("", []),
        (" , ,, ", []),
        ("root", [("root", "")]),
        ("ann@example.org", [("", "ann@example.org")]),
        ("Ann <ann@example.org>, Bob <bob@example.org>", [("Ann", "ann@example.org"), ("Bob", "bob@example.org")]),
        ("ann@example.org,bob@example.org", [("", "ann@example.org"), ("", "bob@example.org")]),
        ("ann@example.org; bob@example.org", [("", "ann@example.org"), ("", "bob@example.org")]),
        ("ann@example.org (Ann), bob@example.org (Bob)", [("Ann", "ann@example.org"), ("Bob", "bob@example.org")]),
        (
            '"B, Ann" <ann@example.org>, "C; Bob" <bob@example.org>',
            [("B, Ann", "ann@example.org"), ("C; Bob", "bob@example.org")],
        ),
        (
            "B, Ann <ann@example.org>, C, Bob <bob@example.org>",
            [("B, Ann", "ann@example.org"), ("C, Bob", "bob@example.org")],
        ),
        ("bob@example.org, B, Ann <ann@example.org>", [("", "bob@example.org"), ("B, Ann", "ann@example.org")]),
        (
            "Ann <ann@example.org>, Team: Bob <bob@example.org>, cem@example.org;, Dan <dan@example.org>",
            [
                ("Ann", "ann@example.org"),
                ("Bob", "bob@example.org"),
                ("", "cem@example.org"),
                ("Dan", "dan@example.org"),
            ],
        ),
        (
            "A: ann@example.org;, Nobody:;, B: Bob <bob@example.org>;",
            [("", "ann@example.org"), ("Bob", "bob@example.org")],
        ),
        ("Undisclosed recipients:;", []),
        ("Ann <ann@example.org> Bob <bob@example.org>", [("Ann", "ann@example.org"), ("Bob", "bob@example.org")]),
        (
            "Ann <ann@example.org> and more, Bob <bob@example.org>",
            [("Ann", "ann@example.org"), ("Bob", "bob@example.org")],
        ),
        ("<ann@example.org> (not Bob), bob@example.org", [("", "ann@example.org"), ("", "bob@example.org")]),
        ("Ann <ann@example.org>, Bob <bob@example.org", [("Ann", "ann@example.org"), ("Bob", "bob@example.org")]),
        ("Nobody <>, ann@example.org, root", [("", "ann@example.org")]),
        (
            "=?utf-8?q?M=C3=BCller=2C_Ann?= <ann@example.org>, =?utf-8?q?bob=40x?= <bob@example.org>",
            [("Müller, Ann", "ann@example.org"), ("bob@x", "bob@example.org")],
        ),
    ],
)
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
    [
        *'"(<)[:,;=\\ \udcff',
        '"\\"',
        '\\"',
        "(()",
        "\\(",
        "a,",
        "a:;",
        "a@b,",
        "a@b;",
        "a@b ",
        "<a>",
        "<a>,",
        "(a)<b>",
        "=?a?q?",
        "?=",
    ],
)
@table("read", [headers.first_mailbox, headers.mailboxes, headers.without_comments])
def test_reading_takes_linear_time(read, piece):
    assert_linear(read, piece * (8000 // len(piece)))
