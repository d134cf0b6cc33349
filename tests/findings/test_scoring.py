"""The features that identify a number as a code if no noun describes it."""

import pytest

from tmpmaild.findings import lexicon
from tmpmaild.findings.lines import Document
from tmpmaild.findings.scoring import LEAST, score_by_features

GREETED = "Saluton Anna,\n\n{}\n\nBonan tagon"


def scored(text, subject="Preskau finita"):
    return score_by_features(Document(subject, text))


def test_a_number_alone_between_other_lines_is_a_code_in_any_language():
    (score,) = scored(GREETED.format("481516")).values()
    assert LEAST < score <= 0.7


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no text"),
        pytest.param(GREETED.format("481516\n\n20418\n\n7302"), id="it has rivals"),
        pytest.param(GREETED.format("ACMECO"), id="letters"),
        pytest.param(GREETED.format("Order:\n481516"), id="its title is a label"),
        pytest.param(GREETED.format("481516 points"), id="a quantity"),
        pytest.param(GREETED.format("# 481516"), id="behind a number sign"),
        pytest.param(GREETED.format("$ 12.00\n\nGutschein\n\n481516"), id="trade and amounts around it"),
        pytest.param(GREETED.format("Vi vidas 481516 tie"), id="inside a sentence"),
    ],
)
def test_numbers_in_other_places_are_not_codes(text):
    assert scored(text) == {}


@pytest.mark.parametrize("brand", ["Auth0", "WEB3", "Log4Shell"])
def test_a_whole_subject_is_a_brand_unless_the_text_refers_to_it(brand):
    assert scored("Hello.\nWelcome.", brand) == {}


def test_the_text_may_refer_to_the_subject():
    assert list(scored("Hello Anna.\nThe code is in the subject of this email.", "481516")) == ["481516"]


def test_a_number_that_a_noun_names_is_left_to_the_words():
    assert scored(GREETED.format("Your code:\n481516")) == {}


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("481516\n\nVi havas 10 minutes.", "481516"),
        ("481 516", "481516"),
        ("Enter it now.\n\n4815", "4815"),
        ("481516", "48151623"),
        ("481516", "481516\n\n20418"),
        ("4815\n\n" + "Teksto.\n" * 12, "Teksto.\n" * 12 + "\n4815"),
    ],
    ids=["a duration", "grouped", "near a verb", "six digits", "no rival", "early in the text"],
)
def test_features_of_codes_make_the_score_higher(more, less):
    assert max(scored(GREETED.format(more)).values()) > max(scored(GREETED.format(less)).values())


def test_every_weight_of_a_cue_belongs_to_a_feature():
    """If a feature's name were spelled differently in the file, its weight would never be used."""
    cues = ("noun", "verify", "confirm", "enter", "hint", "label", "trade")
    possible = {f"{where} {cue}" for where in ("own", "around", "subject") for cue in cues}
    weights = lexicon.load("features", dict[str, float])
    assert {name for name in weights if name.startswith(("own ", "around ", "subject "))} <= possible
