"""The noun that describes each number in a line, before or after the number, or a different kind of label."""

import pytest

from tmpmaild.findings.candidates import find
from tmpmaild.findings.lines import Line
from tmpmaild.findings.naming import attachment, continues


def attached(text, index=0):
    line = Line(text, find([text])[0])
    found = attachment(line, index)
    return found and (found.noun and text[found.noun.start : found.noun.end], found.score)


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("code: 481516", "code"),
        ("Your code is 481516", "code"),
        ("code for your login 481516", "code"),
        ("code... 481516", "code"),
        ("481516 is your code", "code"),
        ("Use the OTP (481516)", "OTP"),
    ],
)
def test_a_noun_in_one_phrase_with_a_number_names_it_for_sure(text, noun):
    assert attached(text) == (noun, 1)


def test_a_noun_further_away_names_a_number_less_surely():
    near = attached("481516, your code")
    otp = attached("The OTP of today was asked for as 481516")
    code = attached("The code of today was asked for as 481516")
    things = attached("The code of today has about 4815 lines")
    assert 1 > near[1] > otp[1] > code[1] > things[1] > 0


@pytest.mark.parametrize(
    ("text", "index"),
    [
        pytest.param("Your order number is 481516", 0, id="no noun at all"),
        pytest.param("Enter the code on the order 481516", 0, id="a label between noun and number"),
        pytest.param("OTP for A/c no. 4471 is 811739", 0, id="the noun leads to the later number"),
        pytest.param("order 481516: code inside", 0, id="a noun behind is weaker than a label before"),
    ],
)
def test_a_different_label_names_the_number(text, index):
    assert attached(text, index) == (None, 0)


def test_a_number_after_the_word_is_wins_over_a_number_after_the_word_for():
    assert attached("OTP for A/c no. 4471 is 811739", 1) == ("OTP", 1)
    assert attached("use code 1234 for card no.: 5678", 0) == ("code", 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("481516", id="no words"),
        pytest.param("Hello Anna 481516", id="no label"),
        pytest.param("4815 lines of code", id="counted things"),
        pytest.param("481516: Code of conduct", id="a heading"),
    ],
)
def test_no_word_names_the_number(text):
    assert attached(text) is None


@pytest.mark.parametrize(
    ("text", "is_so"),
    [("It is 481516", True), ("481516 is it", True), ("The order is 481516", False), ("481516", False)],
)
def test_a_line_continues_the_naming_in_the_line_above(text, is_so):
    line = Line(text, find([text])[0])
    assert continues(line, line.candidates[0]) is is_so
