"""Tag soup keeps its meaning, without constructs that are expensive for a parser."""

import re

import nh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tmpmaild.mail.htmltokens import ELEMENTS, FORMATTING, VOIDS
from tmpmaild.mail.htmlview import render
from tmpmaild.mail.tagsoup import MAX_DEPTH, MAX_FORMATTING, Bounds, TooLargeError

PARSER = nh3.Cleaner(tags=ELEMENTS, attributes={}, link_rel=None)


def bounded(soup):
    bounds = Bounds()
    for slash, name, text in re.findall(r"<(/?)(\w+)[^>]*>|([^<]+)", soup):
        if text:
            bounds.text(text)
        elif slash:
            bounds.end(name)
        elif name in VOIDS:
            bounds.void(name, f"<{name}>")
        else:
            bounds.start(name, f"<{name}>")
    return bounds


def repaired(soup):
    """Return the parser's result for bounded tag soup."""
    return PARSER.clean(bounded(soup).markup())


def depth_of(markup):
    depth = deepest = 0
    for slash, name in re.findall(r"<(/?)(\w+)>", markup):
        if name not in VOIDS | {"col"}:
            depth += -1 if slash else 1
            deepest = max(deepest, depth)
    assert depth == 0
    return deepest


@pytest.mark.parametrize(
    "soup",
    [
        "a<p>b<p>c",
        "<ul><li>a<p>b<li>c<ul><li>d</ul>e</ul></li>",
        "<dl><dt>a<dd>b<dt>c",
        "<h1>a<h2>b</h1>c",
        "<b><i>a</b>b</i>c",
        "<p><b>a<p>b</b>c",
        "<b><p>a</b>b</p>c",
        "<a><div>a</a>b<a>c</div>d",
        "</p></b></td></table></div></div>a</br>",
        "<table>a<th>b<tr><div>c</div><caption>d<col><tbody><td><table><table><td><b>e<td>f</table>g",
    ],
)
def test_tag_soup_within_the_limits_is_written_unchanged(soup):
    assert bounded(soup).markup() == soup


def test_neither_line_ends_of_preformatted_text_nor_end_tags_are_kept_where_a_browser_drops_them():
    assert bounded("<pre>\n\na\n").markup() == "<pre>a\n"
    assert render("</div></body></div><p>a</div>b", {}, remote_images=False).html.endswith("<body><p>ab</p></body>")


@pytest.mark.parametrize("tag", ["<div>", "<b>", "<span>", "<ul><li>", "<table><tr><td>", "<h1><i>", "<table><td><b>"])
def test_depth_is_bounded_and_text_is_not(tag):
    markup = repaired((tag + "x") * 2000)
    assert depth_of(markup) <= 2 * MAX_DEPTH  # the depth includes the elements that a parser adds to tables
    assert markup.count("x") == 2000


def test_formatting_open_at_once_has_a_bound_in_each_cell_and_so_has_the_markup():
    markup = repaired("<b>" * 20 + "x" + "<table><td>" + "<i>" * 20 + "y</table>")
    assert markup.count("<b>") == markup.count("<i>") == MAX_FORMATTING
    with pytest.raises(TooLargeError):
        bounded("<p>" * 400_000)


@pytest.mark.parametrize("between", ["<p>", "<li>", "</div><div>", "<div><p>", "</p>", "</div></div>"])
def test_formatting_still_counts_after_the_blocks_around_it_have_ended(between):
    assert repaired(f"x<b>{between}" * 20 + "y").rpartition("x")[2].count("<b>") <= MAX_FORMATTING + 1


def test_formatting_ends_at_its_own_end_tags_and_not_earlier():
    assert repaired("<b>" * 9 + "x" + "</b>" * 8 + "y</b>").endswith("y</b>")
    soup = ("<b>" + "<div>" * 9 + "</b>" + "</div>" * 9) * 20 + "x"
    assert repaired(soup).partition("x")[2] == "</b>" * MAX_FORMATTING


@pytest.mark.parametrize(
    "soup",
    [
        pytest.param("<b>" * 8 + "<p>x" * 5000, id="<b> * 8 + <p>x * 5000"),
        pytest.param("<p>" + "<font>" * 100 + "<li>x" * 5000, id="<p> + <font> * 100 + <li>x * 5000"),
        pytest.param(
            ("<b><i><u><s>" + "<div>" * 7 + "</b>" + "</div>" * 7) * 1000,
            id="(<b><i><u><s> + <div> * 7 + </b> + </div> * 7) * 1000",
        ),
        pytest.param(
            ("<b>" + "<div>" * 9 + "</b>" + "</div>" * 9) * 1000, id="(<b> + <div> * 9 + </b> + </div> * 9) * 1000"
        ),
    ],
)
def test_formatting_that_is_reopened_has_a_limit(soup):
    assert len(repaired(soup)) < 500_000


NAMES = sorted(ELEMENTS)
COMMON = "a b font i p div ul li table tr td th caption col span h1 h2 dd img hr".split()
NAME = st.sampled_from(NAMES) | st.sampled_from(COMMON)
PIECES = NAME.map("<{}>".format) | NAME.map("</{}>".format) | st.sampled_from(["x", " "])
# Soups have no more formatting elements than may be open at once, and no line ends, because some line ends are dropped.
SOUPS = st.lists(PIECES, max_size=40).filter(
    lambda soup: sum(one[1:-1] in FORMATTING for one in soup) <= MAX_FORMATTING
)


@settings(max_examples=6 * settings().max_examples)
@given(SOUPS.map("".join))
def test_the_structure_is_the_same_as_in_a_standard_parser(soup):
    view = render(soup, {}, remote_images=True).html
    inner = re.search(r"<body>(.*)</body>", view, re.DOTALL)[1]
    assert re.findall(r"</?\w+", inner) == re.findall(r"</?\w+", PARSER.clean(soup))


@given(st.lists(PIECES, max_size=9), st.lists(PIECES, max_size=5), st.integers(1, 400))
def test_repeated_tag_soup_becomes_neither_deep_nor_large(before, repeated, times):
    soup = "".join(before + repeated * times)
    bounds = bounded(soup)
    markup = PARSER.clean(bounds.markup())
    assert depth_of(markup) <= 2 * bounds.depth + 3 * MAX_FORMATTING
    assert len(markup) < 20 * len(soup) + 600_000


@given(st.lists(PIECES, max_size=40))
def test_words_are_never_dropped(pieces):
    words = re.sub("<[^>]*>", "", repaired("".join(pieces)))
    assert words.count("x") == pieces.count("x")
