"""The media queries of a hostile message that are kept, and the queries that apply to its text."""

import pytest

from sheets import assert_harmless_sheet
from tmpmaild.mail.mediaqueries import applies
from tmpmaild.mail.selectors import SCOPE
from tmpmaild.mail.viewsheet import Sheet


def written(text, media=""):
    sheet = Sheet()
    sheet.add(text, media)
    assert_harmless_sheet(sheet.written(1, 1))
    return sheet.written(1, 1)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("screen", "screen"),
        ("only screen and (max-width:480px)", "only screen and (max-width:480px)"),
        ("screen and ( MAX-DEVICE-WIDTH : 480px )", "screen and (max-width:480px)"),  # the frame counts as the device
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
def test_known_media_queries_are_kept(query, kept):
    rule = f"p{SCOPE}{{color:red}}"
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
    rule = f"p{SCOPE}{{color:red}}"
    expected = f"@media {kept}{{:root:not(:has(#light:target)){{{rule}}}}}:root:has(#dark:target){{@media {on_request}{{{rule}}}}}"
    assert written(f"@media {query}{{p{{color:red}}}}") == expected
    assert written("p{color:red}", query) == expected


def test_a_sheet_for_another_medium_is_left_out_and_rules_for_dark_readers_are_written_twice():
    dark = "@media (prefers-color-scheme:dark){"
    assert written(f"{dark * 4}p{{color:red}}{'}' * 4}").count("color:red") == 2
    assert written(f"{dark}p{{color:red}}}}", "(prefers-color-scheme:dark)").count("color:red") == 2
    sheet = Sheet()
    sheet.add("p{color:red}", "print")
    sheet.add("a{color:red}")
    assert sheet.written(1, 1).replace(SCOPE, "") == "@media print{p{color:red}}a{color:red}"


@pytest.mark.parametrize(
    ("query", "applied"),
    [
        ("", True),
        ("all", True),
        ("only Screen", True),
        ("print", False),
        ("only print and (color)", False),
        ("speech", False),
        ("print, screen", None),
        ("not print", None),
        ("screen and (max-width:600px)", None),
        ("(prefers-color-scheme:dark)", None),
        ("printer", None),
    ],
)
def test_a_query_applies_on_all_no_or_some_screens(query, applied):
    assert applies(query) is applied
