"""The text that a person reads in an HTML message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import urls
from tmpmaild.mail.htmltext import links, to_text

NO_CHARACTERS = ["&#0;", "&#xD800;", "&#" + "9" * 5000 + ";", "&#x" + "f" * 5000 + ";", "\0", "\ud800"]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("just text", "just text"),
        ("a\n  b\t c&nbsp;&nbsp;d", "a b c d"),
        ("<p>One <b>two</b>!</p><p>Three<br>four</p>", "One two!\n\nThree\nfour"),
        ("<div><div>a</div></div><div>b</div>", "a\nb"),
        ("<h1>Title</h1>text<hr>more", "Title\n\ntext\nmore"),
        ("<ul><li>One<li>Two</ul>after", "- One\n- Two\n\nafter"),
        ("<table><tr><td>4</td><td>8</td><td>2</td></tr><tr><td>x<td>y</table>", "4 8 2\nx y"),
        ("<br><br><br>a<br><br><br>b<br>", "a\n\nb"),
        ("a</br>b", "a\nb"),
        ("<pre>a  b\n  c\r\n\n\n\nd</pre>e", "a  b\n  c\n\nd\n\ne"),
        ("a &lt;b&gt; &amp;amp; &eacute; &#x2713; &copy", "a <b> &amp; é ✓ ©"),
        ("1 < 2 <3 and 4 > 3", "1 < 2 <3 and 4 > 3"),
        ("<img src=x alt='Logo &amp; Co'> text", "Logo & Co text"),
        (
            "<html><head><title>T</title><style>p{}</style></head><body>x<!-- > c --><script>if(a<b){'</p>'}</script>y",
            "xy",
        ),
        ("a<!-- > b --!>c<!-- --! > d -->e", "ace"),
        ("<!DOCTYPE html><?xml x?><![if !mso]>shown<![endif]><!--[if mso]>no<![endif]-->", "shown"),
        ("<template>no<template>n</template>no</template>yes", "yes"),
        ("<textarea>kept <b></textarea>", "kept <b>"),
        ("<SCRIPT>x</SCRIPT >y", "y"),
        ("<p title=\"a > b\" class=it's>Hello 'you'</p>", "Hello 'you'"),
        ("text <unfinished tag", "text"),
    ],
)
def test_markup_becomes_lines(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<a href="https://x.example/v?a=1&amp;b=2">Verify</a> now', "Verify <https://x.example/v?a=1&b=2> now"),
        ('<a href="https://x.example/">  https://x.example/ </a>', "https://x.example/"),
        ('<a href="mailto:a@x.example">mail us</a>', "mail us"),
        ('<a href="javascript:alert(1)">no</a> <a>none</a>', "no none"),
        ('<a href=" https://x.example/\n y ">t</a>', "t <https://x.example/y>"),
        ('<a href="https://x.example/"><img src=b.png></a>', "<https://x.example/>"),
        ('<a href="https://x.example/"><img alt=Button></a>', "Button <https://x.example/>"),
        ('<a href="https://x.example/">never closed', "never closed <https://x.example/>"),
        (
            "<a href=https://x.example/1>1<a href=https://x.example/2>2</a>",
            "1 <https://x.example/1>2 <https://x.example/2>",
        ),
    ],
)
def test_a_link_shows_where_it_leads(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<div style="display:none;max-height:0">pre<div>x</div>header</div>body', "body"),
        ('<div style="color:red; DISPLAY : none">preheader</div>body', "body"),
        ('<div style="max-height:0px;overflow:hidden">preheader</div>body', "body"),
        ('<div style="visibility:hidden">preheader</div>body', "body"),
        ("<p hidden>preheader</p>body", "body"),
        ("<input type=hidden value=x>body", "body"),
        ('<div class="a hidden b" title="display:none">shown</div>', "shown"),
        ('<div style="max-height:0.5em">shown</div>', "shown"),
        ('<div style="opacity:0"><p>preheader</p></div>body', "body"),
        ('<div style="opacity:0.9">shown</div>', "shown"),
        ('<span style="font-size:0">pre<br>header</span>body', "body"),
        ('<td style="font-size:0px;line-height:1">preheader<p style="font-size:13px">shown</p></td>', "shown"),
        ('<p style="font-size:0.8em">shown</p>', "shown"),
        ('<span style="font-size:1px;line-height:1px">preheader</span>body', "body"),
        ('<span style="font-size:11px">shown</span>', "shown"),
        ('<span style="color:#FFF">white on white</span>body', "body"),
        ('<font color="white">white on white</font>body', "body"),
        ('<table bgcolor="#000"><td><span style="color:#fff">shown</span></table>', "shown"),
        ('<style>b{background:red}</style><b style="color:white">shown</b>', "shown"),
        ('<p>body</p><div style="display:none">never closed', "body"),
        ('<p>a</p><p style="display:none">ends by itself<p>b', "a\n\nb"),
        ('<b style="color:transparent !important">preheader</b>body', "body"),
        ('<b style="background-color:transparent">shown</b>', "shown"),
        (
            '<b style="background:linear-gradient(red,blue);-webkit-background-clip:text;color:transparent">shown</b>',
            "shown",
        ),
        ('<b style="background-clip:text;color:transparent">no gradient</b>body', "body"),
        (
            '<b style="background:linear-gradient(transparent,red);background-clip:text;color:transparent">?</b>body',
            "body",
        ),
        ('<div style="display:none">never closed, so shown', "never closed, so shown"),
        ("&zwnj;&nbsp;&#847;&zwnj;&nbsp;\u200b\ufeffHi", "Hi"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    ],
)
def test_plainly_hidden_text_is_not_read(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize("html", NO_CHARACTERS)
def test_code_points_that_are_not_characters_are_replaced(html):
    assert to_text(html) == "\ufffd"


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<div style="display:none"><a href="https://a.test/">a</a></div><a href="https://b.test/">b</a>', ["b"]),
        ('<a href="https://b.test/">b</a><div hidden><a href="https://a.test/">never closed</a>', ["b"]),
        ('<p hidden><a href="https://a.test/">a</a><p><a href="https://b.test/">b</a>', ["b"]),
    ],
)
def test_a_hidden_link_is_not_listed(html, found):
    assert [text for _, _, text in links(html)] == found


PIECES = st.sampled_from(
    [
        *("<", ">", "/", "!", "?", "-", "=", "'", '"', "&", " ", "\n", ";", "a", "\u200c", "<p>", "</p>"),
        *("<!--", "-->", "<a href=", "http://x", "</a>", "<pre>", "<td>", "<script>", "<p hidden>", "&#"),
        "&nbsp;",
    ]
)


@given(st.text(max_size=200) | st.lists(PIECES, max_size=60).map("".join))
def test_any_html_gives_clean_text(html):
    text = to_text(html)
    text.encode()
    assert "\0" not in text
    assert "\n\n\n" not in text


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1), min_size=1))
def test_words_are_never_dropped(words):
    assert to_text("<td><p>" + "<b> ".join(words)).split() == words


@pytest.mark.parametrize(
    "piece",
    [
        *("<", "<a", "<a>", "<div>", "<p><b a=1>", "&", "&ab", "&#", "&#1;", "&nbsp;", "<a x='>' ", '<a ="'),
        *("<!--", "<!>", "<br>", "\u200c", " ", "<p hidden>", "<script>", "</script", "<td>"),
        *("<a href=http://x>y", "<pre>\n", "<template>"),
    ],
)
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
def test_an_anchor_without_a_usable_target_is_not_a_link(html):
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
def test_struck_out_text_is_between_tildes(html, text):
    assert to_text(html) == text


@pytest.mark.parametrize("characters", [400, 100_000])
def test_a_long_base_does_not_expand_short_references_into_long_text(characters):
    html = f"<base href='https://x.example/{'a' * characters}/'>" + "<a href=b>c</a>" * 100
    assert len(to_text(html)) < 100 * 500
    assert len(links(html)) == (100 if characters < urls.MAX_BASE_CHARACTERS else 0)
