"""The links to the web in a mail, first the one it was sent for: to confirm, activate, reset or sign in.

What a link is for shows in its text, in the words before it and in its address. The words are in ``words/links.toml``;
how HTML is read is in htmltext.
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

_LOOKED_AT = 300
_CONTEXT_CHARACTERS = 160
_NEAR_CHARACTERS = 80
_PATH_CHARACTERS = 1000
_LEAST_RANDOM_CHARACTERS = 12
_MOST_RANDOM_CHARACTERS = 100
_LEAST_DIGITS = 2

# In HTML: not the value of an attribute.
_BARE = re.compile(r"(?<![\"'=(])https?://", re.IGNORECASE)
_WEB = re.compile(r"https?://[\w\[]", re.IGNORECASE)
# With what a page of one script has behind "#": "/#/reset?token=...", not "/#contact".
_PARTS = re.compile(r"https?://([^/?#]*)([^#]*(?:#[^#/=]*[/=][^#]*)?)", re.IGNORECASE)
_HOST = re.compile(r"(?<![\w@.-])[\w-]++(?:\.[a-z][\w-]++)+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ASIDE = 0.05
_NOT_ASKED_FOR = 0.25
_BASE = 0.1
_TOKEN_BONUS = 0.1
_VERIFY_BONUS = 0.45
_SIGN_IN_BONUS = 0.25
_TOLD_BONUS = 0.1
_DOUBTFUL_BONUS = 0.2
_AROUND_BONUS = 0.35
_ONLY_TOKEN = 0.35

_BREAKS = re.compile(r"[/?&=#:]+")


class Cue(IntEnum):
    """What a word tells about a link; ``words/links.toml`` describes each."""

    VERIFY = auto()
    SIGN_IN = auto()
    HERE = auto()
    ASIDE = auto()
    CHANGED = auto()
    VAGUE = auto()


_MEANT = frozenset({Cue.VERIFY, Cue.SIGN_IN})
_ASIDES = frozenset({Cue.ASIDE, Cue.VAGUE})
_SENTENCE_END = re.compile("[.!?\u2026\u061f\u0964\u06d4][\"'\u201d\u2019)\\]]{0,3}\\s|[\u3002\uff01\uff1f]|\n\\s*\n")

_TABLES = lexicon.load("links", lexicon.Tables)
LEXICON = lexicon.build(Cue, _TABLES)
_PATH, _PATH_ASIDE, _HOST_ASIDE, _RESET, _CODE_PAGE, _MEETING, _HOME, _NUMBER = (
    re.compile("|".join(_TABLES["addresses"][name].split()), re.IGNORECASE)
    for name in ("path", "path_aside", "host_aside", "reset", "code_page", "meeting", "home", "number")
)
_BONUSES = ((_PATH, 0.3), (_NUMBER, 0.05))


class _Found(NamedTuple):
    """A link as it stands: what is written before it, its address, its own text."""

    before: str
    href: str
    text: str


def find(body: str, html: str, page: htmltext.Page | None = None) -> tuple[Link, ...]:
    """Return the links of a mail to http and https addresses, at most MAX_LINKS, each address once.

    Best first, else in the order of the mail: links of the HTML, addresses in its text, addresses in the text part.
    Addresses have no text of their own; those that a link of the HTML has or shows are left out. So is an address over
    MAX_HREF_CHARACTERS. The time it takes is in proportion to the length of the texts. ``page`` is what
    has been read of the HTML, which is read here otherwise.
    """
    page = page or htmltext.read(html)
    anchors = list(islice(_sound(starmap(_Found, page.links)), _LOOKED_AT))
    shown = {"".join(anchor.href.split()) for anchor in anchors}
    named = [*shown, *[anchor.text for anchor in anchors]]
    shown |= {text[start:end] for text in named for start, end in urls.occurrences(text)}
    texts = (page.text() if _BARE.search(html) else "", collapsed(body))
    bare = (one for text in texts for one in _sound(_of_text(text)) if one.href not in shown)
    found = list(islice(chain(anchors, bare), _LOOKED_AT))
    links = _with_the_only_token(_behind_tokens(_links(found)), found)
    return tuple(sorted(links, key=lambda link: -link.confidence))


def in_body(body: str) -> tuple[BodyLink, ...]:
    """Return every web address in a body, in order; the first MAX_BODY_LINKS, none over MAX_HREF_CHARACTERS."""
    found = (BodyLink(start, end, _meant(body[start:end])) for start, end in urls.occurrences(body))
    return tuple(islice((one for one in found if _is_sound(one.href)), MAX_BODY_LINKS))


def _behind_tokens(links: list[Link]) -> list[Link]:
    """Put a page on which to type a code behind the links that have a token in them."""
    with_token = (link.confidence for link in links if link.confidence > _ASIDE and _has_token(_parts(link.href)[1]))
    most = max(with_token, default=1) - _ASIDE
    return [
        replace(link, confidence=round(min(link.confidence, most), 2)) if _is_code_page(link.href) else link
        for link in links
    ]


def _is_code_page(href: str) -> bool:
    path = _parts(href)[1]
    return _CODE_PAGE.search(path) is not None and not _has_token(path)


def _with_the_only_token(links: list[Link], found: list[_Found]) -> list[Link]:
    """Raise the only link with a token in it: whatever the mail says, it was sent for that."""
    with_token = [one for one in found if _has_token(_parts(one.href)[1])]
    meant = {one.href for one in with_token} - {one.href for one in with_token if _says_otherwise(one)}
    return [
        replace(link, confidence=max(link.confidence, _ONLY_TOKEN)) if {link.href} == meant else link for link in links
    ]


def _says_otherwise(link: _Found) -> bool:
    """Return whether the own words or the address of a link tell that it is not what a mail was sent for."""
    host, path = _parts(link.href)
    said = _said(link.text)
    if _MEETING.search(host + path) or _HOST_ASIDE.search(host) or _PATH_ASIDE.search(path) or Cue.ASIDE in said:
        return True
    if _says_little(link, said):
        said = _said_before(link.before)
    elif said.isdisjoint(_MEANT):
        return True
    return (Cue.ASIDE in said and Cue.VAGUE not in said) or (
        _RESET.search(path) is not None and Cue.CHANGED in _said_before(link.before)
    )


def _links(found: Iterable[_Found]) -> list[Link]:
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


def _sound(found: Iterable[_Found]) -> Iterator[_Found]:
    return (one for one in found if _is_sound(one.href))


def _is_sound(href: str) -> bool:
    return len(href) <= MAX_HREF_CHARACTERS and _WEB.match(href) is not None


def _of_text(body: str) -> Iterator[_Found]:
    last = 0
    for start, end in urls.occurrences(body):
        yield _Found(body[max(last, start - _CONTEXT_CHARACTERS) : start], _meant(body[start:end]), "")
        last = end


def _meant(address: str) -> str:
    """Return an address in plain text as it was before its lines were broken, and "&" became "&amp;" in a template."""
    return urls.joined(address).replace("&amp;", "&")


def _confidence(link: _Found) -> float:
    """Return how surely a link is what the mail was sent for."""
    host, path = _parts(link.href)
    said = _said(link.text)
    says_little = _says_little(link, said)
    around = _said_before(link.before) if says_little or Cue.SIGN_IN in said else set()
    is_meant = Cue.VERIFY in (said if link.text else around) and _PATH.search(path) is not None
    if (
        _MEETING.search(host + path)
        or (_HOST_ASIDE.search(host) and not is_meant)
        or (Cue.VERIFY not in said and (Cue.ASIDE in said or _PATH_ASIDE.search(path)))
        # What text and address agree on outweighs a word before them: a heading may name the shop.
        or (says_little and Cue.ASIDE in around and not is_meant)
    ):
        return _ASIDE
    if _HOME.search(path) and said.isdisjoint({Cue.VERIFY, Cue.SIGN_IN}):
        return _BASE if Cue.SIGN_IN in around else _ASIDE
    score = _BASE + (_TOKEN_BONUS if _has_token(path) else 0)
    score += sum(bonus for pattern, bonus in _BONUSES if pattern.search(path))
    if Cue.VERIFY in said:
        score += _DOUBTFUL_BONUS if Cue.ASIDE in said else _VERIFY_BONUS
    elif Cue.SIGN_IN in said:
        score += _SIGN_IN_BONUS + (_TOLD_BONUS if around & {Cue.VERIFY, Cue.SIGN_IN, Cue.HERE} else 0)
    elif Cue.VERIFY in around:
        score += _AROUND_BONUS
    if _RESET.search(path) and Cue.CHANGED in _said_before(link.before):
        score = min(score, _NOT_ASKED_FOR)
    return round(score, 2)


def _parts(href: str) -> tuple[str, str]:
    """Split an address into its host and the words of its path and query."""
    _, authority, path, _ = _PARTS.split(href, 1)
    host = authority.rpartition("@")[2].partition(":")[0].lower()
    return host, _CAMEL_CASE.sub("-", path[:_PATH_CHARACTERS])


def _said(text: str) -> set[Cue]:
    """Return what the text of a link tells about it."""
    return _settled(LEXICON.spans(text[:MAX_TEXT_CHARACTERS]))


def _says_little(link: _Found, said: set[Cue]) -> bool:
    return not link.text or Cue.HERE in said or _WEB.match(link.text) is not None


def _said_before(text: str) -> set[Cue]:
    """Return what the words before a link tell about it, no names of hosts.

    Where its own sentence says what it is for, asides before that do not count; else those nearby do.
    """
    text = _HOST.sub(lambda host: " " * len(host[0]), text[-_CONTEXT_CHARACTERS:])
    spans = LEXICON.spans(text)
    ends = [end.end() for end in _SENTENCE_END.finditer(text.rstrip())]
    own = [span for span in spans if span.start >= (ends[-1] if ends else 0)]
    near = len(text) - _NEAR_CHARACTERS
    if {span.cue for span in own}.isdisjoint(_MEANT):
        return _settled([span for span in spans if span.cue not in _ASIDES or span.start >= near])
    return _settled([span for span in spans if span.cue not in _ASIDES or span in own])


def _settled(spans: list[lexicon.Span[Cue]]) -> set[Cue]:
    """Return what words tell together.

    A nearer word that the link is meant outweighs an aside before it, and a vague word wherever that is. A vague word
    by itself is an aside as well.
    """
    last = max((span.start for span in spans if span.cue in _MEANT), default=-1)
    cues = {span.cue for span in spans if span.cue is not Cue.ASIDE or span.start > last}
    if Cue.VAGUE not in cues or Cue.ASIDE in cues:
        return cues - {Cue.VAGUE}
    return cues | {Cue.ASIDE} if last < 0 else cues - {Cue.VAGUE}


def _has_token(path: str) -> bool:
    """Return whether a part of a path looks drawn at random: long, with letters and digits, or longer."""
    return any(_looks_random(part[:_MOST_RANDOM_CHARACTERS]) for part in _BREAKS.split(path))


def _looks_random(part: str) -> bool:
    digits = sum(map(str.isdigit, part))
    return len(part) >= _LEAST_RANDOM_CHARACTERS and _LEAST_DIGITS <= digits < len(part) and " " not in part
