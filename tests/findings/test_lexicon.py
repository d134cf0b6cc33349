"""Finding listed words in texts in many scripts."""

from enum import IntEnum

import pytest

from tmpmaild.findings import cues, links
from tmpmaild.findings.lexicon import Lexicon, fold


class Kind(IntEnum):
    FRUIT = 1
    ANIMAL = 2
    THING = 3


LEXICON = Lexicon(
    {
        Kind.FRUIT: "apple pear* passion_fruit κεράσι 苹果 苹 tan no",
        Kind.ANIMAL: "crab_apple кот* pear",
        Kind.THING: "usa %",
    },
    endings={Kind.THING: "haus"},
    spelled={"tan": "TAN", "no": "no[.]? ?[0-9]", "usa": "(?!USA)"},
)


def found(text):
    return [(text[span.start : span.end], span.cue.name) for span in LEXICON.spans(text)]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("", []),
        ("an apple a day", [("apple", "FRUIT")]),
        ("APPLES", []),
        ("Äpple ÀPPLE", [("Äpple", "FRUIT"), ("ÀPPLE", "FRUIT")]),
        ("pears", [("pears", "FRUIT")]),
        ("pear", [("pear", "ANIMAL")]),
        ("passion fruit, passion-fruit, passion  fruit", [("passion fruit", "FRUIT"), ("passion-fruit", "FRUIT")]),
        ("crab apple", [("crab apple", "ANIMAL"), ("apple", "FRUIT")]),
        ("КОТЫ", [("КОТЫ", "ANIMAL")]),
        ("Κεράσι", [("Κεράσι", "FRUIT")]),
        ("吃苹果和苹", [("苹果", "FRUIT"), ("苹", "FRUIT")]),
        ("5% und", [("%", "THING")]),
        ("Obsthaus Pearhaus", [("Obsthaus", "THING"), ("Pearhaus", "FRUIT"), ("Pearhaus", "THING")]),
        ("apple1 1apple", [("apple", "FRUIT"), ("apple", "FRUIT")]),
    ],
)
def test_words_are_found_whatever_their_case_accents_and_script(text, spans):
    assert found(text) == spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("TAN", [("TAN", "FRUIT")]),
        ("tan", []),
        ("no. 5", [("no", "FRUIT")]),
        ("no five", []),
        ("usa", [("usa", "THING")]),
        ("USA", []),
    ],
)
def test_a_word_with_only_one_spelling_is_found_only_in_that_spelling(text, spans):
    assert found(text) == spans


def test_a_word_at_the_end_of_a_run_ends_there():
    (span,) = LEXICON.spans("苹果5")
    assert (span.start, span.end) == (0, 2)
    (span,) = Lexicon({Kind.FRUIT: "苹果 苹果和梨"}).spans("苹果5")
    assert (span.start, span.end) == (0, 2)


@pytest.mark.parametrize("text", ["İSTANBUL ığüşöç", "Straße", "ﬁ", "Ǆ", "ΆΈΉ", "\U0001d400", "e\u0301", "\ud800"])
def test_folding_keeps_every_position(text):
    assert len(fold(text)) == len(text)


@pytest.mark.parametrize("lexicon", [cues.LEXICON, links.LEXICON])
def test_any_character_is_accepted(lexicon):
    lexicon.spans("".join(map(chr, range(0x3000))))
    lexicon.spans("x" * 20_000)
    lexicon.spans("码" * 20_000)
