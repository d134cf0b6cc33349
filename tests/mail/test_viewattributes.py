"""The attributes, URLs and styles of a message that are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.mail import viewattributes
from tmpmaild.mail.declarations import StyleAttributes
from tmpmaild.mail.viewattributes import fixed_width, link, remote_backgrounds, start_tag


def allowed(name, attributes):
    return viewattributes.allowed(name, attributes, StyleAttributes())


def test_only_known_attributes_with_plain_values_are_kept_urls_only_in_links_and_names_with_a_prefix():
    given_ones = {"width": "60%", "onclick": "x()", "bgcolor": "#fff", "face": "a<b", "colspan": "0"}
    assert allowed("td", given_ones) == {"width": "60%", "bgcolor": "#fff"}
    assert allowed("a", {"href": "https://x.example/"}) == {"href": "https://x.example/"}
    assert allowed("p", {"href": "https://x.example/"}) == {}
    names = {"class": " btn  md:w-1/2\tm_x", "id": "top bar"}
    assert allowed("p", names) == {"class": "m_btn m_md_3a_w-1_2f_2 m_x", "id": "m_top_bar"}


@pytest.mark.parametrize(("value", "stays"), [("1", True), ("99", True), ("100", False), ("0", False), ("x", False)])
def test_a_cell_spans_less_than_a_hundred(value, stays):
    assert ("colspan" in allowed("td", {"colspan": value})) is stays


@pytest.mark.parametrize("address", ["https://x.example/", "HTTP://x.example/?a=1", "mailto:a@x.example?subject=b c"])
def test_http_and_mailto_urls_are_kept(address):
    assert link(address) == address
    assert link(f" \x01\n{address}\t ") == address


@pytest.mark.parametrize(
    "address",
    [
        *("", "x", "/x", "//x", "#x", "https:", "https:x", "mailto:", "javascript:x", "data:x", "ftp://x"),
        "\x7fhttps://x",
    ],
)
def test_other_urls_are_removed(address):
    assert link(address) == ""


@given(st.dictionaries(st.sampled_from(["style", "title", "align", "href"]), st.text()))
def test_a_tag_cannot_be_closed_by_its_attributes(attributes):
    tag = start_tag("a", allowed("a", attributes))
    assert tag.count("<") == tag.count(">") == 1
    assert tag.count('"') == 2 * len(allowed("a", attributes))


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        ({}, 0),
        ({"background": "https://x/"}, 1),
        ({"background": " //x/"}, 1),
        ({"background": "x.png"}, 0),
        ({"style": "background:URL( 'http://x/'),url(//y/),url(cid:z)", "background": "HTTP://x/"}, 3),
    ],
)
def test_remote_backgrounds_are_counted(attributes, count):
    assert remote_backgrounds(attributes) == count


@pytest.mark.parametrize(
    ("attributes", "pixels"),
    [
        ({"width": "600"}, 600),
        ({"width": "600px"}, 600),
        ({"width": "100%"}, 0),
        ({"width": "600", "style": "width:100%"}, 0),
        ({"width": "600", "style": "color:red"}, 600),
        ({"style": "width:640px;min-width:700px"}, 700),
        ({"style": "width:640px;max-width:100%"}, 0),
        ({"style": "border-width:640px"}, 0),
        ({"width": "\u0661\u0662"}, 0),
        ({"width": "9" * 5000}, 99999),
    ],
)
def test_an_element_has_its_own_width_or_adapts(attributes, pixels):
    assert fixed_width(attributes) == pixels
