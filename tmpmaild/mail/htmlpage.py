"""The page around a mail: its mode of layout, our own styles, the dark view; what may stay is not decided here.

The mail's own body is the ``<body>`` of the page, so that its background and margins reach the edges of the
frame as in a browser. Our styles have no specificity: whatever the mail states wins.

The page is light until it is loaded with the fragment ``#dark``, or its frame is led there, which costs no request:
``frame.contentWindow.location.replace(frame.src + "#dark")``, and ``#light`` to turn it back. A mail that has styles
for readers who prefer dark colours shows those; any other mail is inverted, its pictures are not.
"""

import html as entities
import re

from tmpmaild.mail.csssheets import DARK_ID, LIGHT_ID

_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f'<meta name="referrer" content="no-referrer" id="{LIGHT_ID}"><base target="_blank">'
)
_STANDARD = "<!doctype html>"
# Images in cells leave no gap for descenders, as senders of such mails expect.
_ALMOST_STANDARD = '<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN">'
_END_OF_HEAD = '<base target="_blank">'
_PRINTED = (
    '<link rel="icon" href="data:,">'  # else browsers ask for one, which the policy blocks
    # Rows of layout tables are taller than what is left of a page.
    "<style>@media print{:where(body){margin:0}:where(img,li,tr:not(:has(table,div,p,ul,ol))){break-inside:avoid}"
    # An element of its own would no longer leave the mail's first one the first.
    "body::before{content:%s;display:block;margin-bottom:1em;border-bottom:1px solid;"
    "font:13px/2 sans-serif;overflow-wrap:anywhere}}</style>"
)
_HEAD_CHARACTERS = 300
_DOCTYPE = re.compile(r"(?is)(?>(?:[\s\ufeff]++|<!--.*?-->|<\?[^>]*+>)*)<!doctype\s++html\b([^>]*+)>")
_DOCTYPE_CHARACTERS = 10_000
_ALMOST = re.compile(r"xhtml 1\.0 (?:transitional|frameset)|html 4\.01 (?:transitional|frameset).*http", re.DOTALL)
_QUIRKY = re.compile(r"html (?:2|3|4\.0\b(?!1)|4\.01 (?:transitional|frameset))")

# Mails are written for white paper: their colours cannot be turned dark one by one.
_MAIL_STYLE = (
    ":root{color-scheme:only light;font-family:Helvetica,Arial,sans-serif;overflow-wrap:break-word}"
    ":where(body:not([bgcolor])){background:#fff}"
    # A share of a cell's width would let the cell shrink, so images in tables are held by the frame's only.
    ":where(img){max-width:100%}:where(table img){max-width:100vw}"
    # A blocked image has no address: it has the size that the mail states, or that of its alternative text.
    ":where(img:not([src])){display:inline-block;overflow:hidden;font-size:max(12px,1em);line-height:normal}"
    ":where(img:not([src],[role=presentation])){outline:1px solid #8886;outline-offset:-1px;background:#8881}"
    ":where(img:not([src])[role=img]){white-space:nowrap}"
    ":where(span[type=button]){display:inline-block;padding:1px 6px;border:1px solid #767676;border-radius:3px;"
    "background:#efefef;color:#000;font:13.33px Arial,sans-serif;text-align:center}"
    ":where(div[type=fieldset]){margin:0 2px;padding:.35em .75em .625em;border:2px groove silver}"
)
# What browsers do in the mode for pages without a doctype, where mails differ from it most.
_QUIRKS = (
    # "initial" as a size would not be made smaller with the mail by Firefox.
    ":where(table){font-weight:initial;font-style:initial;font-variant:initial;font-size:medium;line-height:initial;"
    "white-space:initial;text-align:initial}"
)
# A mail that is wider than its frame is shown smaller, in steps, until its reader ticks the box in the corner. That is
# at the top: the lower end of the frame is out of sight until the page is scrolled.
_FIT = (
    "body{zoom:var(--fit,1)}body:has(#size:checked){--fit:1}:where(table img){max-width:calc(100vw / var(--fit,1))}"
    "#size{display:none}@media screen and (max-width:%dpx){#size{display:block;position:fixed;margin:0;appearance:none;"
    "right:calc(8px / var(--fit,1));top:calc(8px / var(--fit,1));width:calc(36px / var(--fit,1));height:calc(36px / "
    "var(--fit,1));border-radius:50%%;background:#2229;color:#fff;text-align:center;cursor:pointer;"
    "font:calc(20px / var(--fit,1))/1.8 sans-serif}#size::before{content:'\\2922'}#size:checked{opacity:.5}}"
)
_SIZE = '<input type="checkbox" id="size" aria-label="100 %">'
_NARROWEST, _WIDEST, _STEP, _MARGINS = 240, 2000, 20, 16
_INVERTED = "filter:invert(1) hue-rotate(180deg)"
_DARK = f":root:has(#{DARK_ID}:target),:root:has(#{DARK_ID}:target) img[src]{{{_INVERTED}}}"
_TEXT_STYLE = (
    "<style>:root{color-scheme:light dark}body{margin:16px;font:15px/1.5 system-ui,sans-serif}"
    "pre{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere}</style>"
)


def mail_page(source: str, body: str, sheet: str = "", *, has_dark_styles: bool = False, width: int = 0) -> str:
    """Return the page of a sanitised mail.

    ``body`` is one ``div`` that stands for the mail's body, ``sheet`` the style sheet of the mail, both
    harmless; of ``source``, the mail as it came, only the doctype is looked at. ``width`` are the pixels that the
    mail takes whatever the frame has: in a narrower one it is shown smaller.
    """
    doctype, quirks = _mode(source)
    fit = _fit(width + _MARGINS) if _NARROWEST < width <= _WIDEST else ""
    own = f"{_MAIL_STYLE}{quirks}{fit}{'' if has_dark_styles else _DARK}"
    styles = f'<style id="{DARK_ID}">{own}</style>' + (f"<style>{sheet}</style>" if sheet else "")
    inner = body.removeprefix("<div").removesuffix("</div>")
    return f"{doctype}{_HEAD}{styles}<body{inner}{_SIZE if fit else ''}</body>"


def _fit(width: int) -> str:
    steps = range((width - 1) // _STEP * _STEP, _NARROWEST - 1, -_STEP)
    sizes = (
        f"@media screen and (max-width:{step + _STEP - 1}px){{body{{--fit:{step / width:.3f}}}}}" for step in steps
    )
    return _FIT % (width - 1) + "".join(sizes)


def text_page(text: str, note: str = "") -> str:
    """Return a page that shows a text as it is, after a note in HTML."""
    return f"{_STANDARD}{_HEAD}{_TEXT_STYLE}{note}<pre>\n{entities.escape(text, quote=False)}</pre>"


def titled(page: str, title: str, time: str) -> str:
    """Return a page with a title for its tab; on paper the title and the time stand above the mail."""
    printed = _PRINTED % _css_string(f"{title[:_HEAD_CHARACTERS]} · {time}")
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}<title>{entities.escape(title)}</title>{printed}", 1)


def _css_string(text: str) -> str:
    """Write a text as a string of CSS, with nothing in it that could end the string or its element."""
    return '"' + re.sub(r"[^\w .@:-]", lambda match: f"\\{ord(match[0]):x} ", text, flags=re.ASCII) + '"'


def _mode(source: str) -> tuple[str, str]:
    """Return a doctype and styles for the mode in which browsers would show the mail (HTML standard, 13.2.6.4.1)."""
    doctype = _DOCTYPE.match(source[:_DOCTYPE_CHARACTERS])
    identifiers = doctype[1].lower() if doctype else ""
    if _ALMOST.search(identifiers):
        return _ALMOST_STANDARD, ""
    if doctype is None or _QUIRKY.search(identifiers):
        return _ALMOST_STANDARD, _QUIRKS
    return _STANDARD, ""
