"""Text that a reader of the mail does not see is not read; ``tests/browser/test_hiding.py`` holds the same mails against a browser."""

import re

import pytest
from hiding import FORMS, NOT_RECOGNISED

from growth import assert_linear
from tmpmaild.mail.htmltext import to_text


def words(text):
    return sorted(re.findall("secret|shown", text))


def test_what_is_hidden_is_not_read_and_what_is_shown_is():
    read = {html: words(to_text(html)) for html in FORMS}
    assert {html: found for html, found in read.items() if found != re.findall("shown", html)} == {}


def test_what_is_not_recognised_is_read():
    read = {html: words(to_text(html)) for html in NOT_RECOGNISED}
    assert {html: found for html, found in read.items() if found != re.findall("shown", html)} == {}


def test_an_unseen_link_has_no_address():
    html = '<b style="font-size:0">x <a href="https://a.test/">secret</a></b><a style="color:#fff" href="https://b.test/"><img alt=shown></a>'
    assert to_text(html) == "shown <https://b.test/>"


def test_what_takes_long_to_match_is_given_up():
    sheet = "<style>.x{opacity:0}" + "".join(f".a .b .c{n} .x{{opacity:0}}" for n in range(1000)) + "</style>"
    assert to_text(f"{sheet}<p class=x>secret</p>") == ""
    assert "shown" in to_text(sheet + "<div class=a>" * 500 + "<p class=x>shown</p>" * 50)


BOMBS = {
    "selectors of ancestors": lambda n: (
        "<style>" + ".a .b .c .x{opacity:0}" * n + "</style>" + "<i class=a>" * n + "<p class=x>y" * n
    ),
    "rules for all": lambda n: (
        "<style>" + "*{opacity:1}" * n + "</style>" + "".join(f"<p title={i}>y" for i in range(n))
    ),
    "styles that differ": lambda n: "".join(f"<p style='color:red;font:0/{i}px a;margin:{i}px'>y" for i in range(n)),
    "classes": lambda n: "<style>.x{opacity:0}</style>" + "<p class='" + "x " * n + "'>y",
    "formatting around blocks": lambda n: "<b style=opacity:0><div>" * n + "x</b>" * n,
    "formatting deep down": lambda n: "<b style=opacity:0>" + "<div>" * n + "x</b><b>" * n,
    "end tags that look far": lambda n: "<i>" * n + "<div>" * n + "</i></b>" * n,
    "sheets": lambda n: "<style>a{}</style>" * n,
    "queries": lambda n: (
        "<style>" + "".join(f"@media (min-width:{i}px){{p{{opacity:0}}}}" for i in range(n)) + "</style><p>x"
    ),
    "media": lambda n: "".join(f"<style media='(min-width:{i}px)'>p{{opacity:0}}</style>" for i in range(n)) + "<p>x",
    **{
        f"a sheet of {piece}": lambda n, piece=piece: "<style>" + piece * (4 * n) + "p{opacity:0}</style><p>x"
        for piece in [
            "{(",
            "&{",
            "}",
            "/*",
            "/**/",
            "\\",
            '"',
            "'\n",
            "a;",
            "@a;",
            "@media{",
            "(",
            "[",
            " ",
            "!",
            "a,",
            "a ",
            "a>",
            ":not(",
            "<!--",
            "*/",
        ]
    },
    **{
        f"a style of {piece}": lambda n, piece=piece: f"<p style='display:none;{piece * (4 * n)}'>x"
        for piece in [
            "(",
            "(;",
            "!",
            ";",
            ":",
            "/*",
            "\\",
            "font:",
            "font: ",
            "color:rgb(",
            "margin:0 ",
            "1",
            ".",
            "background:url(x) ",
        ]
    },
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_following_what_is_hidden_takes_linear_time(bomb):
    assert_linear(lambda numbers: to_text(BOMBS[bomb](len(numbers))), range(3000))
