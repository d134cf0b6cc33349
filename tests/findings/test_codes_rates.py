"""Messages written without knowledge of the rules: the rates of correct results must not get worse.

``blind/first.jsonl``, ``second.jsonl`` and ``third.jsonl`` contain 150 messages each, 100 of them with a code;
``fourth.jsonl`` contains 120 messages, 60 of them with a code; ``fifth.jsonl`` contains 170 messages, 100 of them with
a code. The rules were developed with the first three files, and improved with the fifth, sixth and seventh files.
``sixth.jsonl`` contains 101 of 216 messages: all messages without HTML, and most of those with wrong results.
``seventh.jsonl`` contains 111 messages, 59 of them with a code. ``ninth.jsonl`` contains 143 messages: sentences from
banks, portals and shops, and links in text.

docs/decisions.md lists the rates for the later files, measured before the files were first read.
"""

from pathlib import Path

import pytest

import finding_rates

HERE = Path(__file__).parent / "blind"


@pytest.mark.parametrize(
    ("name", "size", "least_codes", "most_invented", "least_links"),
    [
        ("first", 150, 1, 0, 1),
        ("second", 150, 0.95, 0.02, 1),
        ("third", 150, 0.96, 0.02, 0.97),
        ("fourth", 120, 0.96, 0, 1),
        ("fifth", 170, 0.98, 0, 1),
        ("sixth", 101, 1, 0, 0.97),
        ("seventh", 111, 1, 0, 0.97),
        ("ninth", 143, 0.98, 0, 1),
    ],
)
def test_the_rates_do_not_get_worse(name, size, least_codes, most_invented, least_links):
    mails = finding_rates.read(HERE / f"{name}.jsonl")
    rates = finding_rates.measure(mails)
    assert len(mails) == size
    assert rates.first_code_right >= least_codes, rates.wrong
    assert rates.invented <= most_invented, rates.wrong
    assert rates.link_right >= least_links, rates.wrong
