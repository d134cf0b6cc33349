"""The selectors of a hostile message that are kept, each limited to its body, and their cost for a browser."""

import pytest

from tmpmaild.mail.selectors import SCOPE
from tmpmaild.mail.viewsheet import MAX_SELECTORS, Sheet


def written(selector):
    sheet = Sheet()
    sheet.add(f"{selector}{{color:red}}")
    return sheet.written(1, 1).removesuffix("{color:red}")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (":is(a b)", ""),
        ("p:not(a > b)", ""),
        (":where(:is(a ~ b))", ""),
        ("p ~ a ~ b", ""),
        ("p ~ a b ~ i", ""),
        ("p", "p"),
        ("TD , a", "td,a"),
        ("*", "*"),
        (".btn", ".m_btn"),
        ("p.a.b#c", "p.m_a.m_b#m_c"),
        # Escapes are not written, so that the name equals the name in the class attribute.
        (r".md\:w-1\/2", ".m_md_3a_w-1_2f_2"),
        ("table>tr > td  p+a~b", "table>tr>td p+a~b"),
        ("a:hover,a:VISITED", "a:hover,a:visited"),
        ("li:nth-child( 2n + 1 )", "li:nth-child(2n+1)"),
        ("li:nth-child(-N+3):nth-last-of-type(even)", "li:nth-child(-n+3):nth-last-of-type(even)"),
        ("p:not(.a, b)", "p:not(.m_a,b)"),
        ("body", "body"),
        ("html body.x", "html body.m_x"),
        (":root .x", ":root .m_x"),
        ("html", "html"),
        ("[align=center]", '[align="center"]'),
        ("[class]", "[class]"),
        ('[class~="a"],[class="a b"]', '[class~="m_a"],[class="m_a m_b"]'),
        ('[class^="col-"],[id|="x"]', '[class^="m_col-"],[id|="m_x"]'),
        # The value may match within a name, so it gets no prefix.
        ('[class*="col-"],[class$="b c"]', '[class*="col-"],[class$="b m_c"]'),
        ('[style*="width: 600px" i]', '[style*="width:600px" i]'),  # style attributes are written without this space
        ('a[href^="tel"]', 'a[href^="tel"]'),
        ("a/**/b", ""),  # not "ab"
        ("p::before, p::first-line, i", "i"),  # an unsupported selector is removed, its neighbours are kept
        ("[data-ogsc] p, [onclick], [src]", ""),  # these attributes are removed from elements
        ("o|p, *|p, |p", ""),
        ("u + .body .x", "u+.m_body .m_x"),
        ("p:has(a), p:target, p:foo, p:lang(en)", ""),
        ("head, style, title, base, script, input", ""),
        ("> p, p >, p > > a, p || a, p,, a", "p,a"),
        ("&, & p, p &", ""),
        ("50%, 1, u+1f", ""),
        ("li:nth-child(x), li:nth-child(2n+), :is(), :not(p:not(a:is(b:where(i))))", ""),
        ("[], [class!=a], [class=1], [class=a x], [class=a i i], [title='<']", ""),
        ('[title="</style><img src=x>"]', ""),
        ('[title="\\3c/style\\3e"]', ""),
        ('[title="a\\\nb"], [title="', ""),
        ('[href="https://evil.example/"]', ""),
        ("#\\3c, .\\3c style", "#m__3c_,.m__3c_style"),
        (".a" * 3, ".m_a.m_a.m_a"),
        ("p " * 20 + "p", ""),
        (":not(" * 5 + "p" + ")" * 5, ""),
    ],
)
def test_known_selectors_are_kept(text, kept):
    assert written(text).replace(SCOPE, "") == kept


def test_a_selector_applies_within_the_body_and_nested_selectors_are_counted():
    assert written("*,p a") == f"*{SCOPE},p{SCOPE} a"
    assert written("html *,html>body") == f"html *{SCOPE},html>body{SCOPE}"
    inner = ",".join(f".c{n}" for n in range(500))
    assert written(",".join([f"p:is({inner})"] * 10)).count(":is(") == MAX_SELECTORS // 500 - 1


@pytest.mark.parametrize(
    ("selector", "elements", "depth", "is_kept"),
    [
        ("u ~ div", 2000, 20, True),
        ("u ~ div", 20_000, 20, False),
        ("table td", 3000, 40, True),
        ("p[class~=a]", 20_000, 1, True),
    ],
)
def test_the_cost_of_a_selector_counts_every_step_through_the_message(selector, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add(f"{selector}{{color:red}}")
    assert bool(sheet.written(elements, depth)) == is_kept
