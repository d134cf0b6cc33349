"""What stays of the style sheets of a hostile mail: rules that reach no further than its body, and load nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sheets import assert_harmless_sheet, assert_harmless_style
from tables import table
from tmpmaild.mail.css import PROPERTIES, style
from tmpmaild.mail.sheets import MAX_CHARACTERS, MAX_SELECTORS, Sheet

IN_BODY = ":where(body,body *)"


def written(text, media=""):
    sheet = Sheet()
    sheet.add(text, media)
    assert_harmless_sheet(sheet.written(1, 1))
    return sheet.written(1, 1)


def selectors(text):
    """Return the selectors of a rule as they are written, without what keeps them in the body."""
    return written(f"{text}{{color:red}}").replace(IN_BODY, "").removesuffix("{color:red}")


@table(
    ("text", "kept"),
    [
        ("p", "p"),
        ("TD , a", "td,a"),
        ("*", "*"),
        (".btn", ".m_btn"),
        ("p.a.b#c", "p.m_a.m_b#m_c"),
        (r".md\:w-1\/2", ".m_md_3a_w-1_2f_2"),  # no escape is written, so the attribute's name is changed the same way
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
        ('[class*="col-"],[class$="b c"]', '[class*="col-"],[class$="b m_c"]'),  # these may begin within a name
        ('[style*="width: 600px" i]', '[style*="width:600px" i]'),  # styles are written without such space
        ('a[href^="tel"]', 'a[href^="tel"]'),
        ("a/**/b", ""),  # not "ab"
        ("p::before, p::first-line, i", "i"),  # what cannot be written is left out, not what stands next to it
        ("[data-ogsc] p, [onclick], [src]", ""),  # the attributes are gone
        ("o|p, *|p, |p", ""),
        ("u + .body .x", "u+.m_body .m_x"),
        ("p:has(a), p:target, p:foo, p:lang(en)", ""),
        ("head, style, title, base, script, input", ""),
        ("> p, p >, p > > a, p || a, p,, a", "p,a"),
        ("&, & p, p &", ""),
        ("50%, 1, u+1f", ""),
        ('[title="</style><img src=x>"]', ""),
        ('[title="\\3c/style\\3e"]', ""),
        ('[title="a\\\nb"], [title="', ""),
        ('[href="https://evil.example/"]', ""),
        ("#\\3c, .\\3c style", "#m__3c_,.m__3c_style"),
        (".a" * 3, ".m_a.m_a.m_a"),
        (" ".join("p" * 21), ""),
        (":not(" * 5 + "p" + ")" * 5, ""),
    ],
)
def test_selectors_that_are_known_stay(text, kept):
    assert selectors(text) == kept


def test_a_selector_reaches_what_is_in_the_body_and_counts_what_it_counted():
    assert written("*,p a{color:red}") == f"*{IN_BODY},p{IN_BODY} a{{color:red}}"
    assert written("html *,html>body{color:red}") == f"html *{IN_BODY},html>body{IN_BODY}{{color:red}}"


@table(
    ("query", "kept"),
    [
        ("screen", "screen"),
        ("only screen and (max-width:480px)", "only screen and (max-width:480px)"),
        ("screen and ( MAX-DEVICE-WIDTH : 480px )", "screen and (max-width:480px)"),  # the frame is the device
        ("(min-width:30em) and (max-width:599.5px)", "(min-width:30em) and (max-width:599.5px)"),
        ("(width<=600px)", "(max-width:600px)"),
        ("(width < 600px)", "(max-width:599.98px)"),
        ("(600px > width)", "(max-width:599.98px)"),
        ("(400px <= width < 600px)", "(min-width:400px) and (max-width:599.98px)"),
        ("(prefers-color-scheme:light)", "(prefers-color-scheme:light)"),
        ("not (prefers-color-scheme:dark)", "not (prefers-color-scheme:dark)"),
        ("(orientation: landscape), print", "(orientation:landscape),print"),
        ("not print", "not print"),
        ("not (min-width:1px)", "not (min-width:1px)"),
        ("screen and (-webkit-min-device-pixel-ratio:0)", "screen and (-webkit-min-device-pixel-ratio:0)"),
        ("tv, screen", "screen"),
        ("screen and (scripting), screen and", None),
        ("screen yahoo", None),
        ("only (min-width:1px)", None),
        ("not (400px < width < 600px)", None),
        ("(min-width:calc(1px)), (min-width:var(--x)), (min-width:1vw)", None),
        ("(min-width:1e999px), (width<1e999px), (width:1px:2px)", None),
        ("(1px < width > 2px < 3px), (<), ()", None),
        ('"screen", url(x), \\3c', None),
    ],
)
def test_media_queries_that_are_known_stay(query, kept):
    rule = f"p{IN_BODY}{{color:red}}"
    expected = "" if kept is None else f"@media {kept}{{{rule}}}"
    assert written(f"@media {query}{{p{{color:red}}}}") == expected
    assert written("p{color:red}", query) == expected


@pytest.mark.parametrize(
    ("query", "kept", "on_request"),
    [
        ("(prefers-color-scheme:dark)", "(prefers-color-scheme:dark)", "all"),
        (
            "screen and (prefers-color-scheme: dark) and (max-width:9px), print",
            "screen and (prefers-color-scheme:dark) and (max-width:9px),print",
            "screen and (max-width:9px)",
        ),
    ],
)
def test_rules_for_dark_readers_apply_in_the_dark_view_too_and_not_in_the_light_one(query, kept, on_request):
    rule = f"p{IN_BODY}{{color:red}}"
    expected = f"@media {kept}{{:root:not(:has(#light:target)){{{rule}}}}}:root:has(#dark:target){{@media {on_request}{{{rule}}}}}"
    assert written(f"@media {query}{{p{{color:red}}}}") == expected
    assert written("p{color:red}", query) == expected


def test_rules_for_dark_readers_within_others_are_not_written_many_times():
    dark = "@media (prefers-color-scheme:dark){"
    assert written(f"{dark * 4}p{{color:red}}{'}' * 4}").count("color:red") == 2
    assert written(f"{dark}p{{color:red}}}}", "(prefers-color-scheme:dark)").count("color:red") == 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<!-- p{color:red} -->", "p"),
        ("@charset 'x';@import url(//evil.example);@namespace url(x);p{color:red}", "p"),
        ("@font-face{src:url(//evil.example)}@property --x{syntax:'*'}p{color:red}", "p"),
        ("@supports (a:b){i{color:red}}@layer x{i{color:red}}@container (width>1px){i{color:red}}p{color:red}", "p"),
        (
            "@keyframes x{from{color:red}}@page{color:red}@scope (i){i{color:red}}@unknown{i{color:red}}p{color:red}",
            "p",
        ),
        ("p{color:red;i{color:red};&:hover{color:red}}", "p"),
        ("@media all{@media screen{p{color:red}}}", "@media all{@media screen{p"),
        ("@media all{" * 5 + "p{color:red}", ""),
        ("p{color:red", "p"),  # as in a browser, what is open ends with the sheet
        ("}p{color:red}", ""),
        ("@media{p{color:red}}", "p"),
    ],
)
def test_rules_stay_and_every_other_at_rule_goes(text, kept):
    assert written(text).replace(IN_BODY, "").partition("{color")[0] == kept


def test_a_sheet_of_another_kind_of_medium_stays_out_of_this_one():
    sheet = Sheet()
    sheet.add("p{color:red}", "print")
    sheet.add("a{color:red}")
    assert sheet.written(1, 1).replace(IN_BODY, "") == "@media print{p{color:red}}a{color:red}"


def test_images_elsewhere_are_counted_in_rules_and_never_written():
    sheet = Sheet()
    sheet.add(
        "p{background:url(http://x/)}@media all{i{background:#fff url( '//x/' ),url(\"https://x/\")}}"
        "b{background:url(x.png);color:url(//x)}@font-face{src:url(//x)}@import url(//x);"
    )
    assert sheet.remote_images == 4
    assert sheet.written(1, 1).replace(IN_BODY, "") == "@media all{i{background:#fff none,none}}"


def test_what_passes_a_bound_is_left_out():
    sheet = Sheet()
    sheet.add("p{color:red}" * 1000)
    sheet.add("i,b{color:red}" * 1000)
    sheet.add("@media all{u{color:red}}")
    assert sheet.written(1, 1).count(IN_BODY) == MAX_SELECTORS
    sheet = Sheet()
    sheet.add(f"p{{color:red}}/*{'x' * MAX_CHARACTERS}*/i{{color:red}}")
    sheet.add("a{color:red}")
    assert sheet.written(1, 1).replace(IN_BODY, "") == "p{color:red}a{color:red}"


PIECES = (
    st.sampled_from(sorted(PROPERTIES))
    | st.sampled_from(
        "@media @import @supports @font-face screen and not only (width<1px) (max-width:1px) prefers-color-scheme dark "
        "p a td body html :root * .a #b [class*=a] [style='x'] :hover ::before :not( :is( :where( :nth-child( 2n+1 "
        "> + ~ , ; : { } ( ) [ ] ! / \\ \" ' < & | - = % # . @ <!-- --> /* */ // </style> \\3c \\22 \\a \\d800 \0 \f "
        "url( url(//x) url('//x') src( image-set( calc( min( rgb( linear-gradient( repeat( var( attr( expression( "
        "1 1px -1.5em 50% 1e9 1e999 red #fff 'Arial' \"x\" '</style' !important ur/**/l( \\75rl( u+1f".split(" ")
    )
    | st.text(max_size=4)
)
SOUP = st.lists(PIECES, max_size=40).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda between: between.join(pieces))
)


@settings(deadline=None)
@given(SOUP, SOUP)
def test_soup_never_raises_nor_leaves_what_could_load_or_end_the_sheet(rules, media):
    for text in (rules, f"p{{{rules}}}", f"@media {rules}{{p{{color:red}}}}", f"{rules}{{color:red}}"):
        once = written(text, media)
        once.encode()
        if "#dark" not in once:  # what is for dark readers is written twice
            assert written(once.replace(IN_BODY, "")).replace(IN_BODY, "") == once.replace(IN_BODY, "")
    assert_harmless_style(style(rules))


@pytest.mark.parametrize(
    "selector",
    [
        ":is(a b)",
        "p:not(a > b)",
        ":where(:is(a ~ b))",
        "p ~ a ~ b",
        "p ~ a b ~ i",
    ],
)
def test_selectors_that_a_browser_must_try_in_many_ways_are_left_out(selector):
    assert written(f"{selector}{{color:red}}") == ""


def test_selectors_within_others_are_counted():
    inner = ",".join(f".c{n}" for n in range(500))
    sheet = written(f"p:is({inner}){{color:red}}" * 10)
    assert sheet.count(":is(") == MAX_SELECTORS // 500 - 1


@pytest.mark.parametrize(
    ("rules", "elements", "depth", "is_kept"),
    [
        pytest.param(500, 5000, 30, True, id="a very large newsletter"),
        pytest.param(2000, 20_000, 1, False, id="as many as there may be"),
        pytest.param(2000, 2000, 1, True, id="rules, elements"),
    ],
)
def test_more_rules_than_a_browser_has_time_for_with_the_elements_are_left_out(rules, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add("p.a{color:red}" * rules)
    assert bool(sheet.written(elements, depth)) == is_kept


@pytest.mark.parametrize(
    ("selector", "elements", "depth", "is_kept"),
    [
        ("u ~ div", 2000, 20, True),
        ("u ~ div", 20_000, 20, False),
        ("table td", 3000, 40, True),
        ("p[class~=a]", 20_000, 1, True),
    ],
)
def test_what_walks_over_the_mail_counts_as_far_as_it_walks(selector, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add(f"{selector}{{color:red}}")
    assert bool(sheet.written(elements, depth)) == is_kept
