"""The lines and sentences of a text, without URLs, markup and quoted messages."""

import pytest

from tmpmaild.findings.plaintext import MAX_LINES, plain_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one\ntwo", ["one", "two"]),
        ("  a \t b\u00a0c \n\n \n d ", ["a b c", "d"]),
        ("First sentence. Second one! Third", ["First sentence.", "Second one!", "Third"]),
        ("Order no. 5, tel. 0800", ["Order no. 5, tel. 0800"]),
        ("Open the app. Then", ["Open the app.", "Then"]),
        ("これ。それ\uff01", ["これ", "それ"]),
        ("first\n> Your code\n> 1234\nlast", ["first", "> 1234", "last"]),
        ("see https://x.example/a?b=1 or <https://y.example>", ["see \ufffc or < \ufffc >"]),
        ("/login/code 4815, PIN/TAN 48", ["\ufffc 4815, PIN/TAN 48"]),
        ("write to a.b+c@x.example, please", ["write to \ufffc , please"]),
        ("4\n\n8\n1\n5\nend", ["4 8 1 5", "end"]),
        ("4\n8\n1", ["4", "8", "1"]),
        ("4\u200b8\ufeff1 e\u0301", ["481 e"]),
        ("\u0664\u0668 \uff14\uff18 \uff2b", ["48 48 K"]),
    ],
)
def test_a_text_becomes_lines(text, lines):
    assert plain_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Your code is <b>4815</b>.</p>", ["Your code is 4815 ."]),
        ("<del>1234</del> 4815", ["4815"]),
        ("~~1234~~ 4815", ["4815"]),
    ],
)
def test_markup_and_struck_out_text_are_removed(text, lines):
    assert plain_lines(text) == lines


def test_the_header_and_the_text_of_an_earlier_message_are_removed():
    earlier = "-----Original Message-----\nFrom: Ada\nSubject: Your code\n\nYour code is 1234"
    assert plain_lines(f"It works.\n{earlier}") == ["It works."]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        pytest.param("<#> 4815 is your code\nFA+9qCX9VSu", "<#> 4815 is your code", id="marked"),
        pytest.param("4815 is your code\nFA+9qCX9VSu", "4815 is your code", id="in a line below a number"),
        pytest.param("Your code:\nFA+9qCX9VSu", "FA+9qCX9VSu", id="no other number"),
    ],
)
def test_the_word_that_identifies_an_app_is_removed(text, last):
    assert plain_lines(text)[-1] == last


def test_long_lines_are_broken_between_words_and_lines_beyond_a_limit_are_ignored():
    pieces = plain_lines("word " * 1000)
    assert max(map(len, pieces)) <= 800
    assert "".join(pieces).count("word") == 1000
    assert all(piece.strip().endswith("word") for piece in pieces)
    assert len(plain_lines("word\n" * 10_000)) == MAX_LINES
