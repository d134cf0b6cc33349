"""White space that a relaxed signature (RFC 6376 §3.4) lets anyone add does not count towards any display limit."""

import re

import pytest

from tmpmaild.findings import codes, links
from tmpmaild.mail import extracts, htmltext, htmlview, stylesheets
from tmpmaild.mail.htmltokens import collapsed

SHEETS = (
    "<style> .old { display : none } @media screen { .old { color : red } } </style>\n"
    '<style media="screen and (max-width: 600px)"> .wide { width : 100% } </style>\n'
)
MARKUP = (
    '<body bgcolor= "#ffffff" class="page first" title="A shop">\n'
    "<p>Your code is 482915 .</p>\n"
    '<p class="old first"> Your code is 111111</p>\n'
    '<p style="color : #333333; display : none">Your code is 222222</p>\n'
    '<p style="color: red; width : 50%">Confirm your address here:</p>\n'
    '<table width="600" bgcolor=" #fafafa "><tr><td width="50 %"><img alt="Our shop" src="https://shop.example/a.png">\n'
    '<p>Confirm your address: <a href="https://shop.example/confirm/8f3a91">https://shop.example/confirm/8f3a91</a></p>\n'
    "</table>\n"
)
TEXT = "Thank you.\nConfirm your address: https://shop.example/confirm/8f3a91 or not\nIt ends here: https://shop.example/\n"


def places(text):
    """Return each position where the canonical form has a single space, even if the text has several spaces there."""
    return [match.end() for match in re.finditer(r"[ \t]|(?=\n)", text)]


def shown(html):
    view = htmlview.render(html, {}, remote_images=False)
    text = htmltext.to_text(html)
    return (
        " ".join(text.split()),
        codes.find("", text),
        [(link.href, link.text, link.confidence) for link in links.find("", html)],
        "".join(view.html.split()),
    )


@pytest.mark.parametrize("space", [" ", " \t"])
def test_spaces_added_anywhere_in_html_do_not_change_the_shown_text(space):
    html = SHEETS + MARKUP
    expected = shown(html)
    assert [code.value for code in expected[1]] == ["482915"]
    for place in places(html):
        padded = html[:place] + space * 5000 + html[place:]
        assert shown(padded) == expected, html[place - 20 : place]


@pytest.mark.parametrize("place", places(SHEETS)[::3])
def test_spaces_added_to_a_sheet_beyond_the_bound_of_sheets_drop_no_rule(place):
    html = SHEETS + MARKUP
    padded = html[:place] + " " * (stylesheets.MAX_CHARACTERS + 1) + html[place:]
    assert shown(padded) == shown(html)


def test_a_space_at_the_end_of_each_line_of_a_sheet_drops_no_rule():
    lines = "\n" * (stylesheets.MAX_CHARACTERS // 2 + 1)
    html = f"<style>.a{{}}{lines}.old{{display:none}}</style>{MARKUP}"
    padded = html.replace("\n", " \n")
    assert [code.value for code in shown(padded)[1]] == ["482915"]
    assert shown(padded) == shown(html)


def test_spaces_added_to_a_text_leave_each_link_its_confidence():
    expected = links.find(TEXT, "")
    for place in places(TEXT):
        assert links.find(TEXT[:place] + " " * 400 + TEXT[place:], "") == expected, TEXT[place - 20 : place]


@pytest.mark.parametrize("place", places("Tue, 24 Nov 2026 10:00:00 +0900 (JST and so on)"))
def test_spaces_added_to_a_date_leave_its_zone(place):
    date = "Tue, 24 Nov 2026 10:00:00 +0900 (JST and so on)"
    padded = date[:place] + " " * 400 + date[place:]
    times = [extracts.details(f"Date: {one}\r\n\r\n".encode()).date_ms for one in (date, padded)]
    assert times == [1_795_482_000_000] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a  b\t\tc", "a b c"), ("a \t\r\nb \n  c", "a\r\nb\n c"), ("\u00a0\u00a0 \u00a0", "\u00a0\u00a0 \u00a0")],
)
def test_only_spaces_and_tabs_are_collapsed(text, expected):
    assert collapsed(text) == expected
