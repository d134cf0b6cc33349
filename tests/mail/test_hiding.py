"""Declarations that hide text are recognised by their values."""

import pytest

from tmpmaild.mail.hiding import declared, hides, in_style, invisible_text, plain


@pytest.mark.parametrize(
    ("style", "values"),
    [
        ("display : NONE ; x:y", {"display": "none"}),
        ("opacity:1;opacity:0", {"opacity": "0"}),
        ("opacity:0!important;opacity:1", {"opacity": "0"}),
        ("font:0/0 a", {"font-size": "font 0/0 a"}),
        ("margin:0 0 0 -9999px", {"margin-left": "?"}),
        ("inset:0", {"left": "?", "right": "?", "top": "?"}),
        (f"color:{'x' * 201}", {"color": "?"}),
    ],
    ids=["case and spaces", "the last", "an important one", "a font", "a shorthand", "several sides", "a long value"],
)
def test_the_value_that_applies_is_found(style, values):
    assert in_style(style) == values


def test_ordinary_and_important_values_are_distinguished():
    assert declared("top:0;left:0 ! important") == ({"top": "0"}, {"left": "0"})


@pytest.mark.parametrize(
    ("css", "text"),
    [(r"\64 isplay:n\6fne", "display:none"), ("a/* ; */b/*", "ab"), (r"a\;b", "a?b"), (r"\110000x", "?x")],
)
def test_css_is_read_without_comments_and_escapes(css, text):
    assert plain(css) == text


@pytest.mark.parametrize(
    ("name", "style", "is_hidden"),
    [
        ("b", "display:none", True),
        ("b", "position:absolute;left:-9999px", True),
        ("b", "left:-9999px", False),
        ("p", "height:0;overflow:hidden", True),
        ("b", "height:0;overflow:hidden", False),
        ("b", "display:block;height:0;overflow:hidden", True),
        ("p", "height:0;overflow:hidden;padding:1px", False),
    ],
)
def test_an_element_is_hidden_by_a_value_that_hides_in_its_place(name, style, is_hidden):
    assert hides(name, in_style(style)) is is_hidden


@pytest.mark.parametrize(
    ("name", "style", "blank"),
    [
        ("b", "font-size:0", "all"),
        ("b", "color:transparent", "all"),
        ("b", "color:#fff", "all"),
        ("p", "text-indent:-9999px", "line"),
        ("b", "text-indent:-9999px", ""),
        ("b", "color:#eee", ""),
    ],
)
def test_text_directly_after_a_tag_may_be_invisible(name, style, blank):
    values = in_style(style)
    assert invisible_text(name, values, values.get("color", ""), on_white=True) == blank
