"""Finds the web links in a message.

The best link is the purpose of the message, such as a link to confirm, activate, reset or sign in. The purpose of a
link is recognized by its text, the words before it and its address. The words are in ``words/links.toml``; ``htmltext``
reads the HTML.
"""

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum, auto
from itertools import chain, islice, starmap
from typing import NamedTuple

from msgspec.structs import replace

from tmpmaild.findings import lexicon
from tmpmaild.mail import htmltext, urls
from tmpmaild.mail.htmltokens import collapsed
from tmpmaild.model import BodyLink, Link

MAX_LINKS = 100
MAX_BODY_LINKS = 1000
MAX_HREF_CHARACTERS = 8192
MAX_TEXT_CHARACTERS = 200

_MAX_EXAMINED = 300
_CONTEXT_CHARACTERS = 160
_NEAR_CHARACTERS = 80
_PATH_CHARACTERS = 1000
_MIN_RANDOM_CHARACTERS = 12
_MAX_RANDOM_CHARACTERS = 100
_MIN_DIGITS = 2

# The start of an address in HTML that is not the value of an attribute.
_BARE = re.compile(r"(?<![\"'=(])https?://", re.IGNORECASE)
_WEB = re.compile(r"https?://[\w\[]", re.IGNORECASE)
# Includes the part after "#" that single-page applications use: "/#/reset?token=...", not "/#contact".
_PARTS = re.compile(r"https?://([^/?#]*)([^#]*(?:#[^#/=]*[/=][^#]*)?)", re.IGNORECASE)
_HOST = re.compile(r"(?<![\w@.-])[\w-]++(?:\.[a-z][\w-]++)+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ASIDE = 0.05
_MAX_UNREQUESTED_SCORE = 0.25
_BASE = 0.1
_TOKEN_BONUS = 0.1
_VERIFY_BONUS = 0.45
_SIGN_IN_BONUS = 0.25
_ANNOUNCED_BONUS = 0.1
_DOUBTFUL_BONUS = 0.2
_AROUND_BONUS = 0.35
_ONLY_TOKEN = 0.35

_BREAKS = re.compile(r"[/?&=#:]+")


class Cue(IntEnum):
    """The meaning of a word that describes a link; ``words/links.toml`` describes each meaning."""

    VERIFY = auto()
    SIGN_IN = auto()
    HERE = auto()
    ASIDE = auto()
    CHANGED = auto()
    VAGUE = auto()


_ACTIONS = frozenset({Cue.VERIFY, Cue.SIGN_IN})
_ASIDES = frozenset({Cue.ASIDE, Cue.VAGUE})
_SENTENCE_END = re.compile("[.!?\u2026\u061f\u0964\u06d4][\"'\u201d\u2019)\\]]{0,3}\\s|[\u3002\uff01\uff1f]|\n\\s*\n")

_TABLES = lexicon.load("links", lexicon.Tables)
LEXICON = lexicon.build(Cue, _TABLES)
_PATH, _PATH_ASIDE, _HOST_ASIDE, _RESET, _CODE_PAGE, _MEETING, _HOME, _NUMBER = (
    re.compile("|".join(_TABLES["addresses"][name].split()), re.IGNORECASE)
    for name in ("path", "path_aside", "host_aside", "reset", "code_page", "meeting", "home", "number")
)
_BONUSES = ((_PATH, 0.3), (_NUMBER, 0.05))


class _Occurrence(NamedTuple):
    """A link in a text: the preceding text, the link's address, and the link's text."""

    before: str
    href: str
    text: str


def find(body: str, html: str, page: htmltext.Page | None = None) -> tuple[Link, ...]:
    """Return the http and https links of a message, at most MAX_LINKS, each address once.

    The best link is first. Links with equal scores are in the order of the message: first links in the HTML, then
    addresses in its text, then addresses in the text part. Addresses in text have no link text. Addresses that are also
    the target or the text of an HTML link are omitted, as are addresses longer than MAX_HREF_CHARACTERS. The running
    time is linear in the length of the texts. ``page`` is the HTML if it has already been read.
    """
    page = page or htmltext.read(html)
    anchors = list(islice(_valid(starmap(_Occurrence, page.links)), _MAX_EXAMINED))
    shown = {"".join(anchor.href.split()) for anchor in anchors}
    named = [*shown, *[anchor.text for anchor in anchors]]
    shown |= {text[start:end] for text in named for start, end in urls.occurrences(text)}
    texts = (page.text() if _BARE.search(html) else "", collapsed(body))
    bare = (one for text in texts for one in _valid(_in_text(text)) if one.href not in shown)
    found = list(islice(chain(anchors, bare), _MAX_EXAMINED))
    links = _raise_only_token(_lower_code_pages(_scored(found)), found)
    return tuple(sorted(links, key=lambda link: -link.confidence))


def in_body(body: str) -> tuple[BodyLink, ...]:
    """Return the web addresses in a body, in order; at most MAX_BODY_LINKS, each of at most MAX_HREF_CHARACTERS."""
    found = (BodyLink(start, end, _unwrapped(body[start:end])) for start, end in urls.occurrences(body))
    return tuple(islice((one for one in found if _is_valid(one.href)), MAX_BODY_LINKS))


def _lower_code_pages(links: list[Link]) -> list[Link]:
    """Lower the scores of pages that ask for a code below the scores of links with a token."""
    with_token = (link.confidence for link in links if link.confidence > _ASIDE and _has_token(_parts(link.href)[1]))
    most = max(with_token, default=1) - _ASIDE
    return [
        replace(link, confidence=round(min(link.confidence, most), 2)) if _is_code_page(link.href) else link
        for link in links
    ]


def _is_code_page(href: str) -> bool:
    path = _parts(href)[1]
    return _CODE_PAGE.search(path) is not None and not _has_token(path)


def _raise_only_token(links: list[Link], found: list[_Occurrence]) -> list[Link]:
    """Raise the score of the only link with a token: regardless of its text, the message was sent for that link."""
    with_token = [one for one in found if _has_token(_parts(one.href)[1])]
    likely = {one.href for one in with_token} - {one.href for one in with_token if _has_other_purpose(one)}
    return [
        replace(link, confidence=max(link.confidence, _ONLY_TOKEN)) if {link.href} == likely else link for link in links
    ]


def _has_other_purpose(link: _Occurrence) -> bool:
    """Return whether a link's own words or its address show that the message was not sent for this link."""
    host, path = _parts(link.href)
    cues = _cues_of(link.text)
    if _MEETING.search(host + path) or _HOST_ASIDE.search(host) or _PATH_ASIDE.search(path) or Cue.ASIDE in cues:
        return True
    if _has_vague_text(link, cues):
        cues = _cues_before(link.before)
    elif cues.isdisjoint(_ACTIONS):
        return True
    return (Cue.ASIDE in cues and Cue.VAGUE not in cues) or (
        _RESET.search(path) is not None and Cue.CHANGED in _cues_before(link.before)
    )


def _scored(found: Iterable[_Occurrence]) -> list[Link]:
    links: dict[str, Link] = {}
    for one in found:
        if len(links) == MAX_LINKS and one.href not in links:
            continue
        confidence = _confidence(one)
        known = links.get(one.href, Link(one.href, "", 0))
        text = one.text[:MAX_TEXT_CHARACTERS].rstrip()
        text = known.text if known.confidence >= confidence and known.text else text or known.text
        links[one.href] = Link(one.href, text, max(confidence, known.confidence))
    return list(links.values())


def _valid(found: Iterable[_Occurrence]) -> Iterator[_Occurrence]:
    return (one for one in found if _is_valid(one.href))


def _is_valid(href: str) -> bool:
    return len(href) <= MAX_HREF_CHARACTERS and _WEB.match(href) is not None


def _in_text(body: str) -> Iterator[_Occurrence]:
    last = 0
    for start, end in urls.occurrences(body):
        yield _Occurrence(body[max(last, start - _CONTEXT_CHARACTERS) : start], _unwrapped(body[start:end]), "")
        last = end


def _unwrapped(address: str) -> str:
    """Undo line wrapping in a plain-text address, and the change from "&" to "&amp;" that some templates make."""
    return urls.joined(address).replace("&amp;", "&")


def _confidence(link: _Occurrence) -> float:
    """Return the likelihood that the message was sent for a link."""
    host, path = _parts(link.href)
    cues = _cues_of(link.text)
    has_vague_text = _has_vague_text(link, cues)
    around = _cues_before(link.before) if has_vague_text or Cue.SIGN_IN in cues else set()
    is_action = Cue.VERIFY in (cues if link.text else around) and _PATH.search(path) is not None
    if (
        _MEETING.search(host + path)
        or (_HOST_ASIDE.search(host) and not is_action)
        or (Cue.VERIFY not in cues and (Cue.ASIDE in cues or _PATH_ASIDE.search(path)))
        # If a link's text and address agree, they outweigh a word before the link, because a heading may be the shop's
        # name.
        or (has_vague_text and Cue.ASIDE in around and not is_action)
    ):
        return _ASIDE
    if _HOME.search(path) and cues.isdisjoint({Cue.VERIFY, Cue.SIGN_IN}):
        return _BASE if Cue.SIGN_IN in around else _ASIDE
    score = _BASE + (_TOKEN_BONUS if _has_token(path) else 0)
    score += sum(bonus for pattern, bonus in _BONUSES if pattern.search(path))
    if Cue.VERIFY in cues:
        score += _DOUBTFUL_BONUS if Cue.ASIDE in cues else _VERIFY_BONUS
    elif Cue.SIGN_IN in cues:
        score += _SIGN_IN_BONUS + (_ANNOUNCED_BONUS if around & {Cue.VERIFY, Cue.SIGN_IN, Cue.HERE} else 0)
    elif Cue.VERIFY in around:
        score += _AROUND_BONUS
    if _RESET.search(path) and Cue.CHANGED in _cues_before(link.before):
        score = min(score, _MAX_UNREQUESTED_SCORE)
    return round(score, 2)


def _parts(href: str) -> tuple[str, str]:
    """Return the host of an address, and the words of its path and query."""
    _, authority, path, _ = _PARTS.split(href, 1)
    host = authority.rpartition("@")[2].partition(":")[0].lower()
    return host, _CAMEL_CASE.sub("-", path[:_PATH_CHARACTERS])


def _cues_of(text: str) -> set[Cue]:
    """Return the cues in a link's text."""
    return _combined(LEXICON.spans(text[:MAX_TEXT_CHARACTERS]))


def _has_vague_text(link: _Occurrence, cues: set[Cue]) -> bool:
    return not link.text or Cue.HERE in cues or _WEB.match(link.text) is not None


def _cues_before(text: str) -> set[Cue]:
    """Return the cues in the words before a link, without host names.

    If the link's own sentence contains an action, asides before that sentence are ignored; otherwise, nearby asides
    count.
    """
    text = _HOST.sub(lambda host: " " * len(host[0]), text[-_CONTEXT_CHARACTERS:])
    spans = LEXICON.spans(text)
    ends = [end.end() for end in _SENTENCE_END.finditer(text.rstrip())]
    own = [span for span in spans if span.start >= (ends[-1] if ends else 0)]
    near = len(text) - _NEAR_CHARACTERS
    if {span.cue for span in own}.isdisjoint(_ACTIONS):
        return _combined([span for span in spans if span.cue not in _ASIDES or span.start >= near])
    return _combined([span for span in spans if span.cue not in _ASIDES or span in own])


def _combined(spans: list[lexicon.Span[Cue]]) -> set[Cue]:
    """Combine the cues, and return the remaining cues.

    An action outweighs an aside before it, and vague words anywhere. A vague word alone is an aside.
    """
    last = max((span.start for span in spans if span.cue in _ACTIONS), default=-1)
    cues = {span.cue for span in spans if span.cue is not Cue.ASIDE or span.start > last}
    if Cue.VAGUE not in cues or Cue.ASIDE in cues:
        return cues - {Cue.VAGUE}
    return cues | {Cue.ASIDE} if last < 0 else cues - {Cue.VAGUE}


def _has_token(path: str) -> bool:
    """Return whether a part of a path looks random: long, with letters and at least two digits."""
    return any(_looks_random(part[:_MAX_RANDOM_CHARACTERS]) for part in _BREAKS.split(path))


def _looks_random(part: str) -> bool:
    digits = sum(map(str.isdigit, part))
    return len(part) >= _MIN_RANDOM_CHARACTERS and _MIN_DIGITS <= digits < len(part) and " " not in part
