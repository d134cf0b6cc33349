"""The style rules of a hostile message that are kept: they apply only to its body, and load no resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sheets import assert_harmless_sheet, assert_harmless_style
from tmpmaild.mail.declarations import PROPERTIES, style
from tmpmaild.mail.selectors import SCOPE
from tmpmaild.mail.stylesheets import MAX_CHARACTERS
from tmpmaild.mail.viewsheet import MAX_SELECTORS, Sheet


def written(text, media=""):
    sheet = Sheet()
    sheet.add(text, media)
    assert_harmless_sheet(sheet.written(1, 1))
    return sheet.written(1, 1)


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
        ("p{color:red", "p"),  # as in a browser, open blocks end with the style sheet
        ("}p{color:red}", ""),
        ("@media{p{color:red}}", "p"),
        ("@media all{" * 5 + "p{color:red}", ""),
    ],
)
def test_rules_are_kept_and_other_at_rules_are_removed(text, kept):
    assert written(text).replace(SCOPE, "").partition("{color")[0] == kept


@pytest.mark.parametrize(
    ("selectors", "is_kept"),
    [
        ("p", True),
        ("p.used", True),
        ("#one .used>a:hover", True),
        (".other,.used", True),
        (".other", False),
        ("p.used.other", False),
        ("#other .used,.used .other", False),
        (".used:not(.other)", True),
        (r".us\65 d", True),
        ("[class~=used]", True),
    ],
)
def test_only_rules_for_the_classes_and_ids_of_the_message_are_kept(selectors, is_kept):
    sheet = Sheet()
    sheet.words = {"used", "one"}
    sheet.add(f"@media print{{{selectors}{{color:red}}}}i{{color:red}}")
    assert sheet.written(1, 1).count("color") == 1 + is_kept


def test_remote_images_in_rules_are_counted_and_never_written():
    sheet = Sheet()
    sheet.add(
        "p{background:url(http://x/)}@media all{i{background:#fff url( '//x/' ),url(\"https://x/\")}}"
        "b{background:url(x.png);color:url(//x)}@font-face{src:url(//x)}@import url(//x);"
    )
    assert sheet.remote_images == 4
    assert sheet.written(1, 1).replace(SCOPE, "") == "@media all{i{background:#fff none,none}}"


def test_rules_beyond_a_bound_are_left_out():
    sheet = Sheet()
    sheet.add("p{color:red}" * 1000)
    sheet.add("i,b{color:red}" * 1000)
    sheet.add("@media all{u{color:red}}")
    assert sheet.written(1, 1).count(SCOPE) == MAX_SELECTORS
    sheet = Sheet()
    sheet.add(f"p{{color:red}}/*{'x' * MAX_CHARACTERS}*/i{{color:red}}")
    sheet.add("a{color:red}")
    assert sheet.written(1, 1).replace(SCOPE, "") == "p{color:red}a{color:red}"
    assert written("p{color:red}", "screen," * 50) == ""


PIECES = (
    st.sampled_from(sorted(PROPERTIES))
    | st.sampled_from(
        [
            *("@media", "@import", "@supports", "@font-face", "screen", "and", "not", "only", "(width<1px)"),
            *("(max-width:1px)", "prefers-color-scheme", "dark", "p", "a", "td", "body", "html", ":root", "*"),
            *(".a", "#b", "[class*=a]", "[style='x']", ":hover", "::before", ":not(", ":is(", ":where("),
            *(":nth-child(", "2n+1", ">", "+", "~", ",", ";", ":", "{", "}", "(", ")", "[", "]", "!", "/"),
            *("\\", '"', "'", "<", "&", "|", "-", "=", "%", "#", ".", "@", "<!--", "-->", "/*", "*/", "//"),
            *("</style>", "\\3c", "\\22", "\\a", "\\d800", "\x00", "\x0c", "url(", "url(//x)", "url('//x')"),
            *("src(", "image-set(", "calc(", "min(", "rgb(", "linear-gradient(", "repeat(", "var(", "attr("),
            *("expression(", "1", "1px", "-1.5em", "50%", "1e9", "1e999", "red", "#fff", "'Arial'", '"x"'),
            *("'</style'", "!important", "ur/**/l(", "\\75rl(", "u+1f"),
        ]
    )
    | st.text(max_size=4)
)
SOUP = st.lists(PIECES, max_size=40).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda between: between.join(pieces))
)


@given(SOUP, SOUP)
def test_css_soup_never_raises_or_leaves_text_that_could_load_or_end_the_sheet(rules, media):
    for text in (rules, f"p{{{rules}}}", f"@media {rules}{{p{{color:red}}}}", f"{rules}{{color:red}}"):
        once = written(text, media)
        once.encode()
        if "#dark" not in once:  # rules for dark mode are written twice
            assert written(once.replace(SCOPE, "")).replace(SCOPE, "") == once.replace(SCOPE, "")
    assert_harmless_style(style(rules))


# A very large newsletter; the maximum number of both rules and elements; the maximum number of rules alone.
@pytest.mark.parametrize(
    ("rules", "elements", "depth", "is_kept"), [(500, 5000, 30, True), (2000, 20_000, 1, False), (2000, 2000, 1, True)]
)
def test_more_rules_than_a_browser_can_match_in_time_are_left_out(rules, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add("p.a{color:red}" * rules)
    assert bool(sheet.written(elements, depth)) == is_kept
