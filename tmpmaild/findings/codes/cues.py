"""What words can tell about the numbers around them; which words do, and what each cue means, is in the word lists."""

from enum import IntEnum, auto
from typing import TypeAlias

from tmpmaild.findings import lexicon


class Cue(IntEnum):
    """What a word tells; integers, because an Enum takes long to hash. ``words/codes.toml`` describes each."""

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


Mark: TypeAlias = lexicon.Mark[Cue]

NOUNS = frozenset({Cue.OTP, Cue.CODE, Cue.COMPOUND, Cue.ASKED})
NUMBERS = frozenset({Cue.NUMBER, Cue.DIGITS})
VERIFYING = frozenset({Cue.VERIFY, Cue.ONCE})
OTHER_KINDS = frozenset({Cue.LABEL, Cue.TRADE})

_TABLES = lexicon.load("codes")
LEXICON = lexicon.read(Cue, _TABLES)
PLAIN_WORDS = frozenset(_TABLES["lists"]["plain"].split())
DETERMINERS = frozenset(_TABLES["lists"]["determiners"].split())
