"""Finds the words of a word list in a text, in any script. The lists of codes and of links are in ``words/``."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

_FOLDER = Path(__file__).parent / "words"
_LONGEST_WORD = 40
_REMEMBERED_WORDS = 16_384
_HEAD = 2  # the minimum length of a stem, in characters

# Words in scripts with spaces, currency and percent signs, and runs of text in scripts without spaces.
_SPACELESS = "\u0590-\u1dff\u2e80-\ud7ff\uf900-\ufaff\uff66-\uff9f"
_SIGNS = "%\uff05$\u00a3\u00a5\u20a0-\u20cf"
_WORD = re.compile(rf"[a-z\u00df-\u0559\u0560-\u0588]+|[{_SIGNS}]|[{_SPACELESS}]+")
_FIRST_SPACELESS = "\u0590"

C = TypeVar("C", bound=IntEnum)
T = TypeVar("T")


class Span(NamedTuple, Generic[C]):
    """An occurrence of a listed word in a text, from ``start`` to ``end``, and its cue."""

    start: int
    end: int
    cue: C


class Lexicon(Generic[C]):
    """Words and their cues; a word can have several cues.

    A word that is not listed but ends in one of the ``endings`` has the cue of that ending. A word in ``spelled``
    counts only where the text matches its pattern.
    """

    def __init__(
        self,
        words: Mapping[C, str],
        endings: Mapping[C, str] | None = None,
        spelled: Mapping[str, str] | None = None,
    ) -> None:
        entries = _entries(words)
        self._whole = {entry.replace("_", " "): cues for entry, cues in entries.items() if not entry.endswith("*")}
        self._stems: dict[str, list[tuple[str, tuple[C, ...]]]] = {}
        for entry in sorted((entry for entry in entries if entry.endswith("*")), key=len, reverse=True):
            self._stems.setdefault(entry[:_HEAD], []).append((entry[:-1], entries[entry]))
        self._second_words = {entry.partition(" ")[2] for entry in self._whole if " " in entry}
        self._longest_from: dict[str, int] = {}
        for entry in self._whole:
            self._longest_from[entry[0]] = max(len(entry), self._longest_from.get(entry[0], 0))
        self._signs = {entry for entry in self._whole if not entry[0].isalpha()}
        self._endings = [(tuple(text.split()), cue) for cue, text in (endings or {}).items()]
        self._all_endings = sum((texts for texts, _ in self._endings), ())
        self._spelled = {word: re.compile(pattern) for word, pattern in (spelled or {}).items()}
        self._remembered = lru_cache(_REMEMBERED_WORDS)(self._cues)

    def spans(self, text: str) -> list[Span[C]]:
        """Return the listed words that a text contains, in order."""
        found: list[Span[C]] = []
        previous = None
        for match in _WORD.finditer(fold(text)):
            word = match[0]
            if word >= _FIRST_SPACELESS and word not in self._signs:
                found += self._in_run(word, match.start())
                continue
            if word in self._second_words and previous is not None and match.start() - previous.end() == 1:
                cues = self._whole.get(f"{previous[0]} {word}", ())
                found += [Span(previous.start(), match.end(), cue) for cue in cues]
            cues = self._remembered(word)
            if cues and (word not in self._spelled or self._spelled[word].match(text, match.start())):
                start, end = match.span()
                found += [Span(start, end, cue) for cue in cues]
            previous = match
        return found

    def _in_run(self, run: str, offset: int) -> Iterator[Span[C]]:
        """Yield the words in a run of letters without spaces: at each position, the longest word."""
        at = 0
        while at < len(run):
            step = 1
            for length in range(min(self._longest_from.get(run[at], 0), len(run) - at), 0, -1):
                cues = self._whole.get(run[at : at + length])
                if cues:
                    yield from (Span(offset + at, offset + at + length, cue) for cue in cues)
                    step = length
                    break
            at += step

    def _cues(self, word: str) -> tuple[C, ...]:
        if word in self._whole:
            return self._whole[word]
        if len(word) > _LONGEST_WORD:
            return ()
        cues = next((cues for stem, cues in self._stems.get(word[:_HEAD], ()) if word.startswith(stem)), ())
        if not word.endswith(self._all_endings):
            return cues
        return (*cues, *(cue for endings, cue in self._endings if word.endswith(endings)))


def load(name: str, tables: type[T]) -> T:
    """Return the tables of a file in ``words/``, converted to this type."""
    return msgspec.convert(tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8")), tables)


Tables = dict[str, dict[str, str]]
"""The tables of a word list."""


def build(cues: type[C], tables: Tables) -> Lexicon[C]:
    """Build a lexicon from the tables of a word list."""

    def named(table: str) -> dict[C, str]:
        return {cues[name.upper()]: words for name, words in tables.get(table, {}).items()}

    return Lexicon(named("cues"), named("endings"), tables.get("spelled"))


def fold(text: str) -> str:
    """Return a text in lower case without accents, character by character, so that positions stay the same."""
    lower = text.replace("\u0130", "i").lower()
    return lower if lower.isascii() or not _ACCENTED.search(lower) else lower.translate(_ACCENTS)


def _accents() -> dict[int, str]:
    """Return the base letter of each accented Latin and Greek letter."""
    table = {ord("\u0131"): "i", ord("\u0142"): "l", ord("\u00f8"): "o", ord("\u0111"): "d", ord("\u0451"): "\u0435"}
    for number in (*range(0xE0, 0x250), *range(0x3AC, 0x3CF), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFD", chr(number))[0]
        if ord(base) != number:
            table[number] = base
    return table


_ACCENTS = _accents()
_ACCENTED = re.compile(f"[{''.join(map(chr, _ACCENTS))}]")


def _entries(words: Mapping[C, str]) -> dict[str, tuple[C, ...]]:
    found: dict[str, tuple[C, ...]] = {}
    for cue, text in words.items():
        for entry in dict.fromkeys(fold(text).split()):
            found[entry] = (*found.get(entry, ()), cue)
    return found
