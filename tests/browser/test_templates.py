"""Messages created with common tools: our view is compared with the original HTML in a browser.

The browser shows the original without scripts or remote images. ``TMPMAILD_TEMPLATES=FOLDER`` measures the
``.html`` files of another folder.
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
# The templates that are also compared on a wide screen. Foundation and hybrid templates form columns only on wide
# screens; two more templates represent the rest. Templates in another folder are compared on both screens.
WIDE_TOO = {"foundation", "hybrid", "mjml-newsletter", "word"}
# Templates whose content a checkbox would unfold; a view has no controls, so it shows the content immediately.
UNFOLDED = {"mjml-alert"}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Screens:
    """Frames that show the original HTML and our view at phone width, and for some templates also at desktop width.

    The frames load no remote resources.
    """

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
        """Return the measurements of the original and of the view, for each message and width."""
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
            # Show the view at the size that the sender intended.
            await frame.evaluate("document.getElementById('size')?.click()")
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
    """Return the pieces, keyed by their text and a sequence number among equal texts."""
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
    """Yield columns that are next to each other in the original but not in the view."""
    for pair in pairwise(key for key in original if key in view):
        (one, other), ours = (original[key] for key in pair), (view[key] for key in pair)
        if one["cell"] != other["cell"] and stand_side_by_side(one, other) and not stand_side_by_side(*ours):
            yield [text[:30] for text, _ in pair]


def differences(original, view):
    """Return the defects that appear in a message's view but not in the original, on one screen size."""
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
async def test_a_message_looks_as_its_sender_intended(screens, folder):
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
