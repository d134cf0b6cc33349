"""Header blocks, encoded-words and parameters as real and hostile mail writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear
from tables import table
from tmpmaild.mail import charsets, headers

TEXT = st.text(max_size=200) | st.binary(max_size=200).map(lambda octets: octets.decode("ascii", "surrogateescape"))
SHAPES = st.lists(
    st.sampled_from([*'"\\()<>,;:@=?[]* \t\r\n\0', "=?utf-8?q?", "=?x?b?", "?=", "=C3", "a", "\udce9", "\ud800", "''"])
).map("".join)


def split(block, **arguments):
    warnings = {}
    found = headers.cut(block, **arguments)
    return headers.shown(found, warnings), found.end, list(warnings)


# Splitting a block


@pytest.mark.parametrize(
    ("block", "fields", "warnings"),
    [
        (b"", [], []),
        (b"A: b\r\nC:d\r\n", [("A", "b"), ("C", "d")], []),
        (b"A: b\n  c\n\td\nE: f", [("A", "b  c\td"), ("E", "f")], []),
        (b"A : b\n", [("A", "b")], []),
        (b"A:\n", [("A", "")], []),
        (b"A: b: c\n", [("A", "b: c")], []),
        (b" stray\nA: b\n", [("A", "b")], [headers.NO_FIELD]),
        (b"A: b\nno field\nC: d\n", [("A", "b"), ("C", "d")], [headers.NO_FIELD]),
        (b"From x Fri Nov 20 12:00:00 2026\nA: b\n", [("A", "b")], [headers.NO_FIELD]),
        (b"A: caf\xe9\n", [("A", "caf\udce9")], []),
    ],
)
def test_a_block_is_split_into_unfolded_fields(block, fields, warnings):
    assert split(block) == (fields, len(block), warnings)


@given(
    st.lists(st.sampled_from([b"A", b":", b" ", b"\t", b"\r", b"\n", b"\r\n", b"b: c", b"\xe9", b"\0"]), max_size=20)
)
def test_a_short_header_is_read_as_a_long_one(pieces):
    block, long = b"A: b\n" + b"".join(pieces), b"X: " + b"y" * 990 + b"\n"
    fields, end, warnings = split(long + block)
    assert (fields[1:], end - len(long), warnings) == split(block)


def test_lines_at_the_end_that_are_no_fields_are_left_for_the_body():
    assert split(b"A: b\nDear reader,\nhello\n") == ([("A", "b")], 5, [])


def test_a_long_field_is_cut_and_the_next_is_still_read():
    fields, _, warnings = split(b"A: " + b"x" * 100_000 + b"\nSubject: here\n")
    assert [len(value) for _, value in fields] == [headers.MAX_FIELD_BYTES - 1, 4]
    assert warnings == [headers.FIELD_CUT]


@pytest.mark.parametrize("space", [b" " * 9_000, b"\r\n " * 3_000, b"\r\n\t \t" * 2_000])
def test_white_space_cuts_no_field(space):
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


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_splitting_never_fails_and_leaves_no_line_feed(block):
    fields, end, _ = split(block)
    assert 0 <= end <= len(block)
    assert all("\n" not in value for _, value in fields)


# Decoding


@table(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("=?UTF-8?B?w6TDtg==?=", "äö"),
        ("=?utf-8?b?w6TDtg?=", "äö"),  # no padding
        ("=?utf-8?b?w6T*D tg?=", "äö"),  # junk
        ("=?iso-8859-1?q?M=FCller_X?=", "Müller X"),
        ("=?ISO-2022-JP?B?GyRCJCIbKEI=?=", "あ"),
        ("=?utf-8*de?q?=C3=A4?=", "ä"),  # RFC 2231 language
        ("=?utf-8?q?=C3?= =?UTF-8?B?pA==?=", "ä"),  # one character over two words
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
        ("=?zlib?b?YWJj?=", "abc"),  # no text encoding, so it is unknown
        ("=?latin1?q?M\udcfcller?=", "Müller"),  # a raw octet belongs to the charset of its word
        ("M\udcfcller \udcc3\udca9", "Müller é"),
        ("=?utf-7?q?+2AA-?=", "\ufffd"),  # a lone surrogate
        ("=?utf-8?q?a=0D=0AB:_c=00=07?=", "a  B: c\ufffd\ufffd"),
        ("tab\there", "tab here"),
        ("\ud800", "\ufffd"),
    ],
)
def test_a_value_is_decoded(value, text):
    assert headers.decode(value) == text


def test_an_unknown_charset_is_warned_of_and_read_as_windows_1252():
    warnings = {}
    assert headers.decode("=?x-unknown?q?caf=E9?=", warnings) == "café"
    assert charsets.UNKNOWN_CHARSET in warnings


@settings(deadline=None)
@given(TEXT | SHAPES)
def test_decoded_text_is_one_line_without_controls_or_surrogates(value):
    text = headers.decode(value)
    text.encode()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_ascii_is_never_changed_outside_words(value):
    text = value.replace("=?", "= ?")
    assert headers.decode(text) == text


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="=?_")), st.sampled_from("qQ"))
def test_plain_ascii_is_never_dropped_inside_words(value, encoding):
    assert headers.decode(f"=?utf-8?{encoding}?{value}?=") == value


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1))
def test_what_was_encoded_comes_back(text):
    octets = text.encode()
    words = [
        f"=?utf-8?q?{''.join(f'={octet:02X}' for octet in octets[at : at + 7])}?=" for at in range(0, len(octets), 7)
    ]
    assert headers.decode(" ".join(words)) == text.removeprefix("\ufeff")


# Parameters


@table(
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


@settings(deadline=None)
@given(TEXT | SHAPES)
def test_any_parameters_give_clean_text(value):
    main, found = headers.parameters("a/b;" + value)
    assert main == "a/b"
    for text in found.values():
        text.encode()
        assert "\0" not in text


# base64


@pytest.mark.parametrize(
    ("data", "octets", "sound"),
    [
        (b"", b"", True),
        (b"YWJj\r\nZGVm\r\n", b"abcdef", True),
        (b"YWJjZA==", b"abcd", True),
        (b"YWJjZA", b"abcd", False),
        (b"YW!Jj*ZA==", b"abcd", False),
        (b"YQ==YmM=", b"abc", False),
        (b"YWJjZ", b"abc", False),
        (b"=====", b"", False),
    ],
)
def test_base64_is_decoded_whatever_stands_between(data, octets, sound):
    assert headers.base64_octets(data) == (octets, sound)


@given(
    st.lists(st.sampled_from([b"AAAA", b"Zm9v", b"Zg==", b"=", b"\r\n", b" ", b"A", b"-"]), max_size=30),
    st.integers(1, 9),
)
def test_base64_does_not_depend_on_the_steps_it_is_decoded_in(pieces, step_bytes):
    data = b"".join(pieces)
    whole = headers.base64_octets(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headers, "_BASE64_STEP_BYTES", step_bytes)
        assert headers.base64_octets(memoryview(data)) == whole


# Time


@table(
    "piece",
    [
        "=?",
        '"',
        '"\\"',
        '\\"',
        "(",
        "(()",
        ")",
        "<",
        ",",
        "a,",
        "=?a?q?",
        "=?a?b?AAA",
        "?=",
        "=",
        "[",
        ":;",
        ";a=",
        ';a="',
        ";a*0*=",
        ";a*=''%41",
        "; ;",
        " ",
        "\udcff",
    ],
)
@table("read", [headers.decode, headers.parameters])
def test_reading_takes_linear_time(read, piece):
    assert_linear(read, piece * (60_000 // len(piece)))
