"""The meaning of cues in a line's phrases, and the evidence about its candidates that the line provides."""

import pytest

from tmpmaild.findings.candidates import find
from tmpmaild.findings.cues import NOUNS, Cue
from tmpmaild.findings.lines import Document, Line, has_known_modifiers


def line_of(text):
    return Line(text, find([text]).get(0, []))


def candidate_in(text):
    """Return a line and its first candidate."""
    line = line_of(text)
    return line, line.candidates[0]


@pytest.mark.parametrize(
    ("phrase", "cue"),
    [
        ("verification code", Cue.OTP),
        ("code de vérification", Cue.OTP),
        ("one-time password", Cue.OTP),
        ("promo code", Cue.LABEL),
        ("code de suivi", Cue.LABEL),
        ("code", Cue.CODE),
        ("password", Cue.PASSWORD),
        ("enter the password", Cue.ASKED),
        ("enter number 4815", Cue.ASKED),
        ("order number", Cue.NUMBER),
    ],
)
def test_the_meaning_of_a_cue_depends_on_its_phrase(phrase, cue):
    assert cue in line_of(phrase).cues


@pytest.mark.parametrize(
    ("text", "is_entered"),
    [
        ("Enter 481516", True),
        ("Enter in the app: 481516", True),
        ("Enter here 481516", True),
        ("481516 eingeben", True),
        pytest.param("Never enter 481516", False, id="negated"),
        pytest.param("Enter the hall. 481516", False, id="another sentence"),
        pytest.param("Enter by gate 4471, ticket 481516", False, id="another number is entered"),
    ],
)
def test_a_line_asks_to_enter_its_last_number(text, is_entered):
    line = line_of(text)
    assert line.is_to_be_entered(line.candidates[-1]) is is_entered


@pytest.mark.parametrize(
    ("text", "is_quantity"), [("4815 points", True), ("4815 is yours", False), ("4815, points", False)]
)
def test_a_number_before_a_unit_is_a_quantity(text, is_quantity):
    line, candidate = candidate_in(text)
    assert line.is_quantity(candidate) is is_quantity


@pytest.mark.parametrize(
    ("text", "is_user_name"),
    [
        ("Login: jsmith42", True),
        ("* Username: jsmith42", True),
        pytest.param("Login jsmith42", False, id="no colon"),
        pytest.param("Code for your login: jsmith42", False, id="the label of a code"),
        pytest.param("Login: 481516", False, id="digits alone"),
    ],
)
def test_a_label_says_that_a_word_is_a_user_name(text, is_user_name):
    line, candidate = candidate_in(text)
    assert line.is_user_name(candidate) is is_user_name


@pytest.mark.parametrize(("text", "is_alone"), [("481516", True), ("- 481516 -", True), ("481516 it", False)])
def test_a_candidate_is_alone_if_its_line_contains_no_other_text(text, is_alone):
    line, candidate = candidate_in(text)
    assert line.is_alone(candidate) is is_alone


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("Your access code is 481516", True),
        ("Your code is 481516", True),
        ("Your ACME code is 481516", True),
        ("Your gatekeeper code is 481516", False),
        ("Your climbing code is 481516", False),
        ("Il tuo codice palestra 481516", False),
        pytest.param("The rules (code) 481516", False, id="in parentheses"),
    ],
)
def test_an_unknown_word_makes_a_noun_another_kind_of_code(text, is_known):
    line, candidate = candidate_in(text)
    noun = next(span for span in line.spans if span.cue in NOUNS)
    assert has_known_modifiers(line, noun, text[noun.end : candidate.start]) is is_known


def test_a_noun_names_only_one_number():
    line = line_of("Your code is 481516")
    (noun,) = line.nouns()
    line.attach(noun)
    assert line.nouns() == []
    assert line.nouns(attached=True) == [noun]


@pytest.mark.parametrize(
    ("subject", "first"),
    [
        ("[STAGING] Sign in", "Sign in"),
        ("EXTERNAL: Sign in", "Sign in"),
        ("[EXT] [TEST] Sign in", "Sign in"),
        pytest.param("[ACME] Sign in", "[acme] Sign in", id="capitals of a list's name are not a code"),
    ],
)
def test_tags_before_a_subject_are_removed(subject, first):
    assert Document(subject, "text").lines[0].text == first


def test_a_document_knows_where_its_text_starts_and_which_lines_have_a_candidate():
    document = Document("Sign in", "Hello.\n481516\nBye")
    assert (document.first, document.numbers) == (1, [2])
    assert Cue.VERIFY in document.cues(0, document.first)
