"""Which selectors of a hostile mail stay, each kept within its body, and how much they cost a browser."""

import pytest

from tables import rows_of, table
from tmpmaild.mail.selectors import SCOPE
from tmpmaild.mail.viewsheet import MAX_SELECTORS, Sheet

ROWS = rows_of(__file__)


def written(selector):
    sheet = Sheet()
    sheet.add(f"{selector}{{color:red}}")
    return sheet.written(1, 1).removesuffix("{color:red}")


@table(("text", "kept"), ROWS["selectors that are known stay"])
def test_selectors_that_are_known_stay(text, kept):
    assert written(text).replace(SCOPE, "") == kept


def test_a_selector_reaches_what_is_in_the_body_and_those_within_others_are_counted():
    assert written("*,p a") == f"*{SCOPE},p{SCOPE} a"
    assert written("html *,html>body") == f"html *{SCOPE},html>body{SCOPE}"
    inner = ",".join(f".c{n}" for n in range(500))
    assert written(",".join([f"p:is({inner})"] * 10)).count(":is(") == MAX_SELECTORS // 500 - 1


@pytest.mark.parametrize(
    ("selector", "elements", "depth", "is_kept"), ROWS["what walks over the mail counts as far as it walks"]
)
def test_what_walks_over_the_mail_counts_as_far_as_it_walks(selector, elements, depth, is_kept):
    sheet = Sheet()
    sheet.add(f"{selector}{{color:red}}")
    assert bool(sheet.written(elements, depth)) == is_kept
