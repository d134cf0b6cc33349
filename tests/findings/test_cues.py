"""The cues for codes, and the cue words in ``words/codes.toml``."""

import pytest

from tmpmaild.findings import lexicon
from tmpmaild.findings.cues import DETERMINERS, LEXICON, PLAIN_WORDS, USER_NAME_LABELS, Cue

TABLES = lexicon.load("codes", lexicon.Tables)


def test_every_cue_has_words_or_results_from_a_word_in_its_phrase():
    named = {*TABLES["cues"], *TABLES["endings"]}
    assert named == {cue.name.lower() for cue in Cue}
    assert [name for name, words in TABLES["cues"].items() if not words.split()] == ["asked"]


@pytest.mark.parametrize(
    ("word", "cue"),
    [
        ("OTP", Cue.OTP),
        ("code", Cue.CODE),
        ("Passwort", Cue.PASSWORD),
        ("verification", Cue.VERIFY),
        ("注文番号", Cue.LABEL),
        ("введите", Cue.ENTER),
        ("discount", Cue.TRADE),
    ],
)
def test_a_word_is_a_cue_in_its_language(word, cue):
    assert cue in {span.cue for span in LEXICON.spans(word)}


def test_longer_labels_of_user_names_come_first():
    """If shorter labels came first, "user" would match even if the label is "new user"."""
    assert [len(one) for one in USER_NAME_LABELS] == sorted(map(len, USER_NAME_LABELS), reverse=True)
    assert "the" in PLAIN_WORDS
    assert "the" in DETERMINERS
