"""Tag soup comes out well-formed, and no parser finds anything to repair in it."""

import re

import nh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables import table
from tmpmaild.mail.htmltree import BLOCKS, FORMATTING, INLINE, MAX_DEPTH, TABLE_PARTS, VOIDS, TooLargeError, Tree

PARSER = nh3.Cleaner(tags=FORMATTING | INLINE | BLOCKS | TABLE_PARTS | VOIDS, attributes={}, link_rel=None)


def grow(soup):
    tree = Tree()
    for slash, name, text in re.findall(r"<(/?)(\w+)[^>]*>|([^<]+)", soup):
        if text:
            tree.text(text)
        elif slash:
            tree.end(name)
        elif name in VOIDS:
            tree.void(name, f"<{name}>")
        else:
            tree.start(name, f"<{name}>")
    return tree.markup()


@table(
    ("soup", "markup"),
    [
        ("a<p>b<p>c", "a<p>b</p><p>c</p>"),
        ("<p>a<div>b</div>c", "<p>a</p><div>b</div>c"),
        ("<ul><li>a<p>b<li>c<ul><li>d</ul>e</ul>", "<ul><li>a<p>b</p></li><li>c<ul><li>d</li></ul>e</li></ul>"),
        ("<ul></li><li>a</ul>", "<ul><li>a</li></ul>"),
        ("<dl><dt>a<dd>b<dt>c", "<dl><dt>a</dt><dd>b</dd><dt>c</dt></dl>"),
        ("<h1>a<h2>b</h1>c", "<h1>a</h1><h2>b</h2>c"),
        ("<b><i>a</b>b</i>c", "<b><i>a</i></b><i>b</i>c"),
        ("<p><b>a<p>b</b>c", "<p><b>a</b></p><p><b>b</b>c</p>"),
        ("<p><b>a</p></b>b", "<p><b>a</b></p>b"),
        ("<b><p>a</b></p>b", "<b><p>a</p></b>b"),
        ("<b><p>a</b>b</p>c", "<b><p>ab</p></b>c"),
        ("<span><p>a</span>b</p>c", "<span><p>ab</p>c</span>"),
        ("<a><b>a<a>b", "<a><b>a</b></a><b><a>b</a></b>"),
        ("<a><div>a</a>b<a>c</div>d", "<a><div>ab</div></a><div><a>c</a></div><a>d</a>"),
        ("<pre>\n\na\n", "<pre>a\n</pre>"),
        ("<pre>\n\n", "<pre></pre>"),
        ("<div><pre>\n<b>a", "<div><pre><b>a</b></pre></div>"),
        ("</p></b></td></table>a", "a"),
        ("<td>a<tr>b<col>c", "abc"),
    ],
)
def test_stray_and_missing_tags_are_made_good(soup, markup):
    assert grow(soup) == markup


@pytest.mark.parametrize(
    ("soup", "markup"),
    [
        ("<table>a", "<tbody><tr><td>a</td></tr></tbody>"),
        ("<table><td>a<th>b<tr>c", "<tbody><tr><td>a</td><th>b</th></tr><tr><td>c</td></tr></tbody>"),
        ("<table><tr><div>a</div><td>b", "<tbody><tr><td>a</td><td>b</td></tr></tbody>"),
        ("<table> <tr> <td>a</td> </tr> ", "<tbody><tr><td>a</td></tr></tbody>"),
        ("<table><td><b>a<td>b", "<tbody><tr><td><b>a</b></td><td>b</td></tr></tbody>"),
        ("<table><td>a</th><td></div>b", "<tbody><tr><td>a</td><td>b</td></tr></tbody>"),
        ("<table><thead><tr><td>a<tbody><td>b", "<thead><tr><td>a</td></tr></thead><tbody><tr><td>b</td></tr></tbody>"),
        ("<table><caption>a<col>", "<caption>a</caption><colgroup><col></colgroup>"),
        (
            "<table><td>a<col><tr><hr><img>",
            "<tbody><tr><td>a</td></tr></tbody><colgroup><col></colgroup><tbody><tr><td><img></td></tr></tbody>",
        ),
        ("<table></tbody></tr><td>a", "<tbody><tr><td>a</td></tr></tbody>"),
    ],
)
def test_tables_get_the_parts_they_lack(soup, markup):
    assert grow(soup) == f"<table>{markup}</table>"


def test_a_table_between_cells_follows_the_one_it_stands_in():
    assert (
        grow("<table><tr><table><td>a")
        == "<table><tbody><tr></tr></tbody></table><table><tbody><tr><td>a</td></tr></tbody></table>"
    )


def test_formatting_around_a_table_goes_on_behind_it_but_not_in_its_cells():
    soup = "<p><b>a<table><td>b</table>c"
    assert grow(soup) == "<p><b>a</b></p><table><tbody><tr><td>b</td></tr></tbody></table><b>c</b>"


@pytest.mark.parametrize("tag", ["<div>", "<b>", "<span>", "<ul><li>", "<table><tr><td>", "<h1><i>"])
def test_depth_has_a_bound_and_text_has_none(tag):
    markup = grow((tag + "x") * 2000)
    depth = deepest = 0
    for slash in re.findall(r"<(/?)\w+>", markup):
        depth += -1 if slash else 1
        deepest = max(deepest, depth)
    assert deepest <= MAX_DEPTH + 3
    assert markup.count("x") == 2000
    assert depth == 0


def test_little_formatting_is_begun_again():
    assert len(grow("<b>" * 100 + "<p>x" * 5000)) < 60_000
    assert len(grow("<p>" + "<b>" * 100 + "<p>x" * 5000)) < 400_000


def test_the_markup_has_a_bound():
    with pytest.raises(TooLargeError):
        grow("<p>" * 200_000)


NAMES = sorted(FORMATTING | INLINE | BLOCKS | TABLE_PARTS | VOIDS)
COMMON = "a b font i p div ul li table tr td th caption col span h1 h2 dd img hr".split()
NAME = st.sampled_from(NAMES) | st.sampled_from(COMMON)
PIECES = NAME.map("<{}>".format) | NAME.map("</{}>".format) | st.sampled_from(["x", " ", "\n"])


def shape(markup):
    return re.sub(r"\s+", " ", markup)


@settings(max_examples=6 * settings().max_examples)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_a_parser_of_the_standard_repairs_nothing(soup):
    markup = grow(soup)
    assert shape(PARSER.clean(markup)) == shape(markup)
    assert grow(markup) == markup


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_words_are_never_dropped(pieces):
    words = re.sub("<[^>]*>", "", grow("".join(pieces)))
    assert words.count("x") == pieces.count("x")
