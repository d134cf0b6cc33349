"""The codes and links of one message, from its text part and its HTML."""

import pytest

from tmpmaild.findings.detecting import MAX_LINKS_CHARACTERS, detect
from tmpmaild.model import Texts

CODE_IN_HTML = "<p>Your verification code is</p><p>481516</p>"


def codes(body, html="", *, is_of_html=False):
    found = detect("Message", Texts("msg_1", body, html, is_of_html=is_of_html))
    return [code.value for code in found.codes]


@pytest.mark.parametrize(
    ("body", "html", "found"),
    [
        pytest.param("Your verification code is 7302", CODE_IN_HTML, ["7302"], id="the text part has one"),
        pytest.param("Please view this message as HTML.", CODE_IN_HTML, ["481516"], id="only the HTML has one"),
        pytest.param("Hello", "<p>Hello</p>", [], id="neither has one"),
        pytest.param("Your verification code is 7302", "", ["7302"], id="there is no HTML"),
    ],
)
def test_a_code_is_searched_for_in_the_html_if_the_text_part_has_none(body, html, found):
    assert codes(body, html) == found


def test_a_body_that_is_the_text_of_the_html_is_searched_once():
    assert codes("Hello", CODE_IN_HTML, is_of_html=True) == []


def test_links_are_found_in_both():
    html = '<a href="https://h.example/">Confirm</a>'
    found = detect("Message", Texts("msg_1", "See https://t.example/", html))
    assert [link.href for link in found.links] == ["https://h.example/", "https://t.example/"]


def test_the_links_of_one_message_are_bounded_in_all():
    body = "\n".join(f"https://x.example/{number}/{'a' * 1000}" for number in range(100))
    links = detect("Message", Texts("msg_1", body, "")).links
    assert 0.9 * MAX_LINKS_CHARACTERS < sum(len(link.href) + len(link.text) for link in links) <= MAX_LINKS_CHARACTERS
