"""What a browser is given of a hostile HTML mail."""

import re
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sheets import assert_harmless_sheet
from tables import rows_of, table
from tmpmaild.mail import htmlview
from tmpmaild.mail.htmltokens import ELEMENTS
from tmpmaild.mail.htmlview import MAX_CHARACTERS, MAX_IMAGE_CHARACTERS, content_ids, render, render_text

ROWS = rows_of(__file__)

PIXEL = "data:image/png;base64,iVBORw0KGgo="
ADDED = {"target", "rel", "referrerpolicy"}
ADDRESSES = {
    "href": re.compile(r"(?:https?://|mailto:).+", re.DOTALL),
    "src": re.compile(r"data:image/(?:png|gif|jpe?g|webp|bmp|avif);base64,[A-Za-z0-9+/=]+|https://[^\s]+"),
}


class Reader(HTMLParser):
    """Takes a page apart once more."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words = ""
        self.oddities: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data

    def handle_comment(self, data):
        self.oddities.append(data)

    handle_decl = unknown_decl = handle_pi = handle_comment


def body(html, images=None, *, remote_images=False):
    """Return what is in the body of the page; its head is the same for every mail."""
    *_, page = render(html, images or {}, remote_images=remote_images).html.split("</style>")
    if "<body" not in page:
        return page
    [(_, attributes), *_] = Reader(page).tags
    assert_harmless(htmlview.start_tag("div", attributes))
    return re.fullmatch(r"<body[^>]*>(.*)</body>", page, re.DOTALL)[1]


def sheet(html):
    """Return the mail's own style element, which follows ours."""
    _, *sheets, _ = render(html, {}, remote_images=True).html.split("</style>")
    return "".join(sheets).removeprefix("<style>")


def assert_harmless(page):
    reader = Reader(page)
    assert reader.oddities == []
    for name, attributes in reader.tags:
        assert name in ELEMENTS
        allowed = htmlview.ANYWHERE | ADDED | {"a": {"href"}, "img": {"src", "alt", "role"}}.get(name, set())
        assert attributes.keys() <= allowed
        for key in attributes.keys() & ADDRESSES.keys():
            assert ADDRESSES[key].fullmatch(attributes[key])
        assert not re.search(r"url|expression|@|\\|//|/\*|position|behaviou?r|binding", attributes.get("style", ""))


PAYLOADS = ROWS["PAYLOADS"]


def test_style_elements_are_made_one_after_ours_wherever_they_stand():
    html = (
        "<style>a{color:red}</style><p>x<STYLE media=print>p.b{color:red}</STYLE>"
        "<!--[if mso]><style>mso{color:red}</style><![endif]--><style type=text/less>i{color:red}</style>"
        "<table><style type='text/css'>td{background:url(//x.example)}td{width:1px}"
    )
    assert sheet(html).replace(":where(body,body *)", "") == ("a{color:red}@media print{p.m_b{color:red}}td{width:1px}")
    assert "color" not in body(html)
    assert render(html, {}, remote_images=True).remote_images == 1


@table("payload", PAYLOADS)
def test_no_trick_comes_through(payload):
    for frame in ("{}", "<table><tr><td>{}</table>", "<svg><p><style>{}", "<pre>\n{}", "<b><p>{}</b></p>"):
        page = body(frame.replace("{}", payload), {"x": PIXEL})
        assert_harmless(page)
        assert_harmless_sheet(sheet(frame.replace("{}", payload)))
        assert body(body(page)) == body(page)


NAMES = sorted(ELEMENTS | {"script", "style", "svg", "math", "form", "body", "template", "title", "select", "noscript"})
PIECES = (
    st.sampled_from(PAYLOADS)
    | st.sampled_from(NAMES).map("<{}>".format)
    | st.sampled_from(NAMES).map("</{}>".format)
    | st.sampled_from(NAMES).map("<{} style='color:red;position:fixed' onclick=x href=javascript:y>".format)
    | st.sampled_from(["<!--", "-->", "<![CDATA[", "]]>", "&", "&#", "\0", "\ud800", '"', "'", "<", ">", "text"])
    | st.text(max_size=5)
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_tag_soup_never_raises_nor_yields_what_is_not_allowed(soup):
    page = body(soup)
    assert_harmless(page)
    page.encode()


@pytest.mark.parametrize(
    ("html", "is_fitted"), ROWS["a mail that is wider than a phone and does not adapt is shown smaller"]
)
def test_a_mail_that_is_wider_than_a_phone_and_does_not_adapt_is_shown_smaller(html, is_fitted):
    page = render(html, {}, remote_images=False).html
    assert ("zoom" in page) is is_fitted
    assert page.endswith('<input type="checkbox" id="size" aria-label="100 %"></body>') is is_fitted


@table(("html", "width"), ROWS["padding counts where it makes a mail wider"])
def test_padding_counts_where_it_makes_a_mail_wider(html, width):
    page = render(html, {}, remote_images=False).html
    assert f"(max-width:{width + 16 - 1}px){{#size" in page  # with the margins of the body


def test_the_page_is_a_document_that_opens_links_elsewhere_and_shows_a_text_as_it_is():
    page = render("<p>x", {}, remote_images=False).html
    assert page.startswith('<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN"><meta charset="utf-8">')
    assert '<base target="_blank">' in page
    assert "color-scheme" in page
    view = render_text("<script>one</script>\n  two & three")
    assert "<pre>\n&lt;script&gt;one&lt;/script&gt;\n  two &amp; three</pre>" in view.html
    assert view.remote_images == 0


@pytest.mark.parametrize(("html", "tag"), ROWS["the body of the mail is that of the page"])
def test_the_body_of_the_mail_is_that_of_the_page(html, tag):
    assert f"</style>{tag}" in render(html, {}, remote_images=False).html


@pytest.mark.parametrize(("doctype", "is_standard", "has_quirks"), ROWS["the page is laid out in the mode of the mail"])
def test_the_page_is_laid_out_in_the_mode_of_the_mail(doctype, is_standard, has_quirks):
    page = render(f"{doctype}<html><p>x", {}, remote_images=False).html
    assert (page.startswith("<!doctype html>"), ":where(table){" in page) == (is_standard, has_quirks)


@pytest.mark.parametrize(("html", "kept"), ROWS["what plain mails are made of survives"])
def test_what_plain_mails_are_made_of_survives(html, kept):
    assert kept in body(html)


def test_a_link_leads_out_and_tells_nothing():
    [(name, attributes)] = Reader(body("<a href=' HTTPS://x.example/\n?a=1&amp;b=2'>x</a>")).tags
    assert (name, attributes) == (
        "a",
        {"href": "HTTPS://x.example/?a=1&b=2", "target": "_blank", "rel": "noopener noreferrer nofollow"},
    )


@pytest.mark.parametrize("source", ROWS["an inline image is put in"])
def test_an_inline_image_is_put_in(source):
    html = f'<img src="{source}" alt="A &amp; B" width=3>'
    assert content_ids(html) == {"logo@x"}
    assert f'<img src="{PIXEL}" alt="A &amp; B" width="3" referrerpolicy="no-referrer">' in body(
        html, {"logo@x": PIXEL}
    )


@pytest.mark.parametrize("images", [{}, {"a": "https://evil.example/"}, {"a": "data:text/html,x"}])
def test_an_image_that_cannot_be_shown_is_its_alternative_text_in_its_stated_size(images):
    for source in ("cid:a", "https://x.example/1", "logo.png", "data:image/svg+xml;base64,AAAA"):
        page = body(f"<img src={source} alt='A &lt;' width=160 style='height:9px'>", images)
        assert page == '<img alt="A &lt;" width="160" style="height:9px" referrerpolicy="no-referrer">'


@pytest.mark.parametrize(
    ("size", "is_marked"),
    [("width=1 height=1", True), ("", True), ("width=600 style='height:20px'", True), ("width=600 height=300", False)],
)
def test_an_image_without_words_is_marked_as_a_spacer_unless_it_is_stated_to_be_large(size, is_marked):
    assert ('role="presentation"' in body(f"<img src=https://x.example/1 {size}>")) == is_marked


def test_content_ids_are_those_of_the_source_and_an_image_within_the_source_stays():
    html = """<img src=cid:a@b><IMG SRC = 'CID:c d'><img src="cid:e&amp;f" ><p>cid:none</p><img src="cid:">"""
    assert content_ids(html) == {"a@b", "c d", "e&f"}
    assert PIXEL in body(f"<img src='{PIXEL}'>")
    assert "src=" not in body("<img src='data:image/svg+xml;base64,AAAA'>")


def test_an_image_that_repeats_stops_at_a_bound():
    image = "data:image/png;base64," + "A" * 1024 * 1024
    page = body("<img src=cid:a alt=gone>" * 500, {"a": image})
    assert len(page) < MAX_IMAGE_CHARACTERS + 100_000
    assert page.endswith('<img alt="gone" referrerpolicy="no-referrer">')


def test_a_small_image_keeps_its_words_on_one_line():
    page = body("<img src=https://x.example/1 width=24 height=24 alt='Our page'>")
    assert (
        page == '<img alt="Our page" width="24" height="24" role="img" title="Our page" referrerpolicy="no-referrer">'
    )


def test_a_mail_neither_switches_its_view_nor_names_what_does():
    page = render(
        "<style>:root:has(#dark:target) p{color:red}</style><p id=dark><a href='#light'>x", {}, remote_images=False
    )
    assert page.html.endswith(
        '</style><body><p id="m_dark"><a target="_blank" rel="noopener noreferrer nofollow">x</a></p></body>'
    )
    assert page.html.count('id="dark"') == page.html.count('id="light"') == 1


def test_remote_images_wait_until_they_are_asked_for():
    html = "<img src='http://x.example/1?a=1&amp;b=2' width=6 height=7 alt=Logo>"
    assert '<img alt="Logo" width="6" height="7"' in body(html)
    asked = body(html, remote_images=True)
    assert (
        '<img src="https://x.example/1?a=1&amp;b=2" alt="Logo" width="6" height="7" referrerpolicy="no-referrer">'
        in asked
    )
    assert_harmless(asked)


def test_remote_images_are_counted_wherever_the_mail_has_them():
    html = (
        "<body background=https://x.example/0><img src=https://x.example/1><img src=//x.example/2 width=1 height=1>"
        "<table background=http://x.example/3><td style='background:url( \"https://x.example/4\")'>"
        "<img src='ht\ntps:\\\\x.example/5'><img src=cid:a><img src=data:,x><a href=https://x.example/>x</a>"
    )
    for asked in (False, True):
        assert render(html, {}, remote_images=asked).remote_images == 6


@table("payload", [p for p in PAYLOADS if "evil.example" in p])
def test_nothing_but_links_leads_out_unless_asked(payload):
    page = body(f"{payload}<img src=https://evil.example/1><p background=https://evil.example/2>")
    assert "evil.example" not in re.sub(r'href="[^"]*"', "", "".join(map(str, Reader(page).tags)))


@table("html", ROWS["real mail passes the bounds"])
def test_real_mail_passes_the_bounds(html):
    assert "This is its text" not in body(html)


def test_many_cells_all_survive():
    marketing, *_, table_of_cells = ROWS["real mail passes the bounds"]
    assert body(marketing).count("<b>Buy</b>") == 380
    assert body(table_of_cells).count("<tr><td>x</td></tr>") == 900


@pytest.mark.parametrize(
    "html",
    [
        "<b>x</b> &lt;" + "<i>" * 20_000,
        "<p>x</p> &lt;" + "y" * MAX_CHARACTERS,
        "<i>x</i> &lt;" + "&amp;" * 80_000,
        "<i>x</i> &lt;" + f"<u title={'y' * 4000}></u>" * 300,
        *[f"<i>x</i> &lt;{one * 50_000}" for one in "\x80\xa0\xad\xbf"],
    ],
)
def test_what_costs_too_much_is_shown_as_text(html):
    page = body(html)
    assert "This is its text" in page
    assert page.split("<pre>\n")[1].startswith("x &lt;" if "<p>" not in html else "x\n\n&lt;")
    assert {name for name, _ in Reader(page).tags} == {"p", "em", "pre"}


def test_several_threads_may_render_at_once():
    mails = [f"<p title={n}>" + "<b>x</b>" * 300 for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(body, mails)) == list(map(body, mails))


@pytest.mark.parametrize(("html", "is_dark"), ROWS["a mail that is dark by design is not inverted for dark readers"])
def test_a_mail_that_is_dark_by_design_is_not_inverted_for_dark_readers(html, is_dark):
    assert ("invert" in render(html, {}, remote_images=False).html) != is_dark


BASE = '<base href="https://x.example/a/">'


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        (f'{BASE}<a href="../b?t=1">Go</a>', 'href="https://x.example/b?t=1"'),
        (f'{BASE}<a href="mailto:a@x.example">Go</a>', 'href="mailto:a@x.example"'),
        (f'{BASE}<area href="b" alt="A <map>">', '<a href="https://x.example/a/b"'),
        ('<area href="https://x.example/b" alt="A <map>">', ">A &lt;map&gt;</a>"),
        ('<area href="https://x.example/b">', ">https://x.example/b</a>"),
    ],
)
def test_a_view_leads_where_the_base_says_and_has_the_areas_of_pictures(html, shown):
    assert shown in render(html, {}, remote_images=False).html


def test_pictures_are_relative_to_the_base_too():
    html = f'{BASE}<img src="b.png"><table background="c.png"><img src="cid:1">'
    view = render(html, {"1": "data:image/png;base64,AA=="}, remote_images=True)
    assert view.remote_images == 2
    assert 'src="https://x.example/a/b.png"' in view.html
    assert 'src="data:image/png;base64,AA=="' in view.html
    assert "https://x.example/a/b.png" not in render(html, {}, remote_images=False).html


@pytest.mark.parametrize(
    "html", ['<base href="javascript:alert(1)//"><a href="b">x</a>', '<area href="javascript:alert(1)">']
)
def test_no_base_and_no_area_leads_into_a_script(html):
    assert "javascript" not in render(html, {}, remote_images=False).html
