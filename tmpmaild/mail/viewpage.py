"""The page that contains sanitised HTML or plain text: its head, the styles that we add, and its size."""

import html as entities
import re
from pathlib import Path

from tmpmaild.mail.htmltokens import collapsed
from tmpmaild.mail.viewsheet import DARK_ID, LIGHT_ID

_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f'<meta name="referrer" content="no-referrer" id="{LIGHT_ID}"><base target="_blank">'
)
_STANDARD = "<!doctype html>"
# Images in table cells leave no gap for descenders, as senders expect.
_ALMOST_STANDARD = '<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN">'
_END_OF_HEAD = '<base target="_blank">'
_HEAD_CHARACTERS = 300
_DOCTYPE = re.compile(r"(?is)(?>(?:[\s\ufeff]++|<!--.*?-->|<\?[^>]*+>)*)<!doctype\s++html\b([^>]*+)>")
_DOCTYPE_CHARACTERS = 10_000
_ALMOST = re.compile(r"xhtml 1\.0 (?:transitional|frameset)|html 4\.01 (?:transitional|frameset).*http", re.DOTALL)
_QUIRKY = re.compile(r"html (?:2|3|4\.0\b(?!1)|4\.01 (?:transitional|frameset))")


def _parts_of(sheet: str) -> dict[str, str]:
    """Return the parts of ``view.css`` without comments, keyed by the name in the comment that starts each part."""
    parts, name = {"": ""}, ""
    for piece in sheet.split("/*"):
        comment, _, rules = piece.rpartition("*/")
        title, colon, _ = comment.strip().partition(": ")
        if colon and title.isidentifier():
            name = title
        parts[name] = parts.get(name, "") + "".join([line.strip() for line in rules.splitlines()])
    return parts


_OWN = _parts_of(Path(__file__).with_name("view.css").read_text("utf-8"))
_SIZE = '<input type="checkbox" id="size" aria-label="100 %">'
_NARROWEST, _WIDEST, _STEP, _MARGINS = 240, 2000, 20, 16
_INVERTED = "filter:invert(1) hue-rotate(180deg)"
_GROUND = re.compile(r'(?i)(?:\bbgcolor="|\bbackground(?:-color)?:)\s*+(#(?:[0-9a-f]{6}|[0-9a-f]{3})\b|[a-z]++)')
_GROUND_CHARACTERS = 4096
_BEGINNING_CHARACTERS = 64 * 1024  # includes white space, which the search ignores
_DARK_SUM = 12  # the sum of three hex digits, each up to 15
_DARK = f":root:has(#{DARK_ID}:target),:root:has(#{DARK_ID}:target) img[src]{{{_INVERTED}}}"


def mail_page(source: str, body: str, markup: str, sheet: str, *, has_dark_styles: bool = False, width: int = 0) -> str:
    """Return the page for sanitised HTML.

    ``body`` is an empty ``div`` with the attributes of the message's body, or without attributes if its parts have
    their own. ``markup`` is the content of the ``div``, and ``sheet`` is the message's style sheet; all three are
    already harmless. Only the doctype of the original ``source`` is used. ``width`` is the fixed width of the message
    in pixels; in a narrower frame, the message is scaled down.
    """
    doctype, quirks = _mode(source)
    fit = _fit(width + _MARGINS) if _NARROWEST < width <= _WIDEST else ""
    beginnings = [collapsed(text[:_BEGINNING_CHARACTERS])[:_GROUND_CHARACTERS] for text in (body, markup)]
    is_dark = has_dark_styles or has_dark_ground("".join(beginnings))
    own = f"{_OWN['mail']}{quirks}{fit}{'' if is_dark else _DARK}"
    styles = f'<style id="{DARK_ID}">{own}</style>' + (f"<style>{sheet}</style>" if sheet else "")
    opened = body.removeprefix("<div").removesuffix("</div>")
    return f"{doctype}{_HEAD}{styles}<body{opened}{markup}{_SIZE if fit else ''}</body>"


def has_dark_ground(markup: str) -> bool:
    """Return whether the first declared background is dark. Such a message is not inverted in the dark view."""
    ground = _GROUND.search(markup)
    if ground is None or not ground[1].startswith("#"):
        return ground is not None and ground[1].lower() == "black"
    digits = ground[1].removeprefix("#")
    parts = digits if len(digits) == 3 else digits[::2]  # noqa: PLR2004 - #rgb and #rrggbb; low digits have little effect
    return sum(int(part, 16) for part in parts) <= _DARK_SUM


def _fit(width: int) -> str:
    steps = range((width - 1) // _STEP * _STEP, _NARROWEST - 1, -_STEP)
    sizes = (
        f"@media screen and (max-width:{step + _STEP - 1}px){{body{{--fit:{step / width:.3f}}}}}" for step in steps
    )
    return _OWN["fit"] % (width - 1) + "".join(sizes)


def text_page(text: str, note: str = "") -> str:
    """Return a page that shows text unchanged, after a note in HTML."""
    return f"{_STANDARD}{_HEAD}<style>{_OWN['text']}</style>{note}<pre>\n{entities.escape(text, quote=False)}</pre>"


def titled(page: str, title: str, time: str) -> str:
    """Return a page with a title for its tab; when printed, the title and the time precede the message."""
    printed = _OWN["printed"] % _css_string(f"{title[:_HEAD_CHARACTERS]} · {time}")
    # If a page has no icon, browsers request an icon, which the policy blocks.
    own = f'<title>{entities.escape(title)}</title><link rel="icon" href="data:,"><style>{printed}</style>'
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}{own}", 1)


def served_by(page: str, host: str) -> str:
    """Return a page with a notice at the top (only on screens) that the service did not write the message."""
    notice = f"{host} shows you a message that somebody sent to a disposable address. {host} did not write it."
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}<style>{_OWN['served'] % _css_string(notice)}</style>", 1)


def _css_string(text: str) -> str:
    """Write a text as a CSS string. The text cannot end the string or its element."""
    return '"' + re.sub(r"[^\w .@:-]", lambda match: f"\\{ord(match[0]):x} ", text, flags=re.ASCII) + '"'


def _mode(source: str) -> tuple[str, str]:
    """Return a doctype and styles for the mode in which browsers would show the message (HTML standard, 13.2.6.4.1)."""
    doctype = _DOCTYPE.match(source[:_DOCTYPE_CHARACTERS])
    identifiers = doctype[1].lower() if doctype else ""
    if _ALMOST.search(identifiers):
        return _ALMOST_STANDARD, ""
    if doctype is None or _QUIRKY.search(identifiers):
        return _ALMOST_STANDARD, _OWN["quirks"]
    return _STANDARD, ""
