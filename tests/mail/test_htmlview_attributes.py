"""Which attributes, addresses and styles of a mail stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import rows_of, table
from tmpmaild.mail import htmlview
from tmpmaild.mail.declarations import StyleAttributes
from tmpmaild.mail.htmlview import fixed_width, link, remote_backgrounds, start_tag

ROWS = rows_of(__file__)


def allowed(name, attributes):
    return htmlview.allowed(name, attributes, StyleAttributes())


def test_only_known_attributes_with_plain_values_stay_addresses_of_links_alone_and_names_with_a_prefix():
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
def test_addresses_of_the_web_and_of_mail_stay(address):
    assert link(address) == address
    assert link(f" \x01\n{address}\t ") == address


@pytest.mark.parametrize("address", ROWS["other addresses do not"])
def test_other_addresses_do_not(address):
    assert link(address) == ""


@given(st.dictionaries(st.sampled_from(["style", "title", "align", "href"]), st.text()))
def test_a_tag_cannot_be_left_from_within(attributes):
    tag = start_tag("a", allowed("a", attributes))
    assert tag.count("<") == tag.count(">") == 1
    assert tag.count('"') == 2 * len(allowed("a", attributes))


@pytest.mark.parametrize(("attributes", "count"), ROWS["remote backgrounds are counted"])
def test_remote_backgrounds_are_counted(attributes, count):
    assert remote_backgrounds(attributes) == count


@table(("attributes", "pixels"), ROWS["an element has a width of its own or adapts"])
def test_an_element_has_a_width_of_its_own_or_adapts(attributes, pixels):
    assert fixed_width(attributes) == pixels
