"""Text that is clearly hidden in HTML is not read. Each case was checked in Chromium: only "secret" is hidden."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.mail import hiding
from tmpmaild.mail.htmltext import links, to_text

FORMS = [
    '<div style="display:none">secret</div>shown',
    '<div style="DISPLAY : None ;color:red">secret</div>shown',
    '<div style="color:red;display:none!important">secret</div>shown',
    '<div style="display:none ! IMPORTANT; display:block">secret</div>shown',
    '<div style="display:/**/none">secret</div>shown',
    '<div style="disp\\6c ay:none">secret</div>shown',
    '<div style="display:n\\6fne">secret</div>shown',
    '<div style="display:no\\ne">secret</div>shown',
    '<div style="/*;*/display:none/*">secret</div>shown',
    "<div style=\"font-family:'a;b';display:none\">secret</div>shown",
    '<div style="background:url(data:image/png;base64,x;display:block);display:none">secret</div>shown',
    "<div style=display:none>secret</div>shown",
    '<div title=">" style="display:none">secret</div>shown',
    '<div title="style=display:none">shown</div>',
    "<div style=\"content:'display:none'\">shown</div>",
    '<div style="x-display:none;display :block">shown</div>',
    '<div style="mso-hide:all">shown</div>',
    '<div style="display:none;display:block">shown</div>',
    '<span style="display:none"><b>secret</b><img alt=secret></span>shown',
    "<div hidden>secret</div>shown",
    "<div hidden=until-found>secret</div>shown",
    "<div hidden=false>secret</div>shown",
    '<div hidden style="display:block">shown</div>',
    '<div class="a hidden" aria-hidden=true>shown</div>',
    "<template>secret<template>secret</template>secret</template>shown",
    "<noscript>shown</noscript>",
    '<div style="visibility:hidden">secret</div>shown',
    '<div style="visibility:collapse">secret</div>shown',
    '<div style="visibility:hidden;visibility:inherit">shown</div>',
    '<div style="opacity:0">secret<b style="opacity:1">secret</b></div>shown',
    '<span style="opacity:0.0">secret</span>shown',
    '<span style="opacity:0%">secret</span>shown',
    '<span style="opacity:0.9">shown</span>',
    '<div style="filter:opacity(0.8)">shown</div>',
    '<span style="font-size:0">secret<br>secret</span>shown',
    '<span style="font-size:0.0px">secret</span>shown',
    '<span style="font-size:1px;line-height:1px">secret</span>shown',
    '<span style="font-size:0%">secret</span>shown',
    '<span style="font-size:.01em">shown</span>',
    '<span style="font-size:0em">secret</span>shown',
    '<span style="font:400 14px/1 Arial">shown</span>',
    '<span style="font-size:0.8em">shown</span>',
    '<span style="font-size:11px">shown</span>',
    '<div style="font-size:0"><i style="font-size:medium">shown</i> <i style="font:12px a">shown</i></div>',
    '<div style="font-size:0"><table><tr><td>shown</table></div>',
    '<div style="font-size:0"><font size=2>shown</font></div>',
    '<div style="max-height:0;overflow:hidden">secret</div>shown',
    '<div style="height:0px;overflow:hidden"><p>secret</p></div>shown',
    '<div style="width:0;overflow:hidden">secret</div>shown',
    '<div style="height:1px;width:1px;overflow:hidden">secret</div>shown',
    '<span style="display:inline-block;max-width:0;max-height:0;overflow:hidden">secret</span>shown',
    '<div style="max-height:0">shown</div>',
    '<div style="height:0">shown</div>',
    '<span style="max-height:0;overflow:hidden">shown</span>',
    '<div style="max-height:0.5em;overflow:visible">shown</div>',
    '<div style="height:0;min-height:40px;overflow:hidden">shown</div>',
    '<div style="height:0;padding-bottom:40px;overflow:hidden">shown</div>',
    '<div style="max-width:0;overflow:hidden;padding:0 200px 0 0;white-space:nowrap">shown</div>',
    '<table><tr><td style="height:0;overflow:hidden">shown</td></tr></table>',
    '<div style="display:flex"><div style="width:0;flex:1;overflow:hidden">shown</div></div>',
    '<!doctype html><div style="height:0%;overflow:hidden">shown</div>',
    '<div style="width:1px;min-width:100%;overflow:hidden">shown</div>',
    '<div style="position:absolute;clip:rect(0,0,0,0)">secret</div>shown',
    '<div style="position:absolute;clip:rect(1px 1px 1px 1px)">secret</div>shown',
    '<div style="clip:rect(0,0,0,0)">shown</div>',
    '<div style="position:absolute;clip:rect(0,auto,auto,0)">shown</div>',
    '<div style="clip-path:inset(50%)">secret</div>shown',
    '<div style="clip-path:circle(0)">secret</div>shown',
    '<div style="clip-path:polygon(0 0,0 0,0 0)">secret</div>shown',
    '<div style="clip-path:inset(0 1px)">shown</div>',
    '<div style="clip-path:circle(90%)">shown</div>',
    '<div style="position:absolute;left:-9999px">secret</div>shown',
    '<div style="position:absolute;top:-5000px">secret</div>shown',
    '<div style="position:fixed;left:-300em">secret</div>shown',
    '<div style="left:-9999px">shown</div>',
    '<div style="position:absolute;left:-4px">shown</div>',
    '<div style="position:absolute;top:1500px">shown</div>',
    '<div style="margin:0 -9999px;padding:0 9999px">shown</div>',
    '<span style="text-indent:-9999px">shown</span>',
    '<div style="text-indent:-9999px"><i style="text-indent:0"><p>shown</p></i></div>',
    '<div style="text-indent:-20px;padding-left:20px">shown</div>',
    '<div style="transform:translate(-50%,-50%);position:absolute;left:50%;top:50%">shown</div>',
    '<span style="transform:scale(0)">shown</span>',
    '<b style="color:transparent">secret</b>shown',
    '<b style="color:#fff">secret</b>shown',
    '<b style="color:White">secret</b>shown',
    "<font color=white>secret</font>shown",
    "<span color=white>shown</span>",
    '<table bgcolor="#000"><tr><td><span style="color:#fff">shown</span></td></tr></table>',
    '<div style="background:#000 no-repeat"><span style="color:#fff">shown</span></div>',
    '<div style="background-image:linear-gradient(#000,#333)"><span style="color:#fff">shown</span></div>',
    '<div style="background:url(x.png) #fff"><span style="color:#fff">shown</span></div>',
    '<table><tr><td background="x.png"><span style="color:#fff">shown</span></td></tr></table>',
    '<b style="background-color:transparent">shown</b>',
    '<div style="color:#fff"><a href="https://x.example/">shown</a></div>',
    '<div style="position:relative;background:#000;height:40px"></div><div style="position:relative;top:-40px;color:#fff">shown</div>',
    '<div style="background:#000;height:40px"></div><div style="margin-top:-40px;color:#fff">shown</div>',
    "<style>.x{display:none}</style><p class=x>secret</p>shown",
    "<p class=x>secret</p>shown<style>.x{display:none}</style>",
    "<style>.x{position:absolute;left:-9999px}</style><p class=x>secret</p>shown",
    "<style>.\\78{display:none}</style><p class=x>secret</p>shown",
    "<style>.x{/*}*/display:none}</style><p class=x>secret</p>shown",
    "<style>@import 'a.css';.x{display:none}</style><p class=x>secret</p>shown",
    "<style>@media screen{.x{display:none}}</style><p class=x>secret</p>shown",
    "<style media=screen>.x{display:none}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}</style><p title='<style>.x{display:block}</style>' class=x>secret</p>shown",
    "<style>.x{display:none!important}</style><p class=x style='display:block'>secret</p>shown",
    "<style>.x{display:none}p{display:block}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}</style><p class=x style='display:block'>shown</p>",
    "<style>.x{display:none}.x{display:block}</style><p class=x>shown</p>",
    "<style>.x{display:none}p.x{display:block}</style><p class=x>shown</p>",
    "<!doctype html><style>.X{display:none}</style><p class=x>shown</p>",
    "<style>.x{display:none}</style><p class='y xx'>shown</p>",
    "<style>@media print{.x{display:none}}</style><p class=x>shown</p>",
    "<style media=print>.x{display:none}</style><p class=x>shown</p>",
    "<style type='text/less'>.x{display:none}</style><p class=x>shown</p>",
    "<style>@media (max-width:600px){.x{display:none!important}}</style><p class=x>shown</p>",
    "<style>@media (prefers-color-scheme:dark){.x{display:none}}</style><p class=x>shown</p>",
    "<style>@media not screen{.x{display:none}}</style><p class=x>shown</p>",
    "<style>.x:hover,.x::before{display:none}</style><p class=x>shown</p>",
    "<style>.x:bogus,.x{display:none}</style><p class=x>shown</p>",
    "<style>.x{display:none;color:red}.x:first-child{display:block}</style><div><p class=x>shown</p></div>",
    "<style>@keyframes k{to{opacity:1}}.x{opacity:0;animation:k 1ms forwards}</style><p class=x>shown</p>",
    "<style>/* .x{display:none} */</style><p class=x>shown</p>",
    "<!--<style>.x{display:none}</style>--><p class=x>shown</p>",
    "<title><style>.x{display:none}</style></title><p class=x>shown</p>",
    "<div hidden>secret</span>secret</p>secret</td>secret</div>shown",
    "<b hidden>secret<p>secret</b>shown</p>shown",
    "<b><div hidden>secret</b>secret</div>shown",
    "<div hidden><div>secret</div>secret</div>shown",
    "shown<div hidden>secret</body></html>secret",
    "<dialog>secret</dialog><dialog open>shown</dialog>",
    '<span style="opacity:-3">secret</span>shown',
    '<span style="opacity:.001">secret</span>shown',
    '<div style="filter:opacity(0)">secret</div>shown',
    '<span style="font-size:0.5pt">secret</span>shown',
    '<span style="font:0/0 a">secret</span>shown',
    '<span style="font:italic bold 1px Arial,sans-serif">secret</span>shown',
    '<div style="position:absolute;right:9999px">secret</div>shown',
    '<div style="margin-left:-9999px">secret</div>shown',
    '<div style="text-indent:-9999px">secret<br>shown</div>',
    '<div style="transform:scale(0)">secret</div>shown',
    '<div style="transform:translateX(-9999px)">secret</div>shown',
    '<b style="color:rgba(0,0,0,0)">secret</b>shown',
    '<b style="color:#0000">secret</b>shown',
    '<b style="color:rgb(0 0 0 / 0%)">secret</b>shown',
    '<b style="color:RGB(0,0,0,0)!important">secret</b>shown',
    '<b style="color:hsl(120deg 0% 0%/.0)">secret</b>shown',
    '<b style="color:oklch(0 0 0 / none)">secret</b>shown',
    '<b style="color:rgb(0 0 0 / 10%)">shown</b>',
    '<b style="color:rgb(0,0,0);background:rgba(0,0,0,0)">shown</b>',
    "<object data=data:text/plain,x>secret<p>secret</object>shown",
    "<object>shown</object>",
    "<img style='display:none' alt=secret>shown",
    '<div style="filter:opacity(0%)">secret</div>shown',
    '<span style="opacity:0.05">secret</span>shown',
    '<span style="opacity:5%">secret</span>shown',
    '<span style="opacity:0.1">shown</span>',
    '<div style="content-visibility:hidden">secret</div>shown',
    '<span style="content-visibility:hidden">shown</span>',
    '<div style="margin-left:-9999px;padding-left:9999px">shown</div>',
    '<table><tr><td style="margin-left:-9999px">shown</td></tr></table>',
    '<div style="position:absolute;right:-9999px">secret</div>shown',
    '<div style="transform:scale(0.5)">shown</div>',
    '<div style="transform:scaleX(0)">secret</div>shown',
    '<b style="color:rgba(0,0,0,0.9)">shown</b>',
    '<b style="color:rgb(0,0,0)">shown</b>',
    '<b style="color:#00000000">secret</b>shown',
    '<b style="color:#000000">shown</b>',
    '<span style="font:1px/1 Arial">secret</span>shown',
    '<span style="font:11px/1 Arial">shown</span>',
    '<span style="font-size:1.9px">secret</span>shown',
    '<span style="font-size:2px">shown</span>',
    "<datalist><option>secret</datalist>shown",
    "<video>secret</video><audio>secret</audio><canvas>secret</canvas>shown",
    "<svg><defs><text>secret</text></defs><desc>secret</desc></svg>shown",
    '<img style="display:none" alt=secret>shown',
    "<img alt=shown style='width:100px'>",
    '<div style="display:&#110;one">secret</div>shown',
    "<style>p{display:none}</style><p>secret</p>shown",
    "<style>#x{display:none}</style><p id=x>secret</p>shown",
    "<style>*{font-size:0}b{font-size:12px}</style><p>secret</p><b>shown</b>",
    "<style>.x{color:#fff}</style><p class=x>secret</p>shown",
    "<style><!-- .x{display:none} --></style><p class=x>secret</p>shown",
    "<style>.x{display:none}@media print{.x{display:block!important}}</style><p class=x>secret</p>shown",
    "<style>p.x{display:none}.x{display:block}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:1px;line-height:1px}</style><span class=x>secret</span>shown",
    "<style>.x{font:0/0 a}</style><span class=x>secret</span>shown",
    "<style>.x{color:transparent}</style><b class=x>secret</b>shown",
    "<style>.x{color:rgba(0,0,0,0)}</style><b class=x>secret</b>shown",
    "<style>.x{text-indent:-9999px}</style><div class=x>secret</div>shown",
    "<style>.x{visibility:hidden}</style><b class=x>secret</b>shown",
    "<style>.x{opacity:0}</style><b class=x>secret</b>shown",
    "<style>.x{max-height:0;overflow:hidden}</style><div class=x>secret</div>shown",
    "<style>.x{max-height:0}.y{overflow:hidden}</style><div class='x y'>secret</div>shown",
    "<style>.x{max-height:0}.y{overflow:hidden}</style><div class=x>shown</div>",
    "<STYLE>.x{font-size:0}</STYLE><p class=x>secret</p>shown",
    "<p class=x>secret</p>shown<style>.x{font-size:0}",
    "<style>.x{font-size:0}</style><p class=&#120;>secret</p>shown",
    "<style>.sm\\:x{font-size:0}</style><p class=sm:x>secret</p>shown",
    "<style>p.x.y{font-size:0}</style><p class='y x'>secret</p><p class=x>shown</p>",
    "<style>.y,P#q{font-size:0}</style><p id=q>secret</p><b id=q>shown</b>",
    "<style>.y:hover,.x{font-size:0}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}.x::before{font-size:12px}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}p{font-size:14px}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}@media(max-width:600px){p{font-size:14px}}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}@media(max-width:600px){p{font-size:14px!important}}</style><p class=x>shown</p>",
    "<style>.x{font-size:0}@media(max-width:600px){.x{font-size:0!important}}</style><p class=x>secret</p>shown",
    "<style media='(max-width:600px)'>.x{display:block}</style><style>.x{display:none}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}</style><style media='(max-width:600px)'>.x{display:block}</style><p class=x>shown</p>",
    "<style>p{font-size:0}.x{font-size:14px}</style><p class=x>shown</p>",
    "<style>p{font-size:0}p.x{font:14px Arial}</style><p class=x>shown</p>",
    "<style>.x{font-size:0}</style><p class=x style='font-size:14px'>shown</p>",
    "<style>.x{font-size:0}</style><p class=x style='font:14px Arial'>shown</p>",
    "<style>.x{font-size:0!important}</style><p class=x style='font-size:14px'>secret</p>shown",
    "<style>.x{margin-left:-9999px}</style><p class=x style='margin:0'>shown</p>",
    "<style>.x{position:absolute;left:-9999px}</style><p class=x style='inset:0'>shown</p>",
    "<style>td{font-size:0}td p{font-size:14px}</style><table><tr><td>secret<p>shown</p></td></tr></table>",
    "<style>.x{font-size:0}td .x{font-size:14px}</style><table><tr><td><p class=x>shown</p></td></tr></table>",
    "<style>.x{font-size:0}[align]{font-size:14px}</style><p class=x align=left>shown</p>",
    "<style>.x{font-size:0}p:not(.y){font-size:14px}</style><p class=x>shown</p>",
    "<style>.x{font-size:0}:is(p:not(.y)){font-size:14px}</style><p class=x>shown</p>",
    "<style>.x,{font-size:0}</style><p class=x>shown</p>",
    "<style>.x,$y{font-size:0}</style><p class=x>shown</p>",
    "<style>.1x{font-size:0}</style><p class=1x>shown</p>",
    "<style>@supports (x:y){.x{font-size:0}}</style><p class=x>shown</p>",
    "<style>@media screen and (max-width:600px){.x{font-size:0}}</style><p class=x>shown</p>",
    "<style>.x{color:transparent;background:linear-gradient(red,blue);-webkit-background-clip:text}</style><b class=x>shown</b>",
    "<style>.x{color:#fff}.y{background:#000}</style><div class=y><b class=x>shown</b></div>",
    "<style>:root{color-scheme:dark}.x{color:#fff}</style><b class=x>shown</b>",
    "<style>.x{color:#fff}</style><font color=red class=x>secret</font>shown",
    "<style>.x{color:red}</style><font color=white class=x>shown</font>",
    "<span style='font-size:0;font-size:14px'>shown</span>",
    "<font color=white style='color:red'>shown</font>",
    "<div style='margin-left:-9999px;margin:0'>shown</div>",
]
# Text that a browser hides, but that is still read.
NOT_RECOGNISED = [
    '<div style="display:none;display:bogus">secret</div>shown',
    '<div style="display:none;x:(;display:block;)">secret</div>shown',
    "<div popover>secret</div>shown",
    '<!doctype html><div style="font-size:0"><table><tr><td>secret</table></div>shown',
    '<div style="font-size:4px"><b style="font-size:.2em">secret</b></div>shown',
    '<div style="height:0;overflow-y:hidden">secret</div>shown',
    '<div style="clip-path:inset(100% 0 0 0)">secret</div>shown',
    '<span style="position:relative;left:-9999px">secret</span>shown',
    '<div style="position:absolute;left:9999px">secret</div>shown',
    '<div style="margin:0 0 0 -9999px">secret</div>shown',
    '<div style="text-indent:-9999px">secret<p>secret</p></div>shown',
    '<b style="color:rgb(255, 255, 255)">secret</b>shown',
    '<b style="color:rgb(100% 100% 100%)">secret</b>shown',
    '<b style="color:hsl(0,0%,100%)">secret</b>shown',
    '<b style="color:#fefefe">secret</b>shown',
    '<font color="FFFFFF">secret</font>shown',
    '<b style="-webkit-text-fill-color:transparent">secret</b>shown',
    '<div style="background:#123456;color:#123456">secret</div>shown',
    '<table bgcolor="#f0f0f0"><tr><td style="color:#f0f0f0">secret<b style="color:red">shown</b></td></tr></table>',
    '<div style="background:#000"><div style="background:#fff"><b style="color:#fff">secret</b></div></div>shown',
    "<body bgcolor=black text=black>secret<font color=white>shown</font></body>",
    '<b style="background:#000">secret<p>shown</p></b>',
    "<style>p.x.y,#q{display:none}</style><p class='y x'>secret</p><p class=x>shown</p>",
    "<style>div .x{opacity:0}</style><div><p><b class=x>secret</b></p></div><b class=x>shown</b>",
    "<style>div>.x{opacity:0}</style><div><b class=x>secret</b><p><b class=x>shown</b></p></div>",
    "<style>body .x{display:none}</style><p class=x>secret</p>shown",
    "<style>[data-x]{display:none}</style><p data-x>secret</p>shown",
    "<style>p[title^=ab i]{display:none}</style><p title=abc>secret</p>shown",
    "<style>body{background:#222}.x{color:#222}</style><p class=x>secret</p><p style='color:#fff'>shown</p>",
    "<style>@media only screen and (min-width:480px){.x{display:none}}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}.x:hover{display:block}.x::before{display:block}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}.x:bogus,.x{display:block}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}.x{display:blok}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}</style><style>}.x{display:block}</style><p class=x>secret</p>shown",
    "<style>.x{display:none}@font-face{.x{display:block}}</style><p class=x>secret</p>shown",
    "<style>.x{font-size:0}</style><div class=x><p>secret</p></div>shown",
    "<style>.X{display:none}</style><p class=x>secret</p>shown",
    "<div hidden>secret<table><tr><td>secret</div>secret</td></tr></table>secret</div>shown",
]


def words(html):
    return sorted(re.findall("secret|shown", to_text(html)))


def test_plainly_hidden_text_is_not_read_and_shown_text_is():
    read = {html: words(html) for html in FORMS}
    assert {html: found for html, found in read.items() if found != re.findall("shown", html)} == {}
    assert [html for html in NOT_RECOGNISED if words(html).count("shown") != html.count("shown")] == []


# Declarations that hide the text of an element at the start of a line.
HIDING = [
    "display:none",
    "visibility:hidden",
    "opacity:0",
    "filter:opacity(0)",
    "font-size:0",
    "font-size:1px",
    "font:1px/1 Arial",
    "color:transparent",
    "color:#0000",
    "color:rgba(0,0,0,0) !important",
    "color:#fff",
    "max-height:0;overflow:hidden",
    "height:1px;width:1px;overflow:hidden",
    "position:absolute;left:-9999px",
    "position:absolute;clip:rect(0,0,0,0)",
    "clip-path:inset(50%)",
    "margin-left:-9999px",
    "transform:scale(0)",
    "text-indent:-9999px",
    "content-visibility:hidden",
]
BOXES = [
    "content-visibility:hidden",
    "height:1px;width:1px;overflow:hidden",
    "margin-left:-9999px",
    "max-height:0;overflow:hidden",
    "text-indent:-9999px",
    "transform:scale(0)",
]
"""Declarations that only hide elements with a box."""
NOT_HIDING, SELECTORS = (
    [
        "color:red",
        "font-size:14px",
        "max-height:0",
        "left:-9999px",
        "opacity:0.9",
        "display:block",
        "",
    ],
    [".s", "#s", "section", "section.s", "section#s", "*.s", ".s.t", ".other, .s", "@media screen{.s"],
)
PIECES = st.lists(
    st.sampled_from(
        [
            "shown ",
            "<p>",
            "</p>",
            "<br>",
            "<b>shown</b>",
            "<a href=https://a.test/x>shown</a>",
            "<img alt=shown>",
        ]
    ),
    max_size=6,
).map("".join)
SHEETS = st.lists(
    st.sampled_from(
        [
            "p{margin:0}",
            ".o{display:none}",
            "a:hover{color:red}",
            "@media(max-width:9px){.o{color:#fff}}",
            "td .t{top:0}",
        ]
    ),
    max_size=3,
).map("".join)


@given(
    st.sampled_from(HIDING + NOT_HIDING),
    st.sampled_from(SELECTORS),
    st.tuples(PIECES, PIECES, PIECES),
    SHEETS,
    st.booleans(),
)
def test_a_rule_of_a_sheet_acts_like_the_same_style_attribute(style, selector, pieces, sheet, comes_last):
    before, run, after = pieces
    rule = f"{selector}{{{style}}}" + "}" * selector.count("{")
    inline, ruled = (
        f"<style>{sheet if comes_last else ''}{one}{'' if comes_last else sheet}</style>"
        f"{before}<section {attributes}>secret {run}</section>{after}"
        for one, attributes in (("", f'style="{style}"'), (rule, 'class="t s" id=s'))
    )
    assert to_text(ruled) == to_text(inline)
    assert links(ruled) == links(inline)


@pytest.mark.parametrize("style", HIDING)
def test_a_code_and_a_link_that_a_rule_hides_are_not_found(style):
    rules = [f"{selector}{{{style}}}" + "}" * selector.count("{") for selector in SELECTORS]
    section = "<p>Hello</p><section class='t s' id=s>Your code is 481516</section>"
    link = "<a class='t s' id=s href=https://a.test/confirm>Confirm</a>"
    texts = {rule: to_text(f"<style>{rule}</style>{section}") for rule in rules}
    assert texts == dict.fromkeys(rules, "Hello")
    found = [links(f"<style>{rule.replace('section', 'a')}</style>{link}") for rule in rules]
    assert style in BOXES or not any(found)


@pytest.mark.parametrize("style", ["font-size:0", "color:transparent"])
def test_the_address_of_a_link_whose_text_is_invisible_is_not_read(style):
    link = f"<a href=https://evil.test/ style='{style}'>secret</a>"
    assert to_text(f"<p>Hello {link}</p>shown") == "Hello\n\nshown"
    assert to_text(f"<p style='{style}'><br><a href=https://a.test/><b>shown</b></a></p>") == "shown <https://a.test/>"
    assert to_text(f"<a href=https://a.test/ style='{style}'>x<img></a>") == "<https://a.test/>"


def test_a_partly_invisible_link_is_listed_and_a_link_hidden_by_a_class_is_not():
    assert list(links("<a href=https://a.test/><b style='font-size:0'>no</b>yes</a>")) == [
        ("", "https://a.test/", "yes")
    ]
    image = "<a href=https://a.test/ style='font-size:0'> <img src=x></a>"
    assert links(image) == [("", "https://a.test/", "")]
    html = "<style>.x{display:none}</style><p class=x><a href=https://a.test/>a</a></p><a href=https://b.test/>b</a>"
    assert [text for _, _, text in links(html)] == ["b"]


def test_the_quick_scan_of_a_sheet_misses_no_rule_that_hides():
    styles = [style for html in FORMS for style in re.findall(r"style=\"([^\"]*)\"", html)] + HIDING
    for style in styles:
        plain = hiding.plain(style)
        if hiding.may_hide_by_rule(hiding.declared(plain), on_white=True):
            assert hiding.is_suspicious(plain.lower()), style
            assert hiding.may_hide(f'style="{style}"'), style
