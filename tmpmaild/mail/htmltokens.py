"""HTML taken apart into tags and text, in one pass and without a tree; what they mean is decided elsewhere.

Here are also the names of the elements that a view may hold, and how much work the reading of one mail may cost.
"""

import html as entities
import re
from collections.abc import Iterator
from html.entities import html5


def names(words: str) -> frozenset[str]:
    """Return the names in a line of words."""
    return frozenset(words.split())


FORMATTING = names("a b big code em font i s small strike strong tt u")
INLINE = names("abbr acronym bdi bdo cite del dfn ins kbd mark q samp span sub sup time var")
BLOCKS = names(
    "address article aside blockquote center dd details dir div dl dt figcaption figure footer "
    "h1 h2 h3 h4 h5 h6 header li main menu nav ol p pre section summary ul"
)
VOIDS = names("br hr img wbr")
TABLE_PARTS = names("caption col colgroup table tbody td tfoot th thead tr")
ELEMENTS = FORMATTING | INLINE | BLOCKS | VOIDS | TABLE_PARTS

MAX_STEPS = 150_000
"""Of about 10 µs: some seconds of the largest mail that people send, and less than anybody notices of others."""

_CHARACTERS_A_STEP = 64  # of attributes

_RAW_TEXT = names("iframe noembed noframes script style textarea title xmp")
_SHOWN_RAW_TEXT = names("textarea xmp")

_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG = re.compile(
    r"<(/?)([a-zA-Z][^\s/>]*+)((?>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+)?){0,1000}))>",
)
_TAG_NAME = re.compile(r"</?[a-zA-Z]")
_COMMENT_END = re.compile(r"--!?>")
_DECLARATION_END = re.compile(">")
_ATTRIBUTE = re.compile(
    r"([^\s\"'>/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>][^\s>]*+)))?",
)
_HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")
_REFERENCE = re.compile(r"(&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[^\t\n\f <&#;]{1,32}+;?))")  # as the standard library's
# "&region=eu" in an address is no "&reg" (section 13.2.5.73 of https://html.spec.whatwg.org).
_BARE_NAMES = "|".join(name for name in html5 if not name.endswith(";"))
_PLAIN_AMPERSAND = re.compile(rf"&(?=(?:{_BARE_NAMES})[=0-9A-Za-z])(?![0-9A-Za-z]++;)")
_STEP_CHARACTERS = 16 * 1024
_IGNORED_IN_ADDRESSES = str.maketrans("", "", "\t\n\r")
_AROUND_ADDRESSES = "".join(map(chr, range(0x21)))
_RAW_TEXT_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW_TEXT}


class Budget:
    """The steps that are left for one mail. Who counts them stops with what there is once they are used up."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    @property
    def is_spent(self) -> bool:
        """Whether anything was left out."""
        return self._left < 0

    def take(self, steps: int = 1) -> bool:
        """Count steps before they are done; False once there are none left."""
        self._left -= steps
        return self._left >= 0


def tokens(source: str, budget: Budget, *, sheets: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield ("text", text, ""), ("start", name, attributes) and ("end", name, "") in order.

    With ``sheets`` also ("sheet", text, ""), what a style element holds, after its start. Comments and declarations
    are left out; so is a tag without an end, as in a browser. A piece of markup is a step, long attributes are more.
    """
    position = 0
    while budget.take():
        opening = _MARKUP.search(source, position)
        if opening is None:
            yield "text", source[position:], ""
            return
        yield "text", source[position : opening.start()], ""
        position = opening.start()
        tag = _TAG.match(source, position)
        if tag is None:
            position = _after_declaration(source, position)
            if position < 0:
                return
            continue
        position = tag.end()
        name = tag[2].lower()
        budget.take(-(-len(tag[3]) // _CHARACTERS_A_STEP))
        yield "end" if tag[1] else "start", name, tag[3]
        if name in _RAW_TEXT and not tag[1]:
            end = _RAW_TEXT_END[name].search(source, position)
            if name in _SHOWN_RAW_TEXT or (sheets and name == "style"):
                kind = "text" if name in _SHOWN_RAW_TEXT else "sheet"
                yield kind, source[position : end.start() if end else len(source)], ""
            if end is None:
                return
            position = end.start()


def _after_declaration(source: str, position: int) -> int:
    """Return where the comment or declaration ends that begins here, or -1; a broken tag never ends."""
    if _TAG_NAME.match(source, position):
        return -1
    closing = _COMMENT_END if source.startswith("<!--", position) else _DECLARATION_END
    # "<!-->" is a whole comment, so its hyphens may be shared.
    end = closing.search(source, position + 2)
    return end.end() if end else -1


def attributes_of(text: str) -> dict[str, str]:
    """Read the attributes of a tag; the first of a name counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        found.setdefault(match[1].lower(), unescaped_attribute(match[2] or match[3] or match[4] or ""))
    return found


def unescaped_attribute(value: str) -> str:
    """Decode character references as in an attribute, where one that lacks its semicolon may be plain text."""
    return unescaped(_PLAIN_AMPERSAND.sub("&amp;", value) if "&" in value else value)


def collapsed(text: str) -> str:
    """Return a text without the white space that anyone may add to a signed body (RFC 6376 §3.4.4).

    A run of spaces and tabs becomes one space, and none is left at the end of a line. Bounds on a number of
    characters count a text collapsed: otherwise added spaces would decide what is shown. No pattern is used, since
    one call of a pattern over megabytes would hold the GIL.
    """
    if "\t" in text:
        text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \r\n", "\r\n").replace(" \n", "\n") if " \r\n" in text or " \n" in text else text


def address_of(value: str) -> str:
    """Return an address as browsers read it (https://url.spec.whatwg.org): without line ends, and what is around it."""
    return value.translate(_IGNORED_IN_ADDRESSES).strip(_AROUND_ADDRESSES)


def unescaped(text: str) -> str:
    """Decode character references; the standard library refuses numbers of thousands of digits."""
    if "&" not in text:
        return text
    text = _HUGE_REFERENCE.sub("\ufffd", text)
    return entities.unescape(text) if len(text) <= _STEP_CHARACTERS else "".join(_unescaped_in_steps(text))


def _unescaped_in_steps(text: str) -> Iterator[str]:
    """Decode each different reference of a step once: megabytes of them would take seconds."""
    start = 0
    while start < len(text):
        before = text.rfind("&", start + 1, start + _STEP_CHARACTERS)  # where no reference is cut in two
        end = before if before > start and len(text) > start + _STEP_CHARACTERS else start + _STEP_CHARACTERS
        pieces = _REFERENCE.split(text[start:end])
        decoded = {reference: entities.unescape(reference) for reference in set(pieces[1::2])}
        pieces[1::2] = map(decoded.__getitem__, pieces[1::2])
        yield "".join(pieces)
        start = end
