"""What a text looks like when it is made plain, and what in it could be a code."""

import pytest

from tmpmaild.findings import candidates
from tmpmaild.findings.candidates import Kind


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
    assert candidates.plain_lines(text) == lines


def test_a_line_of_inhuman_length_is_broken_between_words():
    pieces = candidates.plain_lines("word " * 1000)
    assert max(map(len, pieces)) <= 800
    assert "".join(pieces).count("word") == 1000
    assert all(piece.strip().endswith("word") for piece in pieces)


def test_of_very_many_lines_the_beginning_is_read():
    assert len(candidates.plain_lines("word\n" * 10_000)) == candidates.MAX_LINES


def test_of_very_many_numbers_the_first_are_looked_at():
    found = candidates.find(["123456, " * 1000])
    assert len(found[0]) == candidates.MAX_SHAPES


def test_a_shape_knows_its_line_and_place():
    (shape,) = candidates.find(["none", "it is 481 516 here"])[1]
    assert (shape.start, shape.end, shape.value, shape.kind) == (6, 13, "481516", Kind.DIGITS)


def test_a_year_of_a_date_is_no_shape_and_an_armenian_full_stop_ends_one():
    assert not candidates.find(["2026年11月23日", "2026년 11월"])
    assert [shape.value for shape in candidates.find(["481516\u0589"])[0]] == ["481516"]


def test_minutes_behind_an_ascii_comma_do_not_belong_to_a_number():
    (shape,) = candidates.find(["码481516,5分钟"])[0]
    assert (shape.end, shape.value) == (7, "481516")
    assert not candidates.find(["481516,50元"])


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("481516", [Kind.DIGITS]),
        ("G-481516", [Kind.MIXED]),
        ("BMS 3PT", [Kind.MIXED]),
        ("2026", [Kind.YEAR]),
        ("K7M3Q9", [Kind.MIXED]),
        ("K7M-3Q9", [Kind.MIXED]),
        ("KXQWPZ", [Kind.LETTERS]),
        ("KXQ-WPZ", [Kind.LETTERS]),
        ("K X Q W", [Kind.LETTERS]),
        ("correct-horse-battery", [Kind.WORDS]),
        ("plain lower words, Names and numbers 12", []),
        ("SIGN-IN E-MAIL UTF-8", []),
    ],
)
def test_a_shape_knows_what_it_is_made_of(line, kinds):
    assert [shape.kind for shapes in candidates.find([line]).values() for shape in shapes] == kinds


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("481516", "4815"),
        ("4815", "2026"),
        ("K7M3Q9", "SAVE20"),
        ("K7M3Q9", "k7m3q9"),
        ("K7M3Q9", "K7M3"),
        ("K7M3-Q9XZ", "K7M3Q-9XZ"),
        ("K7M3Q-9XZ4", "ORDER-12"),
        ("correct-horse-battery", "up-front"),
    ],
)
def test_some_shapes_look_more_like_a_code_than_others(better, worse):
    def score(line):
        shapes = candidates.find([line]).get(0, [])
        return shapes[0].score if shapes else 0

    assert score(better) > score(worse)
