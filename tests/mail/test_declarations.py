"""The declarations of a hostile message that are kept, and their output format."""

import pytest

from sheets import assert_harmless_style
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.declarations import MAX_ATTRIBUTE_CHARACTERS, PROPERTIES, StyleAttributes, style


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("color:red", "color:red"),
        (" COLOR : Red !important ; ; x", "color:Red!important"),
        ("margin:0 -1.5em +2px 1e1%", "margin:0 -1.5em +2px 1e1%"),
        (
            "padding-inline-start:1PX;border-block-end-color:#FfF",
            "padding-inline-start:1px;border-block-end-color:#FfF",
        ),
        ("background:rgba(0,0,0,.5);width:calc(100% - 2px)", "background:rgba(0,0,0,.5);width:calc(100% - 2px)"),
        ("width:MIN( 10px , max(1px, (2% + 1px)*2) )", "width:min(10px,max(1px,(2% + 1px) * 2))"),
        ("color:hsl(120deg 50% 50% / 50%)", "color:hsl(120deg 50% 50% / 50%)"),
        (
            "background-image:linear-gradient(to right,#fff 0%,rgb(1,2,3) 100%)",
            "background-image:linear-gradient(to right,#fff 0%,rgb(1,2,3) 100%)",
        ),
        (
            "box-shadow:0 0 2px -1px #000;text-shadow:1px 1px red",
            "box-shadow:0 0 2px -1px #000;text-shadow:1px 1px red",
        ),
        ("text-decoration-color:red;gap:1px;object-fit:cover", "text-decoration-color:red;gap:1px;object-fit:cover"),
        ("display:grid;grid-template-columns:repeat(2,minmax(0,1fr))", None),
        ("flex:1 1 0%;aspect-ratio:16/9", "flex:1 1 0%;aspect-ratio:16 / 9"),
        ("font:12px/1.5 \"Segoe UI\",'x y',Arial", "font:12px / 1.5 'Segoe UI','x y',Arial"),
        ("font-family:宋体,Mei\\ryo", "font-family:'宋体',Meiryo"),
        ("\\63olor:r\\65 d", "color:red"),  # escapes are parsed as in a browser, but not written
        ("col/**/or:red;color:re/**/d;width:1/**/px", "color:re d;width:1 px"),  # a comment still separates tokens
        ("color:red;color:", "color:red"),
        # an image becomes "none"; a background with nothing else is dropped, so a lower background stays visible
        ("background:#fff url('a;b.png') no-repeat", "background:#fff none no-repeat"),
        ("background-image:url(x),linear-gradient(red,blue)", "background-image:none,linear-gradient(red,blue)"),
        ("background:url(//x);background-image:url('x'),url(y)", ""),
        ("background:none", "background:none"),
        # colours computed from other colours; the page's colour scheme is light
        ("background:linear-gradient(180deg,color-mix(in oklab,#0ea5e9 95%,white 5%),red)", None),
        ("color:light-dark(#111,#eee);border-color:color(display-p3 1 0 0 / 50%)", None),
        # a gradient as the text colour; without the gradient, the text would be invisible
        ("background:linear-gradient(red,blue);-webkit-background-clip:text;color:transparent", None),
    ],
)
def test_common_declarations_of_messages_are_kept(text, kept):
    assert style(text) == (text if kept is None else kept)
    assert_harmless_style(style(text))
    assert style(style(text)) == style(text)


@pytest.mark.parametrize(
    "text",
    [
        "position:fixed",
        "position:relative",
        "z-index:9",
        "transform:scale(99)",
        "content:'x'",
        "cursor:none",
        "behavior:url(x.htc)",
        "-moz-binding:url(x)",
        "list-style-image:url(x)",
        "list-style:url(//evil.example)",
        "border-image:url(x) 1",
        "mask:url(x)",
        "filter:url(x)",
        "animation:x 1s",
        "--x:url(//evil.example)",
        "color:var(--x)",
        "width:attr(data-x px)",
        "width:env(x)",
        "width:expression(alert(1))",
        "width:ex\\pression(alert(1))",
        "background:image-set('//evil.example' 1x)",
        "background:-webkit-image-set(url(//evil.example) 1x)",
        "background:cross-fade(url(//evil.example),red)",
        "background:image('//evil.example')",
        "background:src('//evil.example')",
        "background:element(#x)",
        "background:paint(x)",
        "background:'//evil.example'",
        "background:u\\72l(//evil.example) ur\\6c x(",
        "background:url(//evil.example'x)",  # a bad url token
        "width:calc(url(//evil.example))",
        "font-family:url(//evil.example)",
        "font-family:'a\\'b'",
        "font-family:'</style>'",
        "font-family:'\\3c/style\\3e'",
        "font-family:'a\\00000ab'",
        "font-family:'a",
        "color:'red'",
        "color:{red}",
        "color:[red]",
        "color:(red)",
        "color:red{}",
        "color:a b!",
        "color:@import",
        "color:\\3c",
        "color:<!--",
        "color:-->",
        "color:#ggg",
        "color:#12",
        "color:--x",
        "color:\ud800",
        "color:\uff52ed",
        "width:1px\\9",
        "width:1dppx",
        "width:1\\3c",
        "width:U+26",
        "*width:1px",
        "1:2",
        "x{color:red}",
        "@media all{color:red}",
        "grid-template-columns:repeat(1000000,1px)",  # a browser would create all these columns
        "grid-column:1/1e9",
        "color:\0",
        "width:" + "calc(" * 9 + "1px",
        pytest.param("width:" + "calc(" * 10_000, id="width: + calc( * 10_000"),
        pytest.param("width:calc" + "(" * 10_000, id="width:calc + ( * 10_000"),
        "color:" + "r" * 65,
        pytest.param("margin:" + "0 " * 501, id="margin: + 0  * 501"),
    ],
)
def test_declarations_that_could_load_cover_or_deceive_are_removed(text):
    assert style(text) == ""
    assert style(f"color:red;{text}").removeprefix("color:red") == ""


def test_no_known_property_moves_an_element_out_of_its_place():
    assert PROPERTIES.isdisjoint(
        {"position", "top", "left", "inset", "z-index", "transform", "content", "filter", "all"}
    )


def test_style_attributes_are_read_up_to_a_limit_and_equal_attributes_once():
    budget = Budget(1000)
    styles = StyleAttributes(budget)
    assert styles.written("x:y;" * (MAX_ATTRIBUTE_CHARACTERS // 4) + "color:red") == ""
    assert styles.written("color:red") == "color:red"
    assert not budget.is_spent
    while styles.written(f"width:{len(styles._written)}px"):
        pass
    assert budget.is_spent
    assert 100 < len(styles._written) < 200
    assert styles.written("color:red") == "color:red"
