"""Style sheets are parsed into the same rules that a standard-compliant CSS parser returns."""

import pytest
import tinycss2
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cssnodes import nodes_of
from tmpmaild.mail.htmltokens import attributes_of
from tmpmaild.mail.stylesheets import media_of, pieces_of


def pieces(sheet):
    return [tuple(filter(None, piece)) for piece in pieces_of(sheet)]


@pytest.mark.parametrize(
    ("sheet", "found"),
    [
        ("p{color:red}", [("rule", "p", "color:red")]),
        (" <!-- p , a { x } -->/* a{} */b{}", [("rule", "p , a ", " x "), ("rule", "b")]),
        ("@media print{p{}}a{}", [("start", "@media print"), ("rule", "p"), ("end",), ("rule", "a")]),
        ('@import url("a;b{");@charset "}";p{}', [("rule", "p")]),
        ("@font-face{src:url(x)}@page{}p{}", [("rule", "p")]),
    ],
    ids=[
        "a rule",
        "marks and comments between rules",
        "an at-rule with rules",
        "at-rules without a block",
        "other blocks",
    ],
)
def test_a_style_sheet_is_a_sequence_of_rules(sheet, found):
    assert pieces(sheet) == found


@pytest.mark.parametrize(
    ("sheet", "block"),
    [
        ('p{a:"}";b:c}', 'a:"}";b:c'),
        (r'p{a:"\"}";b:c}', r'a:"\"}";b:c'),
        ("p{a:'it\\\ns}';b:c}", "a:'it\\\ns}';b:c"),
        ("p{a:'open\n;b:c}", "a:'open\n;b:c"),
        ("p{a:url( }'\" );b:c}", "a:url( }'\" );b:c"),
        ("p{a:url('}');b:c}", "a:url('}');b:c"),
        ("p{a:curl(}));b:c}", "a:curl(}));b:c"),
        ("p{/* } */b:c}", "/* } */b:c"),
        (r"p{a:\};b:c}", r"a:\};b:c"),
        ("p{a:(}[{})]);b:c}", "a:(}[{})]);b:c"),
        ("p{a:(;b:c}", "a:(;b:c}"),
        ("p{a:b;i{c:d}e:f}", "a:b;i{c:d}e:f"),
    ],
    ids=[
        "a string", "a quoted quote", "a quoted line end", "a string ends with its line", "an address",
        "an address in quotes", "a function that is not url", "a comment", "an escaped brace", "brackets", "a bracket that never closes",
        "a nested rule",
    ],
)  # fmt: skip
def test_a_brace_that_does_not_end_a_block_is_kept_in_the_block(sheet, block):
    assert pieces(sheet)[0] == ("rule", "p", block)


@pytest.mark.parametrize("sheet", ["p{color:red", "@media all{p{color:red", "@media all{p{color:red}"])
def test_the_end_of_the_sheet_closes_open_rules(sheet):
    assert ("rule", "p", "color:red") in pieces(sheet)


def standard(nodes):
    """Return the rules that tinycss2 finds, as nested lists of tokens."""
    found = []
    for rule in tinycss2.parse_stylesheet(nodes, skip_comments=True, skip_whitespace=True):
        if rule.type == "qualified-rule":
            found.append((tokens(rule.prelude), tokens(rule.content)))
        elif rule.type == "at-rule" and (inner := standard(rule.content or [])):
            found.append((tokens(rule.prelude), inner))
    return found


def read(sheet):
    """Return the rules that we find, in the same form."""
    stack = [[]]
    for kind, prelude, block in pieces_of(sheet):
        if kind == "rule":
            stack[-1].append((tokens(nodes_of(prelude)), tokens(nodes_of(block))))
        elif kind == "start":
            stack.append([tokens(nodes_of(prelude)[1:])])
        else:
            stack = close(stack)
    while len(stack) > 1:
        stack = close(stack)
    return stack[0]


def close(stack):
    *around, (prelude, *rules) = stack
    if rules:
        around[-1].append((prelude, rules))
    return around


def tokens(nodes):
    """Return nodes as comparable values, without white space."""
    found = []
    for node in nodes:
        inner = getattr(node, "arguments", None) or getattr(node, "content", None)
        name = getattr(node, "representation", None) or getattr(node, "value", None) or getattr(node, "name", None)
        if node.type != "whitespace":
            found.append((node.type, name, tokens(inner or [])))
    return found


SOUP = st.lists(
    st.sampled_from(
        [
            *"p { } { } ( ) [ ] ; : , @media @import all 'a' \" ' \\ \\} \\a /* */ <!-- --> url( url(x) a: !".split(),
            *(" ", "\n", "p{color:red}", "@media all{", "rgb(1,2)"),
        ]
    )
    | st.text(max_size=2),
    max_size=30,
).map("".join)


@given(SOUP)
def test_any_tag_soup_has_the_rules_that_a_standard_parser_finds(soup):
    assert read(soup) == standard(nodes_of(soup))


@pytest.mark.parametrize(
    "piece", ["{", "}", "{}", "(", "a", "@media{", "@media{}", ";", "'", '"\\', "/*", "url(", "\\", "{(", "{/"]
)
def test_reading_takes_linear_time(piece):
    assert_linear(lambda sheet: list(pieces_of(sheet)), piece * (128_000 // len(piece)))


def test_reading_a_sheet_stops_with_the_budget():
    budget = Budget(10)
    assert len(list(pieces_of("p{}" * 100, budget, reserved=4))) == 6
    assert budget.is_spent
    assert budget.remaining == 4


@pytest.mark.parametrize(
    ("attributes", "media"),
    [
        ("", ""),
        ("type=text/css", ""),
        ("type=' TEXT/CSS ' media=' screen '", "screen"),
        ("media='(max-width:600px),  print'", "(max-width:600px), print"),
        ("type=text/less media=screen", None),
    ],
)
def test_a_style_element_has_media_if_it_contains_css(attributes, media):
    assert media_of(attributes_of(attributes)) == media
