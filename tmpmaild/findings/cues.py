"""The cues: words near a number that indicate whether it is a code. The words are in ``words/codes.toml``."""

from enum import IntEnum, auto
from typing import TypeAlias

from tmpmaild.findings import lexicon


class Cue(IntEnum):
    """The meaning of a word; ``words/codes.toml`` describes each meaning.

    This is an IntEnum, because hashing an Enum is slow.
    """

    OTP = auto()
    CODE = auto()
    COMPOUND = auto()
    ASKED = auto()
    PASSWORD = auto()
    ONCE = auto()
    VERIFY = auto()
    DELIVERY = auto()
    CONFIRM = auto()
    WORDED = auto()
    ENTER = auto()
    ENTERED = auto()
    HINT = auto()
    LASTS = auto()
    AUTHORIZE = auto()
    LABEL = auto()
    NUMBER = auto()
    DIGITS = auto()
    PARCEL = auto()
    PREMISES = auto()
    THING = auto()
    TRADE = auto()
    SUBJECT = auto()
    OLD = auto()
    UNIT = auto()
    IS = auto()


Span: TypeAlias = lexicon.Span[Cue]

NOUNS = frozenset({Cue.OTP, Cue.CODE, Cue.COMPOUND, Cue.ASKED})
NUMBERS = frozenset({Cue.NUMBER, Cue.DIGITS})
VERIFYING = frozenset({Cue.VERIFY, Cue.ONCE})
OTHER_KINDS = frozenset({Cue.LABEL, Cue.TRADE})

_TABLES = lexicon.load("codes", lexicon.Tables)
LEXICON = lexicon.build(Cue, _TABLES)
PLAIN_WORDS = frozenset(_TABLES["lists"]["plain"].split())
DETERMINERS = frozenset(_TABLES["lists"]["determiners"].split())
_USER_NAME_LABELS = lexicon.fold(_TABLES["lists"]["logins"]).split()
USER_NAME_LABELS = tuple(word.replace("_", " ") for word in sorted(_USER_NAME_LABELS, key=len, reverse=True))
