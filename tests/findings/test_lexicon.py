"""Words of a list in texts of many scripts."""

from enum import IntEnum

import pytest

from tables import rows_of, table
from tmpmaild.findings import cues, links
from tmpmaild.findings.lexicon import Lexicon, fold

ROWS = rows_of(__file__)


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


FOUND = (
    *ROWS["words are found whatever their case accents and script"],
    *ROWS["what only looks like a word is left out"],
)


@table(("text", "marks"), FOUND)
def test_words_are_found_whatever_their_case_accents_and_script(text, marks):
    assert found(text) == marks


def test_a_word_at_the_end_of_a_run_ends_there():
    (span,) = LEXICON.spans("苹果5")
    assert (span.start, span.end) == (0, 2)
    (span,) = Lexicon({Kind.FRUIT: "苹果 苹果和梨"}).spans("苹果5")
    assert (span.start, span.end) == (0, 2)


@pytest.mark.parametrize("text", ["İSTANBUL ığüşöç", "Straße", "ﬁ", "Ǆ", "ΆΈΉ", "\U0001d400", "e\u0301", "\ud800"])
def test_folding_keeps_every_position(text):
    assert len(fold(text)) == len(text)


@pytest.mark.parametrize("lexicon", [cues.LEXICON, links.LEXICON])
def test_any_character_can_be_read(lexicon):
    lexicon.spans("".join(map(chr, range(0x3000))))
    lexicon.spans("x" * 20_000)
    lexicon.spans("码" * 20_000)
