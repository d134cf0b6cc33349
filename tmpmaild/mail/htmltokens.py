"""Splits HTML into tags and text, in one pass and without a tree. Also defines the sets of element names for views."""

import html as entities
import re
from collections.abc import Iterator
from html.entities import html5

from tmpmaild.mail.budget import Budget


def names(words: str) -> frozenset[str]:
    """Return the names in a space-separated string."""
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

_TEXT_PER_STEP = 64  # in characters; a reference or a line counts as several characters
_REFERENCE_CHARACTERS = 24
_LINE_CHARACTERS = 48
_ATTRIBUTES_PER_STEP = 16

_RAW_TEXT = names("iframe noembed noframes script style textarea title xmp")
_SHOWN_RAW_TEXT = names("textarea xmp")

# Text, and the tag after it, if any. The number of "<" in text is limited because a match holds the GIL.
_TEXT_AND_TAG = re.compile(
    r"([^<]*+(?>(?:<(?![a-zA-Z/!?])[^<]*+){0,10000}))(?:<(/?)([a-zA-Z][^\s/>]*+)"
    r"((?>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+)?){0,1000}))>)?"
)
_MARKUP = re.compile(r"<[a-zA-Z/!?]")
_TAG_NAME = re.compile(r"</?[a-zA-Z]")
_COMMENT_END = re.compile(r"--!?>")
_DECLARATION_END = re.compile(">")
_ATTRIBUTE = re.compile(
    r"([^\s\"'>/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>][^\s>]*+)))?",
)
_HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")
_REFERENCE = re.compile(
    r"(&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[^\t\n\f <&#;]{1,32}+;?))"
)  # taken from the standard library
# "&region=eu" in an address does not contain "&reg" (section 13.2.5.73 of https://html.spec.whatwg.org).
_BARE_NAMES = "|".join(name for name in html5 if not name.endswith(";"))
_PLAIN_AMPERSAND = re.compile(rf"&(?=(?:{_BARE_NAMES})[=0-9A-Za-z])(?![0-9A-Za-z]++;)")
_STEP_CHARACTERS = 16 * 1024
_AROUND_ADDRESSES = "".join(map(chr, range(0x21)))
_RAW_TEXT_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW_TEXT}


def tokens(
    source: str, budget: Budget, *, sheets: bool = False, steps: int = 1, reserved: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Yield ("text", text, ""), ("start", name, attributes) and ("end", name, "") in order.

    With ``sheets``, the content of a style element follows its start as ("sheet", text, ""). Comments, declarations
    and, as in a browser, an unterminated tag are omitted. A tag and the text before it take ``steps``; long texts and
    attributes take more. The last ``reserved`` steps of the budget are not used.
    """
    position = 0
    while position < len(source) and budget.take(steps, reserved=reserved):
        found = _TEXT_AND_TAG.match(source, position)
        assert found is not None  # the pattern also matches the empty string
        text, slash, name, attributes = found.groups()
        position = found.end()
        if text:
            affordable = _affordable(text, budget, reserved)
            yield "text", affordable, ""
            if len(affordable) < len(text):
                return
        if not name:
            position = _after_markup(source, position)
            continue
        if attributes and not budget.take(-(-len(attributes) // _ATTRIBUTES_PER_STEP), reserved=reserved):
            attributes = ""
        name = name.lower()
        yield "end" if slash else "start", name, attributes
        if name in _RAW_TEXT and not slash:
            end = _RAW_TEXT_END[name].search(source, position)
            raw, position = source[position : end.start() if end else None], end.start() if end else len(source)
            if name in _SHOWN_RAW_TEXT:
                yield "text", _affordable(raw, budget, reserved), ""
            elif sheets and name == "style":
                yield "sheet", raw, ""


def _affordable(text: str, budget: Budget, reserved: int) -> str:
    """Return the start of a text, as far as the budget allows."""
    while (steps := _steps_of_text(text)) and not budget.take(steps, reserved=reserved):
        text = text[: len(text) // 2]
    return text


def _steps_of_text(text: str) -> int:
    characters = len(text) + _LINE_CHARACTERS * text.count("\n") + _REFERENCE_CHARACTERS * text.count("&")
    return characters // _TEXT_PER_STEP


def _after_markup(source: str, position: int) -> int:
    """Return the end of the comment or declaration at ``position``, if there is one; a broken tag has no end."""
    if not _MARKUP.match(source, position):
        return position
    if _TAG_NAME.match(source, position):
        return len(source)
    closing = _COMMENT_END if source.startswith("<!--", position) else _DECLARATION_END
    # "<!-->" is a complete comment: the same hyphens may open and close it.
    end = closing.search(source, position + 2)
    return end.end() if end else len(source)


def attributes_of(text: str) -> dict[str, str]:
    """Read the attributes of a tag; if a name is repeated, the first value is used."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        found.setdefault(match[1].lower(), unescaped_attribute(match[2] or match[3] or match[4] or ""))
    return found


def unescaped_attribute(value: str) -> str:
    """Decode character references in an attribute, where a reference without a semicolon may be plain text."""
    return unescaped(_PLAIN_AMPERSAND.sub("&amp;", value) if "&" in value else value)


def collapsed(text: str) -> str:
    """Return a text without the white space that can be added to a signed body (RFC 6376 §3.4.4).

    A run of spaces and tabs becomes one space, and is removed at the end of a line. Limits on the number of characters
    apply to the collapsed text, because otherwise added spaces would affect what is shown. No pattern is used, because
    a pattern match over megabytes would hold the GIL.
    """
    if "\t" in text:
        text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \r\n", "\r\n").replace(" \n", "\n") if " \r\n" in text or " \n" in text else text


def address_of(value: str) -> str:
    """Return a URL without tabs, line breaks and surrounding spaces, as browsers parse it (https://url.spec.whatwg.org)."""
    return value.replace("\t", "").replace("\n", "").replace("\r", "").strip(_AROUND_ADDRESSES)


def unescaped(text: str) -> str:
    """Decode character references; the standard library refuses numbers with thousands of digits."""
    if "&" not in text:
        return text
    text = _HUGE_REFERENCE.sub("\ufffd", text)
    return entities.unescape(text) if len(text) <= _STEP_CHARACTERS else "".join(_unescaped_in_steps(text))


def _unescaped_in_steps(text: str) -> Iterator[str]:
    """Decode each distinct reference in a step only once; otherwise, megabytes of references would take seconds."""
    start = 0
    while start < len(text):
        before = text.rfind("&", start + 1, start + _STEP_CHARACTERS)  # a position that does not split a reference
        end = before if before > start and len(text) > start + _STEP_CHARACTERS else start + _STEP_CHARACTERS
        pieces = _REFERENCE.split(text[start:end])
        decoded = {reference: entities.unescape(reference) for reference in set(pieces[1::2])}
        pieces[1::2] = map(decoded.__getitem__, pieces[1::2])
        yield "".join(pieces)
        start = end
