"""Which declarations of a mail's sheets win for an element, and how much of them is read."""

import pytest

from tables import rows_of
from tmpmaild.mail.hiding import MAX_CHARACTERS, MAX_SELECTORS, Cascade, sheets_of
from tmpmaild.mail.htmltokens import Budget, tokens

ROWS = rows_of(__file__)


def cascade(*sheets):
    return Cascade((sheet, True) for sheet in sheets)


def style(sheets, name="p", **attributes):
    return cascade(*sheets).style(name, attributes, Budget())


def test_an_element_that_no_rule_may_hide_has_no_style_here():
    assert style([".x{display:none}"], **{"class": "y"}) is None
    assert style([".x{color:red}"], **{"class": "x"}) is None


@pytest.mark.parametrize(
    ("sheet", "value"), ROWS["the rule of the highest rank wins and a doubtful one decides nothing"]
)
def test_the_rule_of_the_highest_rank_wins_and_a_doubtful_one_decides_nothing(sheet, value):
    assert style([sheet], **{"class": "x y", "id": "i"})["opacity"] == value


def test_a_style_attribute_wins_over_rules_without_important():
    given = {"class": "x", "style": "opacity:1"}
    assert style([".x{opacity:0}"], **given)["opacity"] == "1"
    assert style([".x{opacity:0!important}"], **given)["opacity"] == "0"


def test_sheets_for_other_media_may_apply_and_what_is_no_css_does_not():
    html = (
        "<style>a</style><style media=screen>b</style><style media='(width)'>c</style><style type=text/less>d</style>"
    )
    assert list(sheets_of(tokens(html, Budget(), sheets=True))) == [("a", True), ("b", True), ("c", False)]


def test_no_more_is_read_than_a_view_shows():
    html = f"<style>{'x' * MAX_CHARACTERS}</style><style>.x</style>"
    assert [len(text) for text, _ in sheets_of(tokens(html, Budget(), sheets=True))] == [MAX_CHARACTERS, 0]
    rules = ["a{top:0}" * (MAX_SELECTORS - 1), ".x{display:none}"]
    assert style(rules, **{"class": "x"}) == {"display": "none"}
    assert style(["a{top:0}", *rules], **{"class": "x"}) is None


def test_many_rules_for_a_name_are_paid_for():
    budget = Budget(100)
    cascade(".x{display:none}" * 1000).style("p", {"class": "x"}, budget)
    assert budget.is_spent
