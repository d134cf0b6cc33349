"""What a text looks like when it is made plain, and what in it could be a code."""

import pytest

from tables import rows_of, table
from tmpmaild.findings import candidates
from tmpmaild.findings.candidates import Kind
from tmpmaild.findings.plaintext import MAX_LINES, plain_lines

ROWS = rows_of(__file__)


@pytest.mark.parametrize(("text", "lines"), ROWS["a text becomes lines"])
def test_a_text_becomes_lines(text, lines):
    assert plain_lines(text) == lines


def test_of_very_long_lines_very_many_lines_and_very_many_numbers_the_beginning_is_read():
    pieces = plain_lines("word " * 1000)
    assert max(map(len, pieces)) <= 800
    assert "".join(pieces).count("word") == 1000
    assert all(piece.strip().endswith("word") for piece in pieces)
    assert len(plain_lines("word\n" * 10_000)) == MAX_LINES
    found = candidates.find(["123456, " * 1000])
    assert len(found[0]) == candidates.MAX_CANDIDATES


def test_a_shape_knows_its_place_and_ends_where_a_reader_would_end_it():
    (shape,) = candidates.find(["none", "it is 481 516 here"])[1]
    assert (shape.start, shape.end, shape.value, shape.kind) == (6, 13, "481516", Kind.DIGITS)
    assert not candidates.find(["2026年11月23日", "2026년 11월"])
    assert [shape.value for shape in candidates.find(["481516\u0589"])[0]] == ["481516"]
    (shape,) = candidates.find(["码481516,5分钟"])[0]
    assert (shape.end, shape.value) == (7, "481516")
    assert not candidates.find(["481516,50元"])


@table(("line", "kinds"), ROWS["a shape knows what it is made of"])
def test_a_shape_knows_what_it_is_made_of(line, kinds):
    assert [shape.kind.name for shapes in candidates.find([line]).values() for shape in shapes] == kinds


@pytest.mark.parametrize(("better", "worse"), ROWS["some shapes look more like a code than others"])
def test_some_shapes_look_more_like_a_code_than_others(better, worse):
    def score(line):
        shapes = candidates.find([line]).get(0, [])
        return shapes[0].score if shapes else 0

    assert score(better) > score(worse)
