"""What is left of foreign text for an agent."""

import pytest

from tables import rows_of
from tmpmaild.mcp_server import answers

ROWS = rows_of(__file__)


@pytest.mark.parametrize(
    ("text", "shown"),
    ROWS["what is not shown is removed"],
)
def test_what_is_not_shown_is_removed(text, shown):
    assert answers.visible(text, 100) == answers.Cut(text=shown, is_cut=False)


def test_a_text_is_cut_after_what_is_not_shown_was_removed():
    assert answers.visible("\u200b" * 500 + "abc", 2) == answers.Cut(text="ab", is_cut=True)
    assert answers.visible("\u200b" * 2_000_000 + "abc", 2) == answers.Cut(text="", is_cut=True)
    assert answers.line(" a\n\tb  c\u2028d ", 100) == "a b c d"
    assert answers.line("abcdef", 3) == "abc…"


def test_a_link_leads_where_it_led_and_shows_all_of_it():
    plain = "https://shop.example/confirm?t=8kq2&x=%20é"
    assert answers.link(plain) == plain
    assert answers.link("https://shop.example/\u202ex\u200b") == "https://shop.example/%E2%80%AEx%E2%80%8B"
    assert answers.link("https://a.example/\ud800") == "https://a.example/%3F"
