"""What stays of the style sheets of a hostile mail: rules that reach no further than its body, and load nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sheets import assert_harmless_sheet, assert_harmless_style
from tables import rows_of, table
from tmpmaild.mail.declarations import PROPERTIES, style
from tmpmaild.mail.selectors import SCOPE
from tmpmaild.mail.stylesheets import MAX_CHARACTERS
from tmpmaild.mail.viewsheet import MAX_SELECTORS, Sheet

ROWS = rows_of(__file__)


def written(text, media=""):
    sheet = Sheet()
    sheet.add(text, media)
    assert_harmless_sheet(sheet.written(1, 1))
    return sheet.written(1, 1)


@table(("query", "kept"), ROWS["media queries that are known stay"])
def test_media_queries_that_are_known_stay(query, kept):
    rule = f"p{SCOPE}{{color:red}}"
    expected = "" if kept is None else f"@media {kept}{{{rule}}}"
    assert written(f"@media {query}{{p{{color:red}}}}") == expected
    assert written("p{color:red}", query) == expected


@pytest.mark.parametrize(
    ("query", "kept", "on_request"), ROWS["rules for dark readers apply in the dark view too and not in the light one"]
)
def test_rules_for_dark_readers_apply_in_the_dark_view_too_and_not_in_the_light_one(query, kept, on_request):
    rule = f"p{SCOPE}{{color:red}}"
    expected = f"@media {kept}{{:root:not(:has(#light:target)){{{rule}}}}}:root:has(#dark:target){{@media {on_request}{{{rule}}}}}"
    assert written(f"@media {query}{{p{{color:red}}}}") == expected
    assert written("p{color:red}", query) == expected


def test_a_sheet_of_another_medium_stays_out_of_this_one_and_rules_for_dark_readers_are_written_twice():
    dark = "@media (prefers-color-scheme:dark){"
    assert written(f"{dark * 4}p{{color:red}}{'}' * 4}").count("color:red") == 2
    assert written(f"{dark}p{{color:red}}}}", "(prefers-color-scheme:dark)").count("color:red") == 2
    sheet = Sheet()
    sheet.add("p{color:red}", "print")
    sheet.add("a{color:red}")
    assert sheet.written(1, 1).replace(SCOPE, "") == "@media print{p{color:red}}a{color:red}"


@table(("text", "kept"), ROWS["rules stay and every other at rule goes"])
def test_rules_stay_and_every_other_at_rule_goes(text, kept):
    assert written(text).replace(SCOPE, "").partition("{color")[0] == kept


def test_images_elsewhere_are_counted_in_rules_and_never_written():
    sheet = Sheet()
    sheet.add(
        "p{background:url(http://x/)}@media all{i{background:#fff url( '//x/' ),url(\"https://x/\")}}"
        "b{background:url(x.png);color:url(//x)}@font-face{src:url(//x)}@import url(//x);"
    )
    assert sheet.remote_images == 4
    assert sheet.written(1, 1).replace(SCOPE, "") == "@media all{i{background:#fff none,none}}"


def test_what_passes_a_bound_is_left_out():
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


PIECES = st.sampled_from(sorted(PROPERTIES)) | st.sampled_from(ROWS["PIECES"]) | st.text(max_size=4)
SOUP = st.lists(PIECES, max_size=40).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda between: between.join(pieces))
)


@given(SOUP, SOUP)
def test_soup_never_raises_nor_leaves_what_could_load_or_end_the_sheet(rules, media):
    for text in (rules, f"p{{{rules}}}", f"@media {rules}{{p{{color:red}}}}", f"{rules}{{color:red}}"):
        once = written(text, media)
        once.encode()
        if "#dark" not in once:  # what is for dark readers is written twice
            assert written(once.replace(SCOPE, "")).replace(SCOPE, "") == once.replace(SCOPE, "")
    assert_harmless_style(style(rules))


# A very large newsletter, as many as there may be of both, and of rules alone.
@table(
    ("rules", "elements", "depth", "is_kept"), [(500, 5000, 30, True), (2000, 20_000, 1, False), (2000, 2000, 1, True)]
)
def test_more_rules_than_a_browser_has_time_for_with_the_elements_are_left_out(rules, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add("p.a{color:red}" * rules)
    assert bool(sheet.written(elements, depth)) == is_kept
