"""What is plainly hidden in HTML is not read. Every form was shown in Chromium: "secret" is hidden there, "shown" is not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tables import rows_of, table
from tmpmaild.mail import hiding
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cascade import MAX_SELECTORS, Cascade, sheets_of
from tmpmaild.mail.htmltext import links, to_text
from tmpmaild.mail.htmltokens import tokens
from tmpmaild.mail.stylesheets import MAX_CHARACTERS

ROWS = rows_of(__file__)

FORMS = ROWS["FORMS"]
# Hidden in a browser, and read all the same.
NOT_RECOGNISED = ROWS["NOT_RECOGNISED"]


def words(html):
    return sorted(re.findall("secret|shown", to_text(html)))


def test_what_is_plainly_hidden_is_not_read_and_what_is_shown_is():
    read = {html: words(html) for html in FORMS}
    assert {html: found for html, found in read.items() if found != re.findall("shown", html)} == {}
    assert [html for html in NOT_RECOGNISED if words(html).count("shown") != html.count("shown")] == []


@table("html", ROWS["hiding ends where a browser ends the element"])
def test_hiding_ends_where_a_browser_ends_the_element(html):
    page = html if html.startswith("<!") else f"<p>Hello</p>{html}"
    assert words(page) == re.findall("shown", html)


@table("times", [40_000, 80_000])
def test_a_mail_too_large_to_be_read_again_keeps_what_was_read(times):
    assert words("<p>shown</p><td><div hidden>no</td>" + "<b>x</b>" * times)[:1] == ["shown"]


@pytest.mark.parametrize("piece", ROWS["following what is open takes linear time"])
def test_following_what_is_open_takes_linear_time(piece):
    assert_linear(lambda text: to_text(f"<b><span><p>{'<i>' * 99}{text}<div hidden>"), piece * (100_000 // len(piece)))


# Each hides a run of text in an element that begins a line.
HIDING = ROWS["HIDING"]
BOXES = ROWS["BOXES"]
"""What hides only elements that are boxes."""
NOT_HIDING, SELECTORS = ROWS["NOT_HIDING"], ROWS["SELECTORS"]
PIECES = st.lists(st.sampled_from(ROWS["PIECES"]), max_size=6).map("".join)
SHEETS = st.lists(st.sampled_from(ROWS["SHEETS"]), max_size=3).map("".join)


@given(
    st.sampled_from(HIDING + NOT_HIDING),
    st.sampled_from(SELECTORS),
    st.tuples(PIECES, PIECES, PIECES),
    SHEETS,
    st.booleans(),
)
def test_a_rule_of_a_sheet_does_what_the_same_style_does(style, selector, pieces, sheet, comes_last):
    before, run, after = pieces
    rule = f"{selector}{{{style}}}" + "}" * selector.count("{")
    inline, ruled = (
        f"<style>{sheet if comes_last else ''}{one}{'' if comes_last else sheet}</style>"
        f"{before}<section {attributes}>secret {run}</section>{after}"
        for one, attributes in (("", f'style="{style}"'), (rule, 'class="t s" id=s'))
    )
    assert to_text(ruled) == to_text(inline)
    assert links(ruled) == links(inline)


@pytest.mark.parametrize("style", HIDING)
@pytest.mark.parametrize("selector", SELECTORS)
def test_a_code_and_a_link_that_a_rule_hides_are_not_found(style, selector):
    rule = f"{selector}{{{style}}}" + "}" * selector.count("{")
    html = f"<style>{rule}</style><p>Hello</p><section class='t s' id=s>Your code is 481516</section>"
    assert "481516" not in to_text(html)
    inner = f"<style>{rule.replace('section', 'a')}</style><a class='t s' id=s href=https://a.test/confirm>Confirm</a>"
    if style not in BOXES:
        assert links(inner) == []


@pytest.mark.parametrize("style", ["font-size:0", "color:transparent"])
def test_the_address_of_a_link_whose_text_is_invisible_is_not_read(style):
    link = f"<a href=https://evil.test/ style='{style}'>secret</a>"
    assert to_text(f"<p>Hello {link}</p>shown") == "Hello\n\nshown"
    assert to_text(f"<p style='{style}'><br><a href=https://a.test/><b>shown</b></a></p>") == "shown <https://a.test/>"
    assert to_text(f"<a href=https://a.test/ style='{style}'>x<img></a>") == "<https://a.test/>"


def test_a_link_of_which_only_a_part_is_invisible_is_one_and_one_hidden_by_a_class_is_none():
    assert list(links("<a href=https://a.test/><b style='font-size:0'>no</b>yes</a>")) == [
        ("", "https://a.test/", "yes")
    ]
    image = "<a href=https://a.test/ style='font-size:0'> <img src=x></a>"
    assert links(image) == [("", "https://a.test/", "")]
    html = "<style>.x{display:none}</style><p class=x><a href=https://a.test/>a</a></p><a href=https://b.test/>b</a>"
    assert [text for _, _, text in links(html)] == ["b"]


@pytest.mark.parametrize("piece", ROWS["reading a sheet takes linear time"])
def test_reading_a_sheet_takes_linear_time(piece):
    assert_linear(lambda text: to_text(f"<style>{text}</style><p class=a>x"), piece * (40_000 // len(piece)))


@table("pieces", ROWS["rules times blocks or elements are not counted out"])
def test_rules_times_blocks_or_elements_are_not_counted_out(pieces):
    """Each piece stands once, or so many times for each of 2,500; in a ◊ is the how manieth it is."""

    def html(numbers):
        each = ((piece, at) for piece, times in pieces for at in range(times * len(numbers) or 1))
        return "".join(piece.replace("◊", str(at)) for piece, at in each)

    assert_linear(lambda numbers: to_text(html(numbers)), range(2500))
    assert_linear(lambda numbers: links(html(numbers)), range(2500))


def test_the_quick_look_at_a_sheet_misses_nothing_that_hides():
    styles = [style for html in FORMS for style in re.findall(r"style=\"([^\"]*)\"", html)] + HIDING
    for style in styles:
        plain = hiding.plain(style)
        if hiding.may_hide_by_rule(hiding.declared(plain), on_white=True):
            assert hiding.is_suspicious(plain.lower()), style
            assert hiding.may_hide(f'style="{style}"'), style


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
    ("sheet", "value"), ROWS["the rule of the highest rank wins and a doubtful one decides nothing"]
)
def test_the_rule_of_the_highest_rank_wins_and_a_doubtful_one_decides_nothing(sheet, value):
    assert style([sheet], **{"class": "x y", "id": "i"})["opacity"] == value


def test_sheets_for_other_media_may_apply_and_what_is_no_css_does_not():
    html = (
        "<style>a</style><style media=screen>b</style><style media='(width)'>c</style><style type=text/less>d</style>"
    )
    assert list(sheets_of(tokens(html, Budget(), sheets=True))) == [("a", True), ("b", True), ("c", False)]


def test_no_more_is_read_than_a_view_shows_and_many_rules_for_a_name_are_paid_for():
    html = f"<style>{'x' * MAX_CHARACTERS}</style><style>.x</style>"
    assert [len(text) for text, _ in sheets_of(tokens(html, Budget(), sheets=True))] == [MAX_CHARACTERS, 0]
    rules = ["a{top:0}" * (MAX_SELECTORS - 1), ".x{display:none}"]
    assert style(rules, **{"class": "x"}) == {"display": "none"}
    assert style(["a{top:0}", *rules], **{"class": "x"}) is None
    budget = Budget(100)
    cascade(".x{display:none}" * 1000).style("p", {"class": "x"}, budget)
    assert budget.is_spent
