"""Parsing and rendering HTML never exceeds its budget, even for combined attacks, and honest mail is never truncated.

Work is counted in calls, which are the same on every machine. ``system/test_bombs.py`` measures the time that the work
takes.
"""

import json
import sys
import tomllib
from pathlib import Path

import htmlcombinations
import pytest

from tmpmaild.mail import htmltext, htmlview, mime
from tmpmaild.mail.budget import MAX_STEPS, Budget

TESTS = Path(__file__).parents[1]
EVENTS_A_STEP = 30  # calls and returns of Python and C functions; the measured maximum is 29


class TooMuchError(Exception):
    """More functions were called than the budget allows."""


def show(html, budget):
    return htmlview.render(html, {}, remote_images=True, budget=budget)


def call_within(most, work, *arguments):
    """Call ``work``; raise TooMuchError after ``most`` calls, so that a failing test does not take minutes."""
    left = most

    def count(*_):
        nonlocal left
        left -= 1
        if left < 0:
            raise TooMuchError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work(*arguments)
    finally:
        sys.setprofile(before)


HTML = {
    "1,500 rules for two classes, 780 elements of both": "<style>" + ".a .b{opacity:1}" * 1500 + "</style>"
    '<p class="a b" style="color:#fff">x' * 780,
    "the same, and no two elements alike": "<style>" + ".a .b{opacity:1}" * 1500 + "</style>"
    + "".join(f'<p class="a b" style="color:#fff;x:{n}">x' for n in range(780)),
    "one block of many values for many selectors": "<style>" + ",".join(f".a{n}" for n in range(2000))
    + f"{{{'opacity:0;' * 2000}}}</style>" + "".join(f"<p class=a{n}>x" for n in range(1000)),
    "classes in all combinations": "<style>.a{opacity:0}" + "".join(f".c{n}{{opacity:1}}" for n in range(100)) + "</style>"
    + "".join(f"<p class='a {' '.join(f'c{k}' for k in range(100) if n * k % 7 < 3)}'>x" for n in range(150)),
    "links below a base": "<base href=https://a.example/>" + "".join(f"<a href={n}>x</a>" for n in range(3000)),
    "lines": f"<pre>{'x' + chr(10) * 3}" * 10_000,
    "references": "&lt;" * 16_000,
    "values": f"<p style='{'opacity:0;' * 400}'>x" * 15,
}  # fmt: skip


@pytest.mark.parametrize("work", [htmltext.read, show])
@pytest.mark.parametrize("name", HTML)
def test_repeated_pieces_cost_no_more_than_their_budget(name, work):
    budget = Budget.of(len(HTML[name]))
    call_within(EVENTS_A_STEP * budget.remaining, work, HTML[name], budget)


@pytest.mark.parametrize("work", [htmltext.read, show])
def test_combined_pieces_cost_no_more_than_their_budget(work):
    for chosen in htmlcombinations.covering():
        html = htmlcombinations.html(chosen, 32_768)
        budget = Budget.of(len(html))
        call_within(EVENTS_A_STEP * budget.remaining, work, html, budget)


def honest():
    """Yield the HTML of all honest messages in other tests."""
    yield from [path.read_text() for path in sorted(TESTS.glob("browser/templates/*.html"))]
    yield from [mime.parse(path.read_bytes()).html for path in sorted(TESTS.glob("mails/*.eml"))]
    for path in sorted(TESTS.glob("findings/mails/*.toml")):
        yield from [case.get("html") for case in tomllib.loads(path.read_text())["message"]]
    for path in sorted(TESTS.glob("findings/blind/*.jsonl")):
        yield from [json.loads(line).get("html") for line in path.read_text().splitlines()]


@pytest.mark.parametrize("work", [htmltext.read, show])
def test_honest_mail_is_never_cut(work):
    mails = [html for html in honest() if html]
    assert len(mails) > 600
    for html in mails:
        budget = Budget.of(len(html))
        before = budget.remaining
        work(html, budget)
        assert not budget.is_spent
        assert budget.remaining > before / 3, "too close to the limit for slightly larger messages"


def test_a_budget_grows_with_the_size_up_to_a_bound_and_can_keep_a_reserve():
    assert [Budget.of(size).remaining for size in (0, 65_536, 10**9)] == [8192, 24_576, MAX_STEPS]
    budget = Budget(10)
    assert budget.take(6, reserved=4)
    assert not budget.is_spent
    assert not budget.take(1, reserved=4)
    assert (budget.remaining, budget.is_spent) == (4, True)
    assert budget.take(4)


def test_a_rule_too_expensive_for_the_budget_is_omitted_and_the_text_is_complete():
    sheet = "".join(f".c{n}{{opacity:0}}" for n in range(3000))
    html = f"<style>.first{{opacity:0}}{sheet}</style><p class=first>no</p><p class=c2999>last</p>"
    budget = Budget(6000)
    assert htmltext.read(html, budget).text() == "last"
    assert budget.is_spent
    page = show(html.replace("opacity:0", "color:red"), Budget(6000)).html
    assert ".m_first" in page
    assert ".m_c2999" not in page
    assert "last</p>" in page
