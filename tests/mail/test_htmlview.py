"""The parts of a hostile HTML message that a browser receives."""

import re
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sheets import assert_harmless_sheet
from tmpmaild.mail import viewattributes
from tmpmaild.mail.contentids import referred_to
from tmpmaild.mail.htmltokens import ELEMENTS
from tmpmaild.mail.htmlview import MAX_CHARACTERS, MAX_IMAGE_CHARACTERS, render

PIXEL = "data:image/png;base64,iVBORw0KGgo="
ADDED = {"target", "rel", "referrerpolicy"}
ADDRESSES = {
    "href": re.compile(r"(?:https?://|mailto:).+", re.DOTALL),
    "src": re.compile(r"data:image/(?:png|gif|jpe?g|webp|bmp|avif);base64,[A-Za-z0-9+/=]+|https://[^\s]+"),
}


class Reader(HTMLParser):
    """A parser for rendered pages."""

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
    """Return the content of the page's body, because the head is the same for every message."""
    *_, page = render(html, images or {}, remote_images=remote_images).html.split("</style>")
    if "<body" not in page:
        return page
    [(_, attributes), *_] = Reader(page).tags
    assert_harmless(viewattributes.start_tag("div", attributes))
    return re.fullmatch(r"<body[^>]*>(.*)</body>", page, re.DOTALL)[1]


def sheet(html):
    """Return the message's own style element, which follows ours."""
    _, *sheets, _ = render(html, {}, remote_images=True).html.split("</style>")
    return "".join(sheets).removeprefix("<style>")


def assert_harmless(page):
    reader = Reader(page)
    assert reader.oddities == []
    for name, attributes in reader.tags:
        assert name in ELEMENTS
        allowed = viewattributes.ANYWHERE | ADDED | {"a": {"href"}, "img": {"src", "alt", "role"}}.get(name, set())
        assert attributes.keys() <= allowed
        for key in attributes.keys() & ADDRESSES.keys():
            assert ADDRESSES[key].fullmatch(attributes[key])
        assert not re.search(r"url|expression|@|\\|//|/\*|position|behaviou?r|binding", attributes.get("style", ""))


PAYLOADS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</script>",
    "<script/x>alert(1)</script >",
    "<img src=x onerror=alert(1)>",
    "<img src=x oNeRrOr=alert(1)//",
    '<img/src="x"/onerror=alert(1)>',
    "<img src='x'onerror=alert(1)>",
    '<img """><script>alert(1)</script>">',
    '<img alt="`><script>alert(1)</script>">',
    '<img src="javascript:alert(1)">',
    '<img src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+">',
    '<img src="data:text/html,<script>alert(1)</script>">',
    '<img src="data:image/png;base64,AAAA\' onerror=alert(1)">',
    '<img src="cid:x&quot; onerror=alert(1)">',
    '<img srcset="https://evil.example/1 1x" sizes=1 lowsrc=//evil.example dynsrc=//evil.example>',
    "<picture><source srcset=//evil.example/1><img alt=x></picture>",
    "<input type=image src=//evil.example/1 formaction=javascript:alert(1)>",
    "<video poster=//evil.example/1 src=x onerror=alert(1)><source src=x></video>",
    "<audio src=x onloadstart=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='JaVaScRiPt:alert(1)'>x</a>",
    "<a href='java\nscript:alert(1)'>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<a href='java&#10;script:alert(1)'>x</a>",
    "<a href='&#x6a;avascript&colon;alert(1)'>x</a>",
    "<a href='&#0000106avascript:alert(1)'>x</a>",
    "<a href='\x01javascript:alert(1)'>x</a>",
    "<a href='\u2028javascript:alert(1)'>x</a>",
    "<a href=' \x00 javascript:alert(1)'>x</a>",
    "<a href='java\x00script:alert(1)'>x</a>",
    "<a href='jav\u0430script:alert(1)'>x</a>",
    "<a href='vbscript:msgbox(1)'>x</a>",
    "<a href='data:text/html;base64,PHNjcmlwdD4='>x</a>",
    "<a href='data:image/png;base64,AAAA'>x</a>",
    "<a href='view-source:javascript:1'>x</a>",
    "<a href='blob:https://x/1'>x</a>",
    "<a href='file:///etc/passwd'>x</a>",
    "<a href='cid:1'>x</a>",
    "<a href='//evil.example'>x</a>",
    "<a href='/api/messages'>x</a>",
    "<a href='https://x/&quot; onclick=alert(1) x=&quot;'>x</a>",
    "<a href=https://x/ ping=https://evil.example download target=_top rel=opener>x</a>",
    "<a xlink:href='javascript:alert(1)'>x</a>",
    "<a id=location name=document href=https://x/>x</a>",
    "<form id=x name=getElementById action=javascript:alert(1)><input name=body><button formaction=x>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<meta charset=utf-7>+ADw-script+AD4-alert(1)",
    "<base href=javascript:alert(1)//>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css';</style>",
    "<style><img src=x onerror=alert(1)></style>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)>",
    "<object data='data:text/html,x'></object><embed src=javascript:alert(1)><applet code=x>",
    "<frameset onload=alert(1)><frame src=javascript:alert(1)></frameset>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
    "<svg><animate attributeName=href values=javascript:alert(1) />",
    "<svg></p><style><a id='</style><img src=1 onerror=alert(1)>'>",
    "<svg><foreignObject><p><style><img title='</style><img src=x onerror=alert(1)>'>",
    "<svg><desc><![CDATA[</desc><script>alert(1)</script>]]></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<math href='javascript:alert(1)'><mi xlink:href='javascript:alert(1)'>x",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math><annotation-xml encoding='text/html'><img src=x onerror=alert(1)></math>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<noembed><img title='</noembed><img src=x onerror=alert(1)>'></noembed>",
    "<template><img src=x onerror=alert(1)></template>",
    "<textarea><img title='</textarea><img src=x onerror=alert(1)>'>",
    "<title><a title='</title><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'></xmp>",
    "<plaintext><img src=x onerror=alert(1)>",
    "<select><option><style></select><img src=x onerror=alert(1)></style>",
    "<table><tr><svg><td><script>alert(1)</script>",
    "<table><caption><math></table><img src=x onerror=alert(1)>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!-- --!><img src=x onerror=alert(1)>-->",
    "<!--[if gte IE 4]><script>alert(1)</script><![endif]-->",
    "<![if !mso]><script>alert(1)</script><![endif]>",
    "<?xml-stylesheet href=javascript:alert(1)?><?php echo 1 ?>",
    "<!DOCTYPE x [<!ENTITY y '<script>alert(1)</script>'>]>&y;",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&amp;lt;script&amp;gt;",
    "\uff1cscript\uff1ealert(1)",
    "\x00<\x00s\x00c\x00ript>alert(1)",
    "<scr\x00ipt>alert(1)</scr\x00ipt>",
    "<\u017fcript>alert(1)</\u017fcript>",
    "<img\x0csrc=x\x0conerror=alert(1)>",
    "<p style='width:expression(alert(1))'>",
    "<p style='background:url(javascript:alert(1))'>",
    "<p style='background:u\\rl(//evil.example)'>",
    "<p style='background:ur/**/l(//evil.example)'>",
    "<p style='background:image-set(\"//evil.example\" 1x)'>",
    "<p style='background:url(\"x;y\")//evil.example;color:red'>",
    "<p style='-moz-binding:url(//evil.example);behavior:url(x.htc)'>",
    "<p style='position:fixed;top:0;left:0;z-index:9;color:red'>",
    "<p style='@import \"//evil.example\";color:red'>",
    "<p style='color:red}</style><script>alert(1)</script>'>",
    "<p style=\"font-family:'x;position:fixed;y'\">",
    "<p style='list-style:url(//evil.example)'>",
    "<p style='content:url(//evil.example)'>",
    "<p style='color:var(--x);width:attr(data-x)'>",
    "<table background=//evil.example/1><td background=javascript:alert(1)>",
    "<body onload=alert(1) background=javascript:alert(1)>",
    "<p contenteditable tabindex=1 autofocus onfocus=alert(1) data-x=1 is=x slot=y class=z id=w>",
    "<isindex action=javascript:alert(1)><marquee onstart=alert(1)><keygen autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>x",
    "<dialog open onclose=alert(1)><portal src=x><fencedframe src=x>",
    '<b title=\'<img src="cid:0" onerror=alert(1)>\'>&lt;img src="cid:0"',
    "<p align='\"><script>alert(1)</script>' width='1 onload=alert(1)'>",
    "<img src=x:alert(alt) onerror=eval(src) alt=0>",
    "<a\x0bhref=javascript:alert(1)>x</a>",
    "</p onmouseover=alert(1)></br><//script><a/ onclick=alert(1)>",
]


def test_the_rules_of_a_framework_that_a_message_does_not_use_leave_its_steps_to_the_others():
    unused = "".join(f".unused-{n} td a{{color:#f00;padding:0 1px 2px 3px}}" for n in range(900))
    for attribute in ("class=used", "class='a &#117;sed'", "CLASS = used"):
        shown = sheet(f"<style>{unused}.used{{color:#123456}}</style><p {attribute}>x")
        assert shown.replace(":where(body,body *)", "") == ".m_used{color:#123456}"


def test_all_style_elements_become_a_single_element_after_ours():
    html = (
        "<style>a{color:red}</style><p class=b>x<STYLE media=print>p.b{color:red}</STYLE>"
        "<!--[if mso]><style>mso{color:red}</style><![endif]--><style type=text/less>i{color:red}</style>"
        "<table><style type='text/css'>td{background:url(//x.example)}td{width:1px}"
    )
    assert sheet(html).replace(":where(body,body *)", "") == ("a{color:red}@media print{p.m_b{color:red}}td{width:1px}")
    assert "color" not in body(html)
    assert render(html, {}, remote_images=True).remote_images == 1


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_attack_passes_the_sanitiser(payload):
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
def test_tag_soup_never_raises_or_yields_forbidden_markup(soup):
    page = body(soup)
    assert_harmless(page)
    page.encode()


@pytest.mark.parametrize(
    ("html", "is_fitted"),
    [
        ("<table width=600><tr><td>one</table>", True),
        ("<table width=2000><tr><td>one</table>", True),
        ("<table width=200><tr><td>one</table>", False),
        ("<table width=5000><tr><td>one</table>", False),
        ("<style>@media (max-width:620px){.w{width:100%!important}}</style><table class=w width=600></table>", False),
        # a rule for all screens overrides the attribute if it applies to this element
        ("<style>table.w{width:100%;max-width:600px}</style><table class=w width=600></table>", False),
        ("<style>table{width:100%}</style><table width=600></table>", False),
        ("<style>table.w{width:100%}</style><table class=w width=600 style='width:600px'></table>", True),
        ("<style>td.w,.x .w table,.w:hover{width:100%}</style><table class=w width=600></table>", True),
        ("<style>@media print{.w{width:100%}}</style><table class=w width=600></table>", True),
        ("<style>.w{width:600px;max-width:100%}</style><table class=w width=600></table>", True),
    ],
)
def test_a_message_that_is_wider_than_a_phone_and_does_not_adapt_is_shown_smaller(html, is_fitted):
    page = render(html, {}, remote_images=False).html
    assert ("zoom" in page) is is_fitted
    assert page.endswith('<input type="checkbox" id="size" aria-label="100 %"></body>') is is_fitted


@pytest.mark.parametrize(
    ("html", "width"),
    [
        ("<table width=500 cellpadding=30 style='padding:20px'><tr><td style='padding:9px'>one</table>", 500),
        ("<div title='padding: '><table width=500><tr><td>one</table></div>", 500),
        ("<table cellpadding=20 width='100%'><tr><td><table width=500><tr><td>one</table></table>", 540),
        ("<div style='padding:9px'>one</div><div style='width:500px;padding:20px'>one</div>", 540),
        ("<div style='width:500px;padding:20px;box-sizing:border-box'>one</div>", 500),
        ("<table><tr><td width=500 style='padding:30px'>one</table>", 500),  # a table cell with padding can shrink
        ("<table width='100%'><tr><td style='padding:0 40px'><table width=500><tr><td>one</table></table>", 580),
        (
            "<table width='100%'><tr><td style='padding:1px 2px 3px;padding-left:7.5px'><table width=500><tr><td>one</table></table>",
            509,
        ),
        (
            "<table width='100%'><tr><td style='padding:1px 2px 3px 4px'><table width=500><tr><td>one</table></table>",
            506,
        ),
        ("<table width='100%'><tr><td style='padding:5%'><table width=500><tr><td>one</table></table>", 500),
    ],
)
def test_padding_counts_where_it_makes_a_message_wider(html, width):
    page = render(html, {}, remote_images=False).html
    assert f"(max-width:{width + 16 - 1}px){{#size" in page  # the limit includes the margins of the body


@pytest.mark.parametrize(
    ("html", "tag"),
    [
        ("<p>x", "<body>"),
        ("<html><body bgcolor=#eee text=red onload=alert(1)>", '<body bgcolor="#eee" text="red">'),
        ("<html dir=rtl lang=ar><body style='margin:0'>", '<body dir="rtl" lang="ar" style="margin:0">'),
        ("<html style='color:red'><body dir=ltr style='color:#111'>", '<body style="color:red;color:#111" dir="ltr">'),
        ("<html class='a b' id=c><body class=d id=e>", '<body class="m_a m_b m_d" id="m_c">'),
        ("<body style='color:red' dir=ltr><body bgcolor=red>", '<body dir="ltr" style="color:red" bgcolor="red">'),
    ],
)
def test_the_body_of_the_message_becomes_the_body_of_the_page(html, tag):
    assert f"</style>{tag}" in render(html, {}, remote_images=False).html


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        (
            "<table width=600 bgcolor=#fff cellpadding=0><tr><td align=center colspan=2>x",
            '<td align="center" colspan="2">x',
        ),
        ("<table width=600 bgcolor=#fff cellpadding=0>", '<table width="600" bgcolor="#fff" cellpadding="0">'),
        (
            "<font color=red face='Arial, sans-serif' size=+1>x",
            '<font color="red" face="Arial, sans-serif" size="+1">x</font>',
        ),
        (
            "<center><h1 style='COLOR: #123; margin:0 auto'>x",
            '<center><h1 style="color:#123;margin:0 auto">x</h1></center>',
        ),
        ("<p style='background:#fff url(x.png) no-repeat'>x", '<p style="background:#fff none no-repeat">x</p>'),
        ("<p style='color:rgb(1,2,3)'>x", '<p style="color:rgb(1,2,3)">x</p>'),
        ("<td>1<td>2", "12"),
        ("<ul><li>a<li>b</ul><p>c<p>d", "<ul><li>a</li><li>b</li></ul><p>c</p><p>d</p>"),
        ("<o:p>&nbsp;</o:p><![if !mso]>x<![endif]><!--[if mso]>y<![endif]-->", "&nbsp;x"),
        (
            "<form action=x><button style='color:red' onclick=x>Go</button><label>y</form>z",
            '<div type="form"><span type="button" style="color:red">Go</span><span type="label">y</span></div>z',
        ),
        ("caf&eacute; &lt;b&gt; \u20ac &amp;amp;", "caf\u00e9 &lt;b&gt; \u20ac &amp;amp;"),
    ],
)
def test_common_markup_of_messages_is_kept(html, kept):
    assert kept in body(html)


def test_a_link_opens_outside_without_a_referrer():
    [(name, attributes)] = Reader(body("<a href=' HTTPS://x.example/\n?a=1&amp;b=2'>x</a>")).tags
    assert (name, attributes) == (
        "a",
        {"href": "HTTPS://x.example/?a=1&b=2", "target": "_blank", "rel": "noopener noreferrer nofollow"},
    )


@pytest.mark.parametrize(
    "source",
    [
        "cid:logo@x",
        "CID:logo@x",
        " cid:logo%40x ",
        "cid:<logo@x>",
        "cid:logo&#64;x",
    ],
)
def test_an_inline_image_is_inserted(source):
    html = f'<img src="{source}" alt="A &amp; B" width=3>'
    assert referred_to(html) == {"logo@x"}
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


def test_a_repeated_image_is_inserted_up_to_a_limit():
    image = "data:image/png;base64," + "A" * 1024 * 1024
    page = body("<img src=cid:a alt=gone>" * 500, {"a": image})
    assert len(page) < MAX_IMAGE_CHARACTERS + 100_000
    assert page.endswith('<img alt="gone" referrerpolicy="no-referrer">')


def test_a_small_image_keeps_its_words_on_one_line():
    page = body("<img src=https://x.example/1 width=24 height=24 alt='Our page'>")
    assert (
        page == '<img alt="Our page" width="24" height="24" role="img" title="Our page" referrerpolicy="no-referrer">'
    )


def test_a_message_can_neither_switch_its_view_nor_use_our_ids():
    page = render(
        "<style>:root:has(#dark:target) p{color:red}</style><p id=dark><a href='#light'>x", {}, remote_images=False
    )
    assert page.html.endswith(
        '</style><body><p id="m_dark"><a target="_blank" rel="noopener noreferrer nofollow">x</a></p></body>'
    )
    assert page.html.count('id="dark"') == page.html.count('id="light"') == 1


def test_remote_images_wait_until_they_are_requested():
    html = "<img src='http://x.example/1?a=1&amp;b=2' width=6 height=7 alt=Logo>"
    assert '<img alt="Logo" width="6" height="7"' in body(html)
    asked = body(html, remote_images=True)
    assert (
        '<img src="https://x.example/1?a=1&amp;b=2" alt="Logo" width="6" height="7" referrerpolicy="no-referrer">'
        in asked
    )
    assert_harmless(asked)


def test_remote_images_are_counted_wherever_the_message_has_them():
    html = (
        "<body background=https://x.example/0><img src=https://x.example/1><img src=//x.example/2 width=1 height=1>"
        "<table background=http://x.example/3><td style='background:url( \"https://x.example/4\")'>"
        "<img src='ht\ntps:\\\\x.example/5'><img src=cid:a><img src=data:,x><a href=https://x.example/>x</a>"
    )
    for asked in (False, True):
        assert render(html, {}, remote_images=asked).remote_images == 6


@pytest.mark.parametrize("payload", [p for p in PAYLOADS if "evil.example" in p])
def test_only_links_lead_outside_unless_images_are_requested(payload):
    page = body(f"{payload}<img src=https://evil.example/1><p background=https://evil.example/2>")
    assert "evil.example" not in re.sub(r'href="[^"]*"', "", "".join(map(str, Reader(page).tags)))


REAL = [
    "<body bgcolor=#eeeeee>"
    + "<table border=0 width=600><tr><td align=center style='padding:8px'>" * 15
    + "<a href=https://x.example/?utm=1&amp;b=2><font face=Arial color=#333><b>Buy</b></font></a><br>&nbsp;" * 380
    + "</td></tr></table>" * 15,
    "<p class=MsoNormal><span lang=EN style='font-size:11.0pt'><o:p>&nbsp;</o:p></span></p><font color=navy>x" * 1500,
    "<p>x" * 900,
    "<ul>" + "<li>x" * 900,
    "<table>" + "<tr><td>x" * 900,
]


@pytest.mark.parametrize("html", REAL)
def test_real_messages_stay_within_the_limits(html):
    assert "This is its text" not in body(html)


def test_a_message_with_many_cells_keeps_all_of_them():
    marketing, *_, table_of_cells = REAL
    assert body(marketing).count("<b>Buy</b>") == 380
    assert body(table_of_cells).count("<tr><td>x</td></tr>") == 900


NESTED_TABLES = "<table><tr><td style='color:#0a0b0c'>" * 40 + "<h1 style='color:#102030'>Hello</h1>" + "</table>" * 40


@pytest.mark.parametrize("rules", [400, 1500, 4000], ids="{} rules".format)
@pytest.mark.parametrize("where", ["{sheet}{mail}", "<p>x{sheet}{mail}", "{sheet}{mail}{sheet}"])
def test_a_large_style_sheet_leaves_steps_for_the_structure_and_the_style_attributes(rules, where):
    sheet = "<style>" + "".join(f".c{n} td{{padding:0 {n}px;color:red}}" for n in range(rules)) + "</style>"
    page = body(where.format(sheet=sheet, mail=NESTED_TABLES))
    assert page.count('<td style="color:#0a0b0c">') == 40
    assert '<h1 style="color:#102030">Hello</h1>' in page


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
def test_a_message_that_costs_too_much_is_shown_as_text(html):
    page = body(html)
    assert "This is its text" in page
    assert page.split("<pre>\n")[1].startswith("x &lt;" if "<p>" not in html else "x\n\n&lt;")
    assert {name for name, _ in Reader(page).tags} == {"p", "em", "pre"}


def test_several_threads_may_render_at_once():
    mails = [f"<p title={n}>" + "<b>x</b>" * 300 for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(body, mails)) == list(map(body, mails))


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
def test_links_in_a_view_follow_the_base_and_image_maps_are_kept(html, shown):
    assert shown in render(html, {}, remote_images=False).html


def test_images_are_also_relative_to_the_base():
    html = f'{BASE}<img src="b.png"><table background="c.png"><img src="cid:1">'
    view = render(html, {"1": "data:image/png;base64,AA=="}, remote_images=True)
    assert view.remote_images == 2
    assert 'src="https://x.example/a/b.png"' in view.html
    assert 'src="data:image/png;base64,AA=="' in view.html
    assert "https://x.example/a/b.png" not in render(html, {}, remote_images=False).html


@pytest.mark.parametrize(
    "html", ['<base href="javascript:alert(1)//"><a href="b">x</a>', '<area href="javascript:alert(1)">']
)
def test_no_base_and_no_area_leads_to_a_script(html):
    assert "javascript" not in render(html, {}, remote_images=False).html
