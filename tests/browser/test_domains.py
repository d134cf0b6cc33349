"""The domains in a sender's name: the same matches as with a plain regular expression, but in linear time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import SLACK_SECONDS, TIMES
from modules import in_node

pytestmark = pytest.mark.needs("node")
FIND = "({ domainsIn }, texts) => texts.map(domainsIn)"
PLAINLY = r"({ domainsIn }, texts) => texts.map((text) => text.match(/(?:[\p{L}\p{N}\p{M}-]+[.\u3002])+[\p{L}\p{M}]{2,}/gu) ?? [])"
# Measures the time for a text, and for its first eighth.
TAKEN = """({ domainsIn }, texts) => texts.map((text) => [text, text.slice(0, text.length / 8)].map((one) => {
    let least = Infinity;
    for (let time = 0; time < 3; time++) {
        const began = process.cpuUsage();
        domainsIn(one);
        const { user, system } = process.cpuUsage(began);
        least = Math.min(least, (user + system) / 1e6);
    }
    return least;
}))"""
PIECES = [
    "a",
    "a.",
    "a.b",
    "ab.",
    "..",
    "-",
    "1",
    "1.",
    "a1.",
    "a..",
    "a. ",
    "\u0301",
    "\u4e2d",
    "\u4e2d\u3002",
    "a.bc1.",
]


def test_the_domains_of_a_text_are_found_with_all_their_labels():
    texts = [
        "Support at paypal.com",
        "shop.example1",
        "a.b",
        "..shop.example..",
        "中国银行。公司",
        "x.co.uk, y.de",
        "no",
    ]
    assert in_node("domains.js", FIND, texts) == [
        ["paypal.com"],
        ["shop.example"],
        [],
        ["shop.example"],
        ["中国银行.公司"],
        ["x.co.uk", "y.de"],
        [],
    ]


@settings(max_examples=5)
@given(st.lists(st.text("ab1.-\u3002 @\u0301\u4e2d", max_size=12), min_size=200, max_size=200))
def test_the_domains_are_the_same_as_with_a_plain_regular_expression(texts):
    expected = [[one.replace("\u3002", ".") for one in found] for found in in_node("domains.js", PLAINLY, texts)]
    assert in_node("domains.js", FIND, texts) == expected


def test_finding_domains_takes_linear_time_whatever_the_name_contains():
    """199 times U+3316 normalizes to 1,200 letters: a hundred such senders kept the page busy for three seconds."""
    texts = [(one + other) * (16_000 // len(one + other)) for one in PIECES for other in ("", *PIECES[:3])]
    taken = dict(zip(texts, in_node("domains.js", TAKEN, texts), strict=True))
    slow = {text[:12]: pair for text, pair in taken.items() if pair[0] > 3 * TIMES * pair[1] + SLACK_SECONDS}
    assert slow == {}
