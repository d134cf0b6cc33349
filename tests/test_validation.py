"""All errors in a set of named values are reported at once."""

import msgspec
import pytest
from msgspec import UNSET

from tmpmaild.validation import InvalidValue, Validator, validate

WHOLE = Validator("a whole number", int, int)
SHARE = Validator("a number", float, float)
WORDS = Validator("a word", str, str.strip, many=True, least=1)
SHORT = Validator("a short text", object, lambda value: msgspec.convert(value, str), required=True)


def test_valid_values_are_parsed_and_values_that_msgspec_refuses_are_errors():
    given = {"words": [" a", "b "], "share": 1, "short": "x"}
    values, mistakes = validate(given, {"whole": WHOLE, "share": SHARE, "words": WORDS, "short": SHORT})
    assert values == {"words": ("a", "b"), "share": 1.0, "short": "x"}
    assert mistakes == []
    assert validate({"short": 1}, {"short": SHORT}) == ({}, [InvalidValue("short", "a short text", 1)])


def test_all_errors_are_reported_in_order_and_missing_values_last():
    given = {"words": ["a", 1, 2], "other": 3, "whole": True}
    values, mistakes = validate(given, {"whole": WHOLE, "words": WORDS, "short": SHORT})
    assert values == {}
    assert [(one.place, one.expected, one.found) for one in mistakes] == [
        ("words[1]", "a word", 1),
        ("words[2]", "a word", 2),
        ("other", "", 3),
        ("whole", "a whole number", True),
        ("short", "a short text", UNSET),
    ]


@pytest.mark.parametrize("value", ["a", [], None])
def test_a_list_must_have_the_minimum_length(value):
    assert validate({"words": value}, {"words": WORDS})[1] == [
        InvalidValue("words", "a list of at least one string", value)
    ]
