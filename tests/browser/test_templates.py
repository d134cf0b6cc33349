"""Mails as senders make them with common tools: the view is held against the same HTML in a browser.

The browser shows the original with scripts off and without remote images. ``TMPMAILD_TEMPLATES=FOLDER`` measures
the ``.html`` files of another folder.
"""

import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from scripts import scripts_of
from tmpmaild.mail.htmlview import render

SCRIPTS = scripts_of(__file__)

OWN = Path(__file__).parent / "templates"
FOLDER = Path(os.environ.get("TMPMAILD_TEMPLATES") or OWN)
POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PHONE, WIDE = 340, 800
# Foundation's and the hybrid have columns only where there is room, as measured; two more stand for the others, which
# are compared on a phone alone. Another folder is compared on both.
WIDE_TOO = {"foundation", "hybrid", "mjml-newsletter", "word"}
# What a checkbox would unfold is shown from the start, since a view has no controls.
UNFOLDED = {"mjml-alert"}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Screens:
    """Frames that show HTML as it came and our view of it, on a phone and where it matters wide, and load nothing from elsewhere."""

    def __init__(self, page):
        self._page = page
        self._answers = {}

    def _widths(self, name):
        return (PHONE, WIDE) if name in WIDE_TOO or FOLDER != OWN else (PHONE,)

    async def answer(self, route):
        path = route.request.url.removeprefix("http://mail.example/")
        if path in self._answers:
            body, headers = self._answers[path]
            await route.fulfill(body=body, content_type="text/html; charset=utf-8", headers=headers)
        else:
            await route.abort()

    async def measure(self, mails):
        """Return for each mail and width what is seen of the original and of the view."""
        shown = {}
        for name, html in mails.items():
            self._answers[f"original/{name}"] = html, {}
            self._answers[f"view/{name}"] = (
                render(html, {}, remote_images=False).html,
                {"Content-Security-Policy": POLICY},
            )
            shown |= {(name, width): (f"original/{name}", f"view/{name}") for width in self._widths(name)}
        frames = [
            f"<iframe name='{path} {width}' src='{path}' width={width} height=200 style='border:0'></iframe>"
            for (_, width), paths in shown.items()
            for path in paths
        ]
        self._answers[""] = "<!doctype html>" + "".join(frames), {}
        await self._page.goto("http://mail.example/")
        found = {}
        for frame in self._page.frames[1:]:
            fitted = await frame.evaluate(OVERFLOW)
            await frame.evaluate("document.getElementById('size')?.click()")  # to the size that its sender gave it
            found[frame.name] = {**await frame.evaluate(SCRIPTS["MEASURE"]), "fitted": fitted}
        return {key: [found[f"{path} {key[1]}"] for path in paths] for key, paths in shown.items()}


@pytest.fixture
async def screens(browser):
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    shown = Screens(page)
    await page.route("**/*", shown.answer)
    yield shown
    await context.close()


def numbered(pieces):
    """Return the pieces by what they say and how often that was said before."""
    met = Counter()
    found = {}
    for piece in pieces:
        met[piece["text"]] += 1
        found[piece["text"], met[piece["text"]]] = piece
    return found


def stand_side_by_side(one, other):
    overlap = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return overlap > 2 and one["right"] <= other["left"] + 1


def lost_columns(original, view):
    """Yield the neighbours in columns of the original that are none in the view."""
    for pair in pairwise(key for key in original if key in view):
        (one, other), ours = (original[key] for key in pair), (view[key] for key in pair)
        if one["cell"] != other["cell"] and stand_side_by_side(one, other) and not stand_side_by_side(*ours):
            yield [text[:30] for text, _ in pair]


def differences(original, view):
    """Return in which ways the view of a mail is worse than the original on one screen."""
    theirs, ours = numbered(original["pieces"]), numbered(view["pieces"])
    words, shown = (Counter(re.findall(r"\w+", " ".join(text for text, _ in one))) for one in (theirs, ours))
    links, linked = (Counter(key for key, piece in one.items() if piece["link"]) for one in (theirs, ours))
    ratio = view["height"] / original["height"]
    return {
        "scrolls": max(0, view["overflow"] - original["overflow"]),
        "does not fit": FOLDER == OWN and max(0, view["fitted"]),
        "height": 0 if 0.75 <= ratio <= 1.25 else round(ratio, 2),
        "columns lost": list(lost_columns(theirs, ours)),
        "words lost": dict(words - shown),
        "words added": dict(shown - words),
        "links lost": list(links - linked),
        "colours": [
            (key[0][:30], theirs[key]["colours"], ours[key]["colours"])
            for key in theirs.keys() & ours.keys()
            if theirs[key]["colours"] != ours[key]["colours"]
        ][:3],
    }


@pytest.mark.parametrize("folder", [FOLDER], ids=lambda folder: folder.name)
async def test_a_mail_looks_as_its_sender_made_it(screens, folder):
    measured = await screens.measure({file.stem: file.read_text() for file in sorted(folder.glob("*.html"))})
    assert measured
    worse = {}
    for (name, width), shown in measured.items():
        found = {what: value for what, value in differences(*shown).items() if value}
        if name in UNFOLDED:
            found.pop("words added", None)
        if found:
            worse[f"{name} at {width}"] = found
    assert worse == {}
