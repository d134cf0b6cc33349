"""What a reader reads of an HTML mail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tables import rows_of, table
from tmpmaild.mail import urls
from tmpmaild.mail.htmltext import links, to_text

ROWS = rows_of(__file__)


NO_CHARACTERS = ["&#0;", "&#xD800;", "&#" + "9" * 5000 + ";", "&#x" + "f" * 5000 + ";", "\0", "\ud800"]
READ = ("markup becomes lines", "a link shows where it leads", "what is plainly hidden is not read")


@table(("html", "text"), [*(row for name in READ for row in ROWS[name]), *((one, "\ufffd") for one in NO_CHARACTERS)])
def test_markup_becomes_lines_links_show_where_they_lead_and_what_is_hidden_is_not_read(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize(("html", "found"), ROWS["a hidden link is none"])
def test_a_hidden_link_is_none(html, found):
    assert [text for _, _, text in links(html)] == found


PIECES = st.sampled_from(ROWS["PIECES"])


@given(st.text(max_size=200) | st.lists(PIECES, max_size=60).map("".join))
def test_any_html_gives_clean_text(html):
    text = to_text(html)
    text.encode()
    assert "\0" not in text
    assert "\n\n\n" not in text


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1), min_size=1))
def test_words_are_never_dropped(words):
    assert to_text("<td><p>" + "<b> ".join(words)).split() == words


@table("piece", ROWS["reading takes linear time"])
def test_reading_takes_linear_time(piece):
    assert_linear(to_text, piece * (62_500 // len(piece)))


def test_a_tree_that_would_not_fit_into_memory_is_never_built():
    def read(numbers):
        to_text("<p>" + "".join(f"<b a={n}>" for n in numbers) + "<p>x" * len(numbers))

    assert_linear(read, range(2000))


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<base href="https://x.example/a/"><a href="../b?t=1">Go</a>', ("", "https://x.example/b?t=1", "Go")),
        ('<a href="b">Go</a><base href="http://x.example/a">', ("", "http://x.example/b", "Go")),
        ('<p>See<area href="https://x.example/a" alt="the map">', ("See", "https://x.example/a", "the map")),
        ('<base href=https://x.example/><map><area href="a"></map>', ("", "https://x.example/a", "")),
    ],
)
def test_a_reference_and_an_area_of_a_picture_are_links(html, link):
    assert links(html) == [link]
    assert f"<{link[1]}>" in to_text(html)


@pytest.mark.parametrize(
    "html", ['<a href="b">x</a>', '<base href="https://x.example/"><a href="#b">x</a>', "<area alt=x>"]
)
def test_what_leads_nowhere_is_no_link(html):
    assert links(html) == []


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Code: <del>112233</del> 445566", "Code: ~~112233~~ 445566"),
        ("<s>a</s>b</s>c<strike> </strike>d", "~~a~~bc d"),
        ("<s>a<p>b</s>c", "~~a~~\n\nbc"),
        ("<s>a<s>b</s></s>", "~~a~~~~b~~"),
        ("<span style='text-decoration:line-through'>a <b>b</b></span> c", "~~a b~~ c"),
        (
            "<p style='text-decoration: line-through red'>a</p><p>b<img style='text-decoration:line-through'>c",
            "~~a~~\n\nbc",
        ),
        ("<a href=https://x.example/><s>1</s>2</a>", "~~1~~2 <https://x.example/>"),
    ],
)
def test_what_is_struck_out_stands_between_tildes(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize("characters", [400, 100_000])
def test_a_long_base_makes_no_long_text_of_short_references(characters):
    html = f"<base href='https://x.example/{'a' * characters}/'>" + "<a href=b>c</a>" * 100
    assert len(to_text(html)) < 100 * 500
    assert len(links(html)) == (100 if characters < urls.MAX_BASE_CHARACTERS else 0)
