"""What a browser shows of a mail is in its text, and what ``hiding`` calls hidden is hidden there."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hiding import FORMS, NOT_RECOGNISED

from tmpmaild.mail.htmltext import to_text

TEMPLATES = sorted((Path(__file__).parent / "templates").glob("*.html"))
# Each piece of text of which something is painted, in a window on a desk. Scripts are off in the frame.
SEEN = """
(mails) => {
  const alike = (one, other) => one.every((value, n) => Math.abs(value - other[n]) <= 8);
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const readable = (at, node, style) => {
    if (style.textShadow !== "none") return true;
    const colour = numbers(style.webkitTextFillColor);
    const behind = at.map((one) => node.ownerDocument.defaultView.getComputedStyle(one));
    if (behind.some((one) => one.backgroundClip === "text")) return true;
    if (colour[3] === 0) return false;
    for (const one of behind) {
      if (one.backgroundImage !== "none") return true;
      const ground = numbers(one.backgroundColor);
      if (ground[3] === undefined) return !alike(colour, ground);
    }
    return !alike(colour, [255, 255, 255]);
  };
  const cuts = (style) => style.overflow !== "visible" || style.clipPath !== "none" || style.clip !== "auto";
  const seen = (node) => {
    const page = node.ownerDocument, range = page.createRange();
    const around = [];
    for (let one = node.parentElement; one; one = one.parentElement) around.push(page.defaultView.getComputedStyle(one));
    const [style] = around;
    const opacity = around.reduce((all, one) => all * one.opacity * (one.filter === "opacity(0)" ? 0 : 1), 1);
    if (around.some((one) => one.contentVisibility === "hidden") || opacity < 0.02 || style.visibility !== "visible" || parseFloat(style.fontSize) <= 1) return false;
    range.selectNodeContents(node);
    return [...range.getClientRects()].some((box) => {
      if (box.width < 2 || box.height < 2) return false;
      const at = page.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
      const place = at.findIndex((one) => one === node.parentElement);
      if (place < 0 && (around.some(cuts) || !at.length)) return false;  // else it is beside its box
      if (place < 0) return readable(at, node, style);
      const over = at.slice(0, place).map((one) => page.defaultView.getComputedStyle(one).backgroundColor);
      return over.every((colour) => colour === "rgba(0, 0, 0, 0)") && readable(at.slice(place), node, style);
    });
  };
  return mails.map((html) => {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-same-origin";
    frame.style = "width:1200px;height:6000px;border:0";
    document.body.replaceChildren(frame);
    const page = frame.contentDocument;
    page.open();
    page.write(html);
    page.close();
    page.getAnimations().forEach((one) => one.finish());
    const found = [], walker = page.createTreeWalker(page.documentElement, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.trim() && !node.parentElement.closest("title, style, script") && seen(node)) found.push(node.data);
    }
    return found;
  });
}
"""


@pytest.fixture(scope="module")
async def seen(browser):
    """Return a function that says what a browser shows of mails; it loads nothing."""
    context = await browser.new_context(viewport={"width": 1280, "height": 6200})
    page = await context.new_page()
    await page.route("**/*", lambda route: route.abort())
    yield lambda mails: page.evaluate(SEEN, mails)
    await context.close()


def words(text):
    return Counter(re.findall(r"\w+", text))


async def test_a_browser_shows_and_hides_what_the_forms_say(seen):
    shown = dict(zip(FORMS, map(" ".join, await seen(FORMS)), strict=True))
    wrong = {html: found for html, found in shown.items() if words(found) != Counter(re.findall("shown", html))}
    assert wrong == {}


async def test_what_is_not_recognised_is_hidden_by_a_browser(seen):
    shown = dict(zip(NOT_RECOGNISED, map(" ".join, await seen(NOT_RECOGNISED)), strict=True))
    assert [html for html, found in shown.items() if words(found) == words(to_text(html))] == []


async def test_no_word_that_a_browser_shows_of_a_mail_is_missing_in_its_text(seen):
    mails = [file.read_text() for file in TEMPLATES]
    missing = {
        file.stem: dict(words(" ".join(found)) - words(to_text(html)))
        for file, html, found in zip(TEMPLATES, mails, await seen(mails), strict=True)
    }
    assert len(missing) > 10
    assert {name: lost for name, lost in missing.items() if lost} == {}
