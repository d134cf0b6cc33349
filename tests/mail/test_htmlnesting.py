"""Text stays hidden until the point where a browser closes the element, with or without an end tag."""

import re

import pytest

from growth import assert_linear
from tmpmaild.mail.htmltext import to_text


def words(html):
    return sorted(re.findall("secret|shown", to_text(html)))


@pytest.mark.parametrize(
    "html",
    [
        "<p hidden>secret<p>shown",
        "<p hidden>secret<div>shown</div></p>shown",
        "<!doctype html><p hidden>secret<table><tr><td>shown</table></p>shown",
        "<!-- x --><!DOCTYPE html><p hidden>secret<table><tr><td>shown</table></p>shown",
        "<p hidden>secret<table><tr><td>secret<div>secret</div></table></p>shown",
        "<p hidden>secret<button><div>secret</div></button></p>shown",
        "<p hidden>secret<span>secret<ul><li>shown</ul></span>shown",
        "<ul><li hidden>secret<ul><li>secret</ul><li>shown</ul>",
        "<dl><dt hidden>secret<dd>shown</dl>",
        "<table><tr><td hidden>secret<td>shown<tr><td>shown</table>",
        "<table><tr hidden><td>secret<td>secret<tr><td>shown</table>",
        "<table><tbody hidden><tr><td>secret<tbody><tr><td>shown</table>",
        "<table><tr><td hidden>secret<table><tr><td>secret</table>secret</table>shown",
        "<table><tr><td><span hidden>secret</td><td>shown</td></tr></table>",
        "<table><tr><td><div hidden>secret</td></tr><tr><td><div>shown</div></td></tr></table>shown",
        "<table><tr><td><b hidden>secret</td><td>shown</td></tr></table>",
        "<section><div hidden>secret</section><div>shown</div></div>shown",
        "<p>shown<span hidden>secret</p><p>shown</p>",
        "<p><b hidden>secret</p><p>secret</b>shown</p>",
        "<p>shown<b hidden>secret<div>secret</div>secret</p>secret</b>shown",
        "<div>shown<span hidden>secret</div>shown",
        "<div hidden>secret<p>secret</p></p>secret</span></div>shown",
        "<a href=x hidden>secret<a href=y>shown</a>",
        "<h1 hidden>secret</h2>shown",
        "<h1 hidden>secret<h2>shown</h2>",
        "<div><div hidden>secret<p>secret</div>shown</div><div hidden>secret",
        "<ul hidden><li>secret</ul><p>shown<ul hidden><li>secret",
    ],
)
def test_hiding_ends_where_a_browser_ends_the_element(html):
    page = html if html.startswith("<!") else f"<p>Hello</p>{html}"
    assert words(page) == re.findall("shown", html)


@pytest.mark.parametrize("times", [40_000, 80_000])
def test_a_message_too_large_to_be_parsed_twice_keeps_its_first_result(times):
    assert words("<p>shown</p><td><div hidden>no</td>" + "<b>x</b>" * times)[:1] == ["shown"]


@pytest.mark.parametrize(
    "piece",
    [
        *("<p>", "<b>", "<div>", "<li>", "<a href=x>", "</p>", "</div>", "<b><p></b>", "<table><tr><td>"),
        "<span></p>",
    ],
)
def test_tracking_open_elements_takes_linear_time(piece):
    assert_linear(lambda text: to_text(f"<b><span><p>{'<i>' * 99}{text}<div hidden>"), piece * (100_000 // len(piece)))
