"""Text for a terminal: harmless, and no wider than allowed."""

from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.cli.console import cut, shown, width, wrapped

TEXTS = st.text(st.sampled_from("ab 你好e\u0301\u200d👩ü\u202e\x1b"), max_size=60)
COLUMNS = st.integers(2, 20)


def test_columns_are_counted_as_on_a_terminal_cuts_are_marked_and_lines_break_between_words():
    assert [width(text) for text in ("ab", "你好", "e\u0301", "\u200d", "ｱ", "\uff21")] == [2, 4, 1, 0, 1, 2]
    assert [cut("hello", 5), cut("hello", 4), cut("你好", 3), cut("", 1)] == ["hello", "hel…", "你…", ""]
    assert list(wrapped("one two threefour 你好你好", 5)) == ["one", "two", "three", "four", "你好", "你好"]
    assert len(cut("a" + "\u0301" * 10_000, 10)) <= 40


@given(TEXTS, COLUMNS)
def test_no_line_is_wider_than_allowed(text, columns):
    assert width(cut(text, columns)) <= columns
    assert all(width(piece) <= columns for piece in wrapped(text, columns))


@given(TEXTS, COLUMNS)
def test_wrapping_loses_only_spaces(text, columns):
    assert "".join(wrapped(text, columns)).replace(" ", "") == text.replace(" ", "")


def test_control_characters_are_replaced():
    assert shown("a\x1b[2J\x9b\u202e\n", keep="\n") == "a\ufffd[2J\ufffd\ufffd\n"
