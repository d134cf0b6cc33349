"""The style sheet rules that apply to an element; a rule that may not apply is ignored."""

import pytest

from growth import assert_linear
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cascade import MAX_SELECTORS, Cascade, sheets_of
from tmpmaild.mail.htmltext import links, to_text
from tmpmaild.mail.htmltokens import tokens
from tmpmaild.mail.stylesheets import MAX_CHARACTERS


@pytest.mark.parametrize(
    "piece",
    [
        *("{", "}", "{}", ".a{display:none}", "@media{", "/*", "/**/", "\\", ".a,", ";", "x{opacity:0"),
        ".a{position:absolute;",
    ],
)
def test_reading_a_sheet_takes_linear_time(piece):
    assert_linear(lambda text: to_text(f"<style>{text}</style><p class=a>x"), piece * (40_000 // len(piece)))


@pytest.mark.parametrize(
    "pieces",
    [
        [("<style>", 0), (".a{opacity:1}", 0), ("@media all{", 1), ("{}", 5), ("</style>", 0)],
        [("<style>.a{", 0), ("b:;", 1), ("opacity:1}</style>", 0), ("<br class=a>", 1)],
        [("<style>", 0), (".a{opacity:0}", 1), ("</style>", 0), ("<br class=a>", 1)],
        [("<style>.a{opacity:0}", 0), (".a.b◊{color:red}", 1), ("</style>", 0), ("<br class=a title=◊>", 1)],
        [("<a href=https://a.test/>", 0), ("x<b style='font-size:0'>y</b>", 1)],
        [("<style>.a{opacity:0}", 0), (".a,", 1), ("a{top:0}</style>", 0), ("<br class=a>", 1)],
    ],
)
def test_the_cost_is_not_the_product_of_rules_and_blocks_or_elements(pieces):
    """Each piece occurs once, or ``times`` times for each of 2,500 numbers. ◊ is replaced by a counter."""

    def html(numbers):
        each = ((piece, at) for piece, times in pieces for at in range(times * len(numbers) or 1))
        return "".join(piece.replace("◊", str(at)) for piece, at in each)

    assert_linear(lambda numbers: to_text(html(numbers)), range(2500))
    assert_linear(lambda numbers: links(html(numbers)), range(2500))


def cascade(*sheets):
    return Cascade((sheet, True) for sheet in sheets)


def style(sheets, name="p", **attributes):
    return cascade(*sheets).style(name, attributes, Budget())


def test_an_element_that_no_rule_may_hide_has_no_style_and_a_style_attribute_wins_over_rules():
    assert style([".x{display:none}"], **{"class": "y"}) is None
    assert style([".x{color:red}"], **{"class": "x"}) is None
    given = {"class": "x", "style": "opacity:1"}
    assert style([".x{opacity:0}"], **given)["opacity"] == "1"
    assert style([".x{opacity:0!important}"], **given)["opacity"] == "0"


@pytest.mark.parametrize(
    ("sheet", "value"),
    [
        (".x{opacity:0}.x{opacity:1}", "1"),
        ("p.x{opacity:0}.x{opacity:1}", "0"),
        ("#i{opacity:0}p.x.y{opacity:1}", "0"),
        (".x{opacity:0}*{opacity:1}p{opacity:1}", "0"),
        (".x{opacity:0}p{opacity:1!important}", "1"),
        (".x{opacity:0!important}#i{opacity:1}", "0"),
        (".x{opacity:0}.x:hover{opacity:1}", "?"),
        ("p.x{opacity:0}p:hover{opacity:1}", "?"),
        (".x{opacity:0}.x:hover{opacity:0}", "0"),
        ("p.x{opacity:0}@media(max-width:1px){.x{opacity:1}}", "0"),
        ("p.x{opacity:0}@media(max-width:1px){.x{opacity:1!important}}", "?"),
        (".x{opacity:0}@media print{.x{opacity:1!important}}", "0"),
    ],
)
def test_the_rule_of_the_highest_rank_wins_and_a_doubtful_rule_is_ignored(sheet, value):
    assert style([sheet], **{"class": "x y", "id": "i"})["opacity"] == value


def test_sheets_for_other_media_may_apply_and_text_that_is_not_css_does_not():
    html = (
        "<style>a</style><style media=screen>b</style><style media='(width)'>c</style><style type=text/less>d</style>"
    )
    assert list(sheets_of(tokens(html, Budget(), sheets=True))) == [("a", True), ("b", True), ("c", False)]


def test_reading_stops_where_a_view_does_and_many_rules_for_a_name_use_up_the_budget():
    html = f"<style>{'x' * MAX_CHARACTERS}</style><style>.x</style>"
    assert [len(text) for text, _ in sheets_of(tokens(html, Budget(), sheets=True))] == [MAX_CHARACTERS, 0]
    rules = ["a{top:0}" * (MAX_SELECTORS - 1), ".x{display:none}"]
    assert style(rules, **{"class": "x"}) == {"display": "none"}
    assert style(["a{top:0}", *rules], **{"class": "x"}) is None
    budget = Budget(100)
    cascade(".x{display:none}" * 1000).style("p", {"class": "x"}, budget)
    assert budget.is_spent
