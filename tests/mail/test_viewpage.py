"""The page that contains a view: its layout mode, its colours in dark mode, and its text."""

import pytest

from tmpmaild.mail.htmlview import render, render_text


def test_the_page_is_a_document_that_opens_links_in_new_tabs_and_shows_plain_text_unchanged():
    page = render("<p>x", {}, remote_images=False).html
    assert page.startswith('<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN"><meta charset="utf-8">')
    assert '<base target="_blank">' in page
    assert "color-scheme" in page
    view = render_text("<script>one</script>\n  two & three")
    assert "<pre>\n&lt;script&gt;one&lt;/script&gt;\n  two &amp; three</pre>" in view.html
    assert view.remote_images == 0


@pytest.mark.parametrize(
    ("doctype", "is_standard", "has_quirks"),
    [
        ("", False, True),
        ("\ufeff<!-- x --><!DOCTYPE html>", True, False),
        ("<!doctype html PUBLIC '-//W3C//DTD XHTML 1.0 Transitional//EN' 'http://www.w3.org/x.dtd'>", False, False),
        ("<!doctype html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'http://www.w3.org/x.dtd'>", True, False),
        ("<!doctype html PUBLIC '-//W3C//DTD HTML 4.01 Transitional//EN' 'http://www.w3.org/x.dtd'>", False, False),
        ("<!doctype html PUBLIC '-//W3C//DTD HTML 4.01 Transitional//EN'>", False, True),
        ("<!doctype html PUBLIC '-//W3C//DTD HTML 4.0 Transitional//EN'>", False, True),
    ],
)
def test_the_page_is_laid_out_in_the_mode_of_the_mail(doctype, is_standard, has_quirks):
    page = render(f"{doctype}<html><p>x", {}, remote_images=False).html
    assert (page.startswith("<!doctype html>"), ":where(table){" in page) == (is_standard, has_quirks)


@pytest.mark.parametrize(
    ("html", "is_dark"),
    [
        ("<body bgcolor='#101418'><p>x", True),
        ("<body style='background-color: #111'><table bgcolor=#ffffff><tr><td>x", True),
        ("<table style='background:black'><tr><td>x", True),
        ("<table bgcolor='#eeeeee'><tr><td bgcolor='#000000'>x", False),
        ("<body bgcolor=white><p style='background:#000'>x", False),
        ("<p style='color:#000'>x", False),
    ],
)
def test_a_message_that_is_dark_by_design_is_not_inverted_in_the_dark_view(html, is_dark):
    assert ("invert" in render(html, {}, remote_images=False).html) != is_dark
