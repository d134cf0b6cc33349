"""Reading any message takes a bounded number of steps; a message that needs more steps gets a warning."""

import html as entities

import pytest

from growth import assert_linear
from tmpmaild.mail import mime
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmltokens import attributes_of, unescaped

INTRICATE = {
    "tags of colours": "".join(f"<p style='color:transparent;x:{n}'>x" for n in range(60_000)),
    "comments": "<!---->" * 250_000,
    "what is hidden never ends": "<p>x" * 140_000 + "<p hidden>x",
}


def parsed(html):
    return mime.parse(b"Content-Type: text/html; charset=utf-8\n\n" + html.encode())


@pytest.mark.parametrize("name", INTRICATE)
def test_a_message_that_would_cost_too_much_is_partly_read_with_a_warning(name):
    mail = parsed("<p>first</p>" + INTRICATE[name])
    assert mime.ONLY_IN_PART in mail.warnings
    assert mail.body.startswith("first")


def test_an_honest_message_of_290_kb_is_read_completely_and_reading_stops_with_the_budget():
    row = '<tr><td style="padding:4px;color:#333">name</td><td>1&nbsp;234</td></tr>\n'
    mail = parsed("<table>" + row * 3800 + "</table><p>last</p>")
    assert mail.warnings == ()
    assert mail.body.endswith("last")
    budget = Budget(10)
    assert to_text("<p>one<p>two<p>three<p>four<p>five<p>six", budget).endswith("three")
    assert budget.is_spent


@pytest.mark.parametrize(
    "piece",
    [
        "&a",
        "&amp;",
        "&#1086;",
        "&#x3c",
        "&&",
        "&notit;",
        "&" + "a" * 40,
        "& ",
        "x",
        pytest.param("&lt;p&gt;\n" + "text " * 900, id="&lt;p&gt;/n + text  * 900"),
    ],
)
def test_a_long_text_is_decoded_like_a_short_text(piece):
    """Text is decoded in pieces of 16 KiB. Wherever the text is split, each reference is decoded once."""
    for shift in range(min(len(piece), 40) + 1):
        text = "x" * shift + piece * (40_000 // len(piece)) + "&amp;"
        assert unescaped(text) == entities.unescape(text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/a?u=1&timestamp=2&param=3&region=eu&currency=EUR&section4&notify", None),
        ("/a?u=1&copy=2&lt=3&amp=4", None),
        ("/a?u=1&amp;timestamp=2&amp;copy=3", "/a?u=1&timestamp=2&copy=3"),
        ("&notin;&copy;&copy &eacute", "\u2209\u00a9\u00a9 \u00e9"),
        ("&#38;region=eu", "&region=eu"),
        # a browser leaves the text unchanged, but such text does not occur in practice
        ("&notit;", "\u00acit;"),
    ],
)
def test_an_ampersand_in_a_url_that_could_start_a_name_is_kept_as_in_a_browser(written, meant):
    assert attributes_of(f'href="{written}"') == {"href": written if meant is None else meant}


@pytest.mark.parametrize("name", ["&copy=", "&a", "&copy", "&notin;", "&amp=", "&" + "a" * 60])
def test_attributes_are_decoded_in_linear_time(name):
    assert_linear(lambda value: attributes_of(f'href="{value}"'), name * (256 * 1024 // len(name)))
