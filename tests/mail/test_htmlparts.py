"""Several HTML parts of a message are shown together, and each part is still a separate document."""

import pytest

from tmpmaild.mail import htmlparts, htmltext, htmlview
from tmpmaild.mail.budget import MAX_STEPS, Budget


def shown(*parts):
    return htmlview.render(htmlparts.joined(parts), {}, remote_images=False).html


def test_joined_parts_can_be_separated_again():
    parts = ["<p>one", "two", "<!-- three"]
    assert htmlparts.separate(htmlparts.joined(parts)) == parts
    assert htmlparts.separate(htmlparts.joined(["alone"])) == ["alone"]


@pytest.mark.parametrize("text", ["", "a < b & c\n  d", "\n\nbehind", "</pre><b>bold</b>"])
def test_text_converted_to_html_is_read_as_the_same_text(text):
    assert htmltext.to_text(htmlparts.of_text(text)) == text.strip("\n")


@pytest.mark.parametrize(
    "open_end",
    ["<!--", "<style>", "<title>", "<textarea>", "<div hidden>", '<div style="display:none">', "<a href='", "<select>"],
)
def test_unclosed_elements_of_one_part_do_not_hide_the_next_part(open_end):
    html = htmlparts.joined([f"<p>first</p>{open_end}", '<p>second <a href="https://x.example/t">link</a></p>'])
    assert "second" in htmltext.to_text(html)
    assert "second" in htmlview.render(html, {}, remote_images=False).html
    assert [address for _, address, _ in htmltext.links(html)] == ["https://x.example/t"]


def test_a_part_has_neither_the_base_nor_the_hidden_classes_of_other_parts():
    first = '<base href="https://x.example/"><style>.h{display:none}</style><p class="h">gone</p><p>first</p>'
    second = '<p class="h">shown</p><a href="t">no base</a>'
    html = htmlparts.joined([first, second])
    assert htmltext.to_text(html) == "first\n\nshown\n\nno base"
    assert htmltext.links(html) == []


@pytest.mark.parametrize(
    ("rule", "in_view"),
    [
        ("p{color:red}", "p:where(#part-1 *){color:red}"),
        (".a p{color:red}", ".m_a:where(#part-1 *) p{color:red}"),
        ("body{color:red}", ":where(#part-1>div){color:red}"),
        ("html{color:red}", ":where(#part-1>div){color:red}"),
        ("body.a > p{color:red}", ":where(#part-1>div).m_a>p{color:red}"),
        ("html body p{color:red}", "html :where(#part-1>div) p{color:red}"),
        ("*{color:red}", "*:where(#part-1 *){color:red}"),
        (".a + p{color:red}", ".m_a:where(#part-1 *)+p{color:red}"),
        (":root:hover{color:red}", ""),
    ],
)
def test_a_rule_of_one_part_finds_elements_of_that_part_only(rule, in_view):
    sheets = shown(f"<style>{rule}</style><p class=a>one</p>", "<p>two</p>").rpartition("</style>")[0]
    own = sheets.rpartition("</style><style>")[2] if "</style><style>" in sheets else ""
    assert own == in_view


def test_a_part_has_the_attributes_of_its_own_body():
    view = shown('<body class="a" bgcolor="#000">one', '<body class="b">two')
    first, second = '<div id="part-1"><div class="m_a" bgcolor="#000">one', '<div id="part-2"><div class="m_b">two'
    assert first in view
    assert second in view
    assert "<body><div" in view


def test_parts_share_the_bounds_of_one_message():
    part, whole = "<p>a" * 1000, Budget()
    htmlview.render(part, {}, remote_images=False, budget=whole)
    enough = Budget((MAX_STEPS - whole.remaining) * 3 // 2)
    html = htmlparts.joined([part, part])
    assert "too complex" in htmlview.render(html, {}, remote_images=False, budget=enough).html
    assert "too complex" not in shown(part, part)
    sheet = "<style>" + "p{color:red}" * 1000 + "</style>x"
    view = htmlview.render(htmlparts.joined([sheet] * 3), {}, remote_images=False, budget=Budget())
    assert view.html.count("color:red") == 2000
