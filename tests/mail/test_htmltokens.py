"""Whatever a mail holds, reading it costs a bounded number of steps, and a mail that needs more says so."""

import html as entities

import pytest

from someof import some_of
from tmpmaild.mail import mime
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmltokens import Budget, unescaped

PROPERTIES = "clip display height left max-width opacity overflow padding position visibility width".split()
SHEET = "".join(f".c{n}{{opacity:1;{''.join(f'{one}:1;{one}:1!important;' for one in PROPERTIES)}}}" for n in range(50))
NAMES = " ".join(f"c{n}" for n in range(50))
INTRICATE = {
    "tags": "<b>" * 400_000,
    "tags with attributes": "".join(f"<p a=1 b=2 c{n}>x" for n in range(120_000)),
    "tags with styles": "".join(f"<p style='display:none{n}'>x" for n in range(80_000)),
    "tags with many classes": f"<style>{SHEET}</style>" + "".join(f"<p class='{NAMES}' a{n}>x" for n in range(12_000)),
    "tags of colours": "".join(f"<p style='color:transparent;x:{n}'>x" for n in range(60_000)),
    "comments": "<!---->" * 250_000,
    "what is hidden never ends": "<p>x" * 140_000 + "<p hidden>x",
}


def parsed(html):
    return mime.parse(b"Content-Type: text/html; charset=utf-8\n\n" + html.encode())


@pytest.mark.parametrize("name", some_of(INTRICATE, "tags of colours", "comments"))
def test_a_mail_that_would_cost_too_much_is_read_in_part_and_says_so(name):
    mail = parsed("<p>first</p>" + INTRICATE[name])
    assert mime.ONLY_IN_PART in mail.warnings
    assert mail.body.startswith("first")


def test_an_honest_mail_of_the_largest_size_is_read_whole():
    row = '<tr><td style="padding:4px;color:#333">name</td><td>1&nbsp;234</td></tr>\n'
    mail = parsed("<table>" + row * 14_000 + "</table><p>last</p>")
    assert mail.warnings == ()
    assert mail.body.endswith("last")


def test_once_the_steps_are_used_up_no_more_is_read():
    budget = Budget(5)
    assert to_text("<p>one<p>two<p>three<p>four<p>five<p>six", budget).endswith("four")
    assert budget.is_spent


@pytest.mark.parametrize(
    "piece",
    ["&a", "&amp;", "&#1086;", "&#x3c", "&&", "&notit;", "&" + "a" * 40, "& ", "x", "&lt;p&gt;\n" + "text " * 900],
)
def test_a_long_text_is_decoded_as_a_short_one(piece):
    """Wherever it is cut: 16 KiB are decoded at a time, each reference once."""
    for shift in range(min(len(piece), 40) + 1):
        text = "x" * shift + piece * (40_000 // len(piece)) + "&amp;"
        assert unescaped(text) == entities.unescape(text)
