"""The numbers and words in a text that could be codes, and their characters."""

import pytest

from tmpmaild.findings import candidates
from tmpmaild.findings.candidates import Kind


def test_at_most_a_hundred_candidates_are_found():
    found = candidates.find(["123456, " * 1000])
    assert len(found[0]) == candidates.MAX_CANDIDATES


def test_a_candidate_ends_where_a_reader_would_end_it():
    (candidate,) = candidates.find(["none", "it is 481 516 here"])[1]
    assert (candidate.start, candidate.end, candidate.value, candidate.kind) == (6, 13, "481516", Kind.DIGITS)
    assert not candidates.find(["2026年11月23日", "2026년 11월"])
    assert [candidate.value for candidate in candidates.find(["481516\u0589"])[0]] == ["481516"]
    (candidate,) = candidates.find(["码481516,5分钟"])[0]
    assert (candidate.end, candidate.value) == (7, "481516")
    assert not candidates.find(["481516,50元"])


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("481516", ["DIGITS"]),
        ("G-481516", ["MIXED"]),
        ("BMS 3PT", ["MIXED"]),
        ("2026", ["YEAR"]),
        ("K7M3Q9", ["MIXED"]),
        ("K7M-3Q9", ["MIXED"]),
        ("KXQWPZ", ["LETTERS"]),
        ("KXQ-WPZ", ["LETTERS"]),
        ("K X Q W", ["LETTERS"]),
        ("correct-horse-battery", ["WORDS"]),
        ("plain lower words, Names and numbers 12", []),
        ("SIGN-IN E-MAIL UTF-8", []),
    ],
)
def test_the_kind_of_a_candidate_depends_on_its_characters(line, kinds):
    assert [candidate.kind.name for found in candidates.find([line]).values() for candidate in found] == kinds


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("481516", "4815"),
        ("4815", "2026"),
        ("K7M3Q9", "SAVE20"),
        ("K7M3Q9", "k7m3q9"),
        ("K7M3Q9", "K7M3"),
        ("K7M3-Q9XZ", "K7M3Q-9XZ"),
        ("K7M3Q-9XZ4", "ORDER-12"),
        ("correct-horse-battery", "up-front"),
    ],
)
def test_some_candidates_look_more_like_a_code_than_others(better, worse):
    def score(line):
        found = candidates.find([line]).get(0, [])
        return found[0].score if found else 0

    assert score(better) > score(worse)
