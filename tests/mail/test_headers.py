"""Header blocks, encoded-words, parameters and address lists in real and hostile messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import charsets, headers

TEXT = st.text(max_size=200) | st.binary(max_size=200).map(lambda octets: octets.decode("ascii", "surrogateescape"))
SHAPES = st.lists(
    st.sampled_from(
        [
            *('"', "\\", "(", ")", "<", ">", ",", ";", ":", "@", "=", "?", "[", "]", "*", " ", "\t", "\r"),
            *("\n", "\x00", "=?utf-8?q?", "=?x?b?", "?=", "=C3", "a", "\udce9", "\ud800", "''", "a@b.example"),
            "<c@d.example>",
        ]
    )
).map("".join)


def split(block, **arguments):
    warnings = {}
    found = headers.cut(block, **arguments)
    return headers.shown(found, warnings), found.end, list(warnings)


# Splitting a header block into fields


@pytest.mark.parametrize(
    ("block", "fields", "warnings"),
    [
        (b"", [], []),
        (b"A: b\r\nC:d\r\n", [("A", "b"), ("C", "d")], []),
        (b"A: b\n  c\n\td\nE: f", [("A", "b  c\td"), ("E", "f")], []),
        (b"A : b\n", [("A", "b")], []),
        (b"A:\n", [("A", "")], []),
        (b"A: b: c\n", [("A", "b: c")], []),
        (b"A: caf\xe9\n", [("A", "caf\udce9")], []),
        (b" stray\nA: b\n", [("A", "b")], ["Header lines that are not fields were skipped."]),
        (b"A: b\nno field\nC: d\n", [("A", "b"), ("C", "d")], ["Header lines that are not fields were skipped."]),
        (b"From x Fri Nov 20 12:00:00 2026\nA: b\n", [("A", "b")], ["Header lines that are not fields were skipped."]),
    ],
)
def test_a_block_is_split_into_unfolded_fields(block, fields, warnings):
    assert split(block) == (fields, len(block), warnings)


@given(
    st.lists(
        st.sampled_from([b"A", b":", b" ", b"\t", b"\r", b"\n", b"\r\n", b"b: c", b"\xe9", b"\0", b"\x1b$B0!"]),
        max_size=20,
    )
)
def test_a_short_header_is_read_as_a_long_one(pieces):
    block, long = b"A: b\n" + b"".join(pieces), (b"X: " + b"y" * 990 + b"\n") * 9
    fields, end, warnings = split(long + block)
    assert (fields[9:], end - len(long), warnings) == split(block)


@given(
    st.lists(st.sampled_from(["Ann", " ", '"', ",", "<", ">", "a@b.example", "'", "_", "\\"]), max_size=9).map("".join)
)
def test_a_plain_mailbox_is_read_as_any_other(value):
    assert headers.first_mailbox(value) == next(iter(headers.mailboxes(value)), ("", ""))


def test_final_lines_that_are_not_fields_are_left_for_the_body_and_a_long_field_is_cut():
    assert split(b"A: b\nDear reader,\nhello\n") == ([("A", "b")], 5, [])
    fields, _, warnings = split(b"A: " + b"x" * 100_000 + b"\nSubject: here\n")
    assert [len(value) for _, value in fields] == [headers.MAX_FIELD_BYTES - 1, 4]
    assert warnings == [headers.FIELD_CUT]


@pytest.mark.parametrize("space", [b" " * 9_000, b"\r\n " * 3_000, b"\r\n\t \t" * 2_000])
def test_white_space_does_not_end_a_field(space):
    fields, _, warnings = split(b"Subject: Your code" + space + b"is 1234\r\n")
    assert ([(name, value.split()) for name, value in fields], warnings) == (
        [("Subject", ["Your", "code", "is", "1234"])],
        [],
    )


@pytest.mark.parametrize("block", [b"A: b\n" * 200_000, b"A: " + b"x" * 10_000_000, b"A: b\n" + b" \n" * 5_000_000])
def test_a_huge_block_is_cut_with_a_warning(block):
    fields, _, warnings = split(block)
    assert len(fields) <= headers.MAX_FIELDS
    assert sum(len(value) for _, value in fields) <= headers.MAX_HEADER_BYTES
    assert headers.HEADER_CUT in warnings or headers.FIELD_CUT in warnings


@given(st.binary(max_size=300))
def test_splitting_never_fails_and_leaves_no_line_feed(block):
    fields, end, _ = split(block)
    assert 0 <= end <= len(block)
    assert all("\n" not in value for _, value in fields)


# Decoding


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("=?UTF-8?B?w6TDtg==?=", "äö"),
        ("=?utf-8?b?w6TDtg?=", "äö"),  # no padding
        ("=?utf-8?b?w6T*D tg?=", "äö"),  # junk
        ("=?iso-8859-1?q?M=FCller_X?=", "Müller X"),
        ("=?ISO-2022-JP?B?GyRCJCIbKEI=?=", "あ"),
        ("=?utf-8*de?q?=C3=A4?=", "ä"),  # RFC 2231 language
        ("=?utf-8?q?=C3?= =?UTF-8?B?pA==?=", "ä"),  # one character across two words
        ("=?utf-8?q?a?==?utf-8?q?b?=", "ab"),
        ("=?utf-8?q?a?= \t =?koi8-r?q?=C4?=", "aд"),
        ("a =?utf-8?q?b?= c", "a b c"),
        ('"=?utf-8?q?b?=" c', '"b" c'),
        ("x=?utf-8?q?b?=y", "xby"),
        ("=?utf-8?q?two words?=", "two words"),
        ("=?utf-8?q?Really??=", "Really?"),
        ("=?utf-8?q??=", ""),
        ("=?utf-8?q?=ZZ=4?=", "=ZZ=4"),
        ("=?utf-8?q?open =?utf-8?q?ok?=", "=?utf-8?q?open ok"),
        ("=?utf-8?x?no such encoding?=", "=?utf-8?x?no such encoding?="),
        ("=?", "=?"),
        ("=??q?abc?=", "abc"),
        ("=?zlib?b?YWJj?=", "abc"),  # zlib is not a text encoding, so it is treated as unknown
        ("=?latin1?q?M\udcfcller?=", "Müller"),  # a raw byte is decoded in the charset of its word
        ("M\udcfcller \udcc3\udca9", "Müller é"),
        ("=?utf-7?q?+2AA-?=", "\ufffd"),  # a lone surrogate
        ("=?utf-8?q?a=0D=0AB:_c=00=07?=", "a  B: c\ufffd\ufffd"),
        ("tab\there", "tab here"),
        ("\ud800", "\ufffd"),
    ],
)
def test_a_value_is_decoded(value, text):
    assert headers.decode(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=?utf-8?q?Gr=C3?= =?utf8?q?=BC=C3=9Fe?=", "Grüße"),
        ("=?UTF-8?b?44GU?= =?x-unicode-2-0-utf-8?b?44GU?=", "ごご"),
        ("=?iso-2022-jp?b?GyRCLWIbKEI=?= =?cp50220?b?GyRCLSEbKEI=?=", "№①"),
        ("=?latin1?q?=E9?= =?koi8-r?q?=F0?=", "éП"),
    ],
)
def test_words_in_two_names_of_the_same_charset_are_joined(value, text):
    assert headers.decode(value) == text


@pytest.mark.parametrize(
    ("value", "charset", "text"),
    [
        ("\udccf\udcf0\udce8 x", "windows-1251", "При x"),
        # A character whose encoding contains the byte of a backslash.
        ('"\udc95\\ a"', "shift_jis", '"表 a"'),
        ("\udcc3\udca9", "windows-1251", "\udcc3\udca9"),
        ("\udcff", "euc-jp", "\udcff"),
        ("\udcff", "x-unknown", "\udcff"),
        ("plain", "utf-16", "plain"),
    ],
)
def test_bytes_are_decoded_in_the_charset_of_the_message_if_they_are_valid_in_it(value, charset, text):
    assert headers.in_charset(value, charset) == text


def test_iso_2022_is_decoded_before_structure_is_read():
    fields, _, _ = split(b'From: \x1b$B"<(>\x1b(B <a@b.example>\r\nX: \x1b[1m\0\r\n')
    assert headers.first_mailbox(fields[0][1])[1] == "a@b.example"
    assert fields[1][1] == "\x1b[1m\0"


def test_an_unknown_charset_gives_a_warning_and_is_read_as_windows_1252():
    warnings = {}
    assert headers.decode("=?x-unknown?q?caf=E9?=", warnings) == "café"
    assert charsets.UNKNOWN_CHARSET in warnings


@given(TEXT | SHAPES)
def test_decoded_text_is_one_line_without_controls_or_surrogates(value):
    text = headers.decode(value)
    text.encode()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_ascii_is_never_changed_outside_words(value):
    text = value.replace("=?", "= ?")
    assert headers.decode(text) == text


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="=?_")), st.sampled_from("qQ"))
def test_plain_ascii_is_never_dropped_inside_words(value, encoding):
    assert headers.decode(f"=?utf-8?{encoding}?{value}?=") == value


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1))
def test_encoded_text_is_read_back(text):
    octets = text.encode()
    words = [
        f"=?utf-8?q?{''.join(f'={octet:02X}' for octet in octets[at : at + 7])}?=" for at in range(0, len(octets), 7)
    ]
    assert headers.decode(" ".join(words)) == text.removeprefix("\ufeff")


# Parameters


@pytest.mark.parametrize(
    ("value", "main", "parameters"),
    [
        ("", "", {}),
        ("text/plain", "text/plain", {}),
        ("Text/Plain ; Charset=UTF-8", "text/plain", {"charset": "UTF-8"}),
        ('a/b; x="y;z"; q=1', "a/b", {"x": "y;z", "q": "1"}),
        ('a/b; x="say \\"hi\\""', "a/b", {"x": 'say "hi"'}),
        ('a/b; x="C:\\dir\\a.txt"', "a/b", {"x": "C:\\dir\\a.txt"}),
        ('a/b; x="never closed; y=z', "a/b", {"x": "never closed; y=z"}),
        ("a/b; x=two words; y=z", "a/b", {"x": "two words", "y": "z"}),
        ("a/b;;; x ; y=z", "a/b", {"y": "z"}),
        ("a/b; x=1; x=2", "a/b", {"x": "1"}),
        ("a; filename*=utf-8'en'%e2%82%ac", "a", {"filename": "€"}),
        ("a; filename*=iso-8859-1''%e4; filename=x", "a", {"filename": "ä"}),
        ("a; filename*=''%e4", "a", {"filename": "ä"}),
        ("a; f*1*=%A4; f*0*=utf-8''a%C3; f*2=.txt", "a", {"f": "aä.txt"}),
        ('a; f*0="a"; f*1="b"', "a", {"f": "ab"}),
        ('a; f="=?utf-8?q?=C3=A4?= =?utf-8?q?.txt?="', "a", {"f": "ä.txt"}),
        ('a; f="\udce4.txt"', "a", {"f": "ä.txt"}),
        ("a; f*=utf-8''%00%0a%ed%a0%80", "a", {"f": "\ufffd í\xa0€"}),
    ],
)
def test_parameters_are_read(value, main, parameters):
    assert headers.parameters(value) == (main, parameters)


@pytest.mark.parametrize(
    ("value", "main", "parameters"),
    [
        ('multipart/mixed boundary="a b"', "multipart/mixed", {"boundary": "a b"}),
        ("multipart/mixed; charset=utf-8 boundary=x", "multipart/mixed", {"charset": "utf-8", "boundary": "x"}),
        ('text/plain; name="a"charset=utf-8', "text/plain", {"name": "a", "charset": "utf-8"}),
        ("text/plain name*0=a name*1=b", "text/plain", {"name": "ab"}),
        ('charset=binary; name="a b.png"', "", {"charset": "binary", "name": "a b.png"}),
        ("multipart/mixed; boundary=QQ (comment)", "multipart/mixed", {"boundary": "QQ"}),
        ("multipart/mixed (a; b) ; boundary=QQ", "multipart/mixed (a", {"boundary": "QQ"}),
        ("text/plain (US text); charset=utf-8", "text/plain", {"charset": "utf-8"}),
        ("attachment; filename=report (1) b=c.pdf", "attachment", {"filename": "report (1) b=c.pdf"}),
        ('multipart/mixed; boundary="----=_x=?y"', "multipart/mixed", {"boundary": "----=_x=?y"}),
        ("attachment; filename=boundary of x.pdf", "attachment", {"filename": "boundary of x.pdf"}),
    ],
)
def test_a_missing_semicolon_and_a_comment_are_forgiven(value, main, parameters):
    assert headers.parameters(value) == (main, parameters)


@given(TEXT | SHAPES)
def test_any_parameters_give_clean_text(value):
    main, found = headers.parameters("a/b;" + value)
    assert main == "a/b"
    for text in found.values():
        text.encode()
        assert "\0" not in text


# Address lists


@pytest.mark.parametrize(
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
        ("=?utf-8?q?a=40b?=", "", "a@b"),
        ("J\udcf6rg <j@example.org>", "Jörg", "j@example.org"),
        ("jörg@bücher.example", "", "jörg@bücher.example"),
    ],
)
def test_the_first_mailbox_is_read(value, name, address):
    assert headers.first_mailbox(value) == (name, address)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("value", "found"),
    [
        # Some programs encode the whole list.
        ("=?utf-8?b?5YiY5piOIDxsbUBtYWlsLmV4YW1wbGU+?=", [("刘明", "lm@mail.example")]),
        ('=?utf-8?q?"M=C3=BCller,_J"_<j@m.example>?=', [("Müller, J", "j@m.example")]),
        ("=?utf-8?q?J=C3=B6rg?= =?utf-8?q?_M_=3Cj@m.example=3E?=", [("Jörg M", "j@m.example")]),
        ("=?utf-8?q?A_=3Ca=40a.example=3E=2C_b=40b.example?=", [("A", "a@a.example"), ("", "b@b.example")]),
        ("=?utf-8?q?a=40b.example?=", [("", "a@b.example")]),
        ("=?utf-8?q?only_a_name?=", [("only a name", "")]),
        # The encoded-word is not decoded if there is an address, because other programs use that address.
        ("=?utf-8?q?ceo=40bank.example?= <a@b.example>", [("ceo@bank.example", "a@b.example")]),
        ("=?utf-8?q?=3Cceo=40bank.example=3E?=, a@b.example", [("", "a@b.example")]),
        # An encoded-word is decoded only once.
        ("=?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3D40b.example=3F=3D?=", [("=?utf-8?q?a=40b.example?=", "")]),
        # Outlook quotes messages in this form.
        ("Kate [mailto:k@b.example]", [("Kate", "k@b.example")]),
        ("[MAILTO:k@b.example], Jo [j@b.example]", [("", "k@b.example"), ("Jo", "j@b.example")]),
        ("[x@y] Kate <k@b.example>", [("[x@y] Kate", "k@b.example")]),
        ("[Team] k@b.example", [("", "k@b.example")]),
    ],
)
def test_an_address_is_found_in_encoded_words_and_square_brackets(value, found):
    assert headers.mailboxes(value) == found
    assert headers.first_mailbox(value) == found[0]


@given(TEXT | SHAPES)
def test_all_mailboxes_begin_with_the_first_and_are_clean_text(value):
    first, found = headers.first_mailbox(value), headers.mailboxes(value)
    assert found[0] == first if first[1] else ("", "") not in found
    for text in (text for mailbox in (first, *found) for text in mailbox):
        text.encode()
        assert not any(character in text for character in "\r\n\0")


ADDRESS = st.from_regex(r"[a-z]{1,5}@[a-z]{1,5}\.example", fullmatch=True)
NAME = st.text("ab c,;:<>()@äé.", max_size=8).map(lambda text: " ".join(f"A{text}".split()))


@given(st.lists(st.tuples(NAME, ADDRESS), max_size=8))
def test_quoted_text_is_read_back(written):
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
def test_comments_are_removed(value, without):
    assert headers.without_comments(value) == without


# Time


@pytest.mark.parametrize(
    "piece",
    [
        *("=?", '"', '"\\"', '\\"', "(", "(()", ")", "<", ",", "a,", "=?a?q?", "=?a?b?AAA", "?=", "=", "["),
        *(":;", ";a=", ';a="', ";a*0*=", ";a*=''%41", "; ;", " ", "\udcff"),
    ],
)
@pytest.mark.parametrize("read", [headers.decode, headers.parameters])
def test_reading_takes_linear_time(read, piece):
    assert_linear(read, piece * (60_000 // len(piece)))


@pytest.mark.parametrize(
    "piece",
    [
        *[
            *('"\\"', '\\"', "(()", "\\(", "a,", "a:;", "a@b,", "a@b;", "a@b ", "<a>", "<a>,", "(a)<b>"),
            *("=?a?q?", "?="),
        ],
        *'"(<)[:,;=\\ \udcff',
    ],
)
@pytest.mark.parametrize("read", [headers.first_mailbox, headers.mailboxes, headers.without_comments])
def test_reading_address_lists_takes_linear_time(read, piece):
    assert_linear(read, piece * (8000 // len(piece)))
