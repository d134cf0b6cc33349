"""Mailboxes of an address list, as From, Cc and Reply-To hold them; which address is ours is not decided here.

What is read is a raw value as ``headers.py`` describes it: its structure first, then only the pieces are decoded.
Everything here takes linear time.
"""

import re
from collections.abc import Iterator

from tmpmaild.mail.headers import decode

_ADDRESS_TOKEN = re.compile(
    r"(?P<word>=\?[^?\s]{0,80}\?[bBqQ]\?[^?]*+\?=)"
    r"|<(?P<angle>[^<>]*+)>?"
    r"|(?P<space>\s++)"
    r"|(?P<atom>[^\s\"<>(),:;=\[]++|\[[^\]\s]*+\]?|=)"
    r"|(?P<special>.)",
    re.DOTALL,
)
_QUOTED_STRING = re.compile(r'"(?>(?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN_MAILBOX = re.compile(r"(?:([A-Za-z0-9 .'&+_-]*+)<)?([A-Za-z0-9.+_-]++@[A-Za-z0-9.-]++)>?")
_COMMENT_PIECE = re.compile(r"\\.|[()]|[^()\\]++|\\", re.DOTALL)
_ROUTE = re.compile(r"(?:@[^:]*+|mailto):", re.IGNORECASE)


def first_mailbox(value: str) -> tuple[str, str]:
    """Return display name and bare address of the first mailbox in a raw address list (RFC 5322 §3.4).

    Either is "" when absent. Unquoted commas in a name, missing brackets, groups and comments are
    forgiven.
    """
    plain = _PLAIN_MAILBOX.fullmatch(value)
    if plain is not None:
        return " ".join((plain[1] or "").split()), plain[2]
    return next(iter(all_of(value)), ("", ""))


def all_of(value: str) -> list[tuple[str, str]]:
    """Return display name and bare address of each mailbox in a raw address list, in order.

    Text behind an address is not a name, and what has no address is no mailbox, such as ``<mailto:>``. Without any
    address at all, a name alone is a mailbox.
    """
    found = list(_mailboxes(value))
    return [mailbox for mailbox in found if mailbox[1]] or [mailbox for mailbox in found if mailbox[0]]


def without_comments(value: str) -> str:
    """Return a raw value with a space for each comment (RFC 5322 §3.2.2); quotation marks may go as well."""
    if "(" not in value:
        return value
    return "".join([" " if kind == "comment" else text for kind, text in _tokens(value)])


def _mailboxes(value: str) -> Iterator[tuple[str, str]]:
    """Yield name and address of each mailbox; for the last, either or both may be ""."""
    phrase: list[tuple[str, str]] = []
    comments: list[str] = []
    member_at, complete = 0, False
    # Without the semicolon that ends a group, a colon is but a character of an unquoted name.
    separators = ",;:" if ";" in value else ","
    for kind, text in _tokens(value):
        if kind == "angle" and text.strip():
            yield _name(phrase, comments), _bare(text)
            phrase, comments, member_at, complete = [], [], 0, True
        elif kind == "comment":
            comments.append(text)
        elif kind == "special" and text in separators:
            if address := _address_in(phrase[member_at:]):
                yield _name([], comments), _bare(address)
            if address or complete:
                phrase, comments, complete = [], [], False
            else:
                phrase = _continued(phrase, text)
            member_at = len(phrase)
        elif text not in '"<>':
            phrase.append((kind, text))
    address = _address_in(phrase[member_at:])
    yield _name([] if address else phrase, comments), _bare(address)


def _continued(phrase: list[tuple[str, str]], separator: str) -> list[tuple[str, str]]:
    """Take a comma into an unquoted name; what stands before another separator was the name of a group."""
    if separator != ",":
        return [("atom", " ")]
    phrase.append(("atom", ","))
    return phrase


def _tokens(value: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each piece of an address list (RFC 5322 §3.2)."""
    position, enclosing = 0, {'"': _quoted_end, "(": _comment_end}
    while position < len(value):
        character = value[position]
        if character in enclosing:
            end = enclosing[character](value, position)
            if end > 0:
                yield "quoted" if character == '"' else "comment", value[position + 1 : end - 1]
                position = end
                continue
            # Not closed, so it is a character, here and in the rest; looking again would be quadratic.
            del enclosing[character]
        match = _ADDRESS_TOKEN.match(value, position)
        kind = (match and match.lastgroup) or "special"
        yield kind, match[kind] if match else character
        position = match.end() if match else position + 1


def _quoted_end(value: str, start: int) -> int:
    """Return where the quoted string (RFC 5322 §3.2.4) that opens at ``start`` ends, or -1."""
    match = _QUOTED_STRING.match(value, start)
    return match.end() if match else -1


def _comment_end(value: str, start: int) -> int:
    """Return where the nested comment (RFC 5322 §3.2.2) that opens at ``start`` ends, or -1."""
    depth = 0
    for piece in _COMMENT_PIECE.finditer(value, start):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0:
            return piece.end()
    return -1


def _address_in(phrase: list[tuple[str, str]]) -> str:
    """Return the first run without spaces that is an address, quotes of a local part included; or ""."""
    run, is_address = "", False
    for kind, text in [*phrase, ("space", " ")]:
        if kind != "space":
            run += f'"{text}"' if kind == "quoted" else text
            is_address = is_address or (kind == "atom" and "@" in text)
        elif is_address:
            return run
        else:
            run = ""
    return ""


def _bare(address: str) -> str:
    """Decode an address and take source route (RFC 5322 §4.4), scheme and spaces from it."""
    text = decode(address).strip()
    if '"' not in text:
        text = "".join(text.split())
    route = _ROUTE.match(text)
    return text[route.end() :] if route else text


def _name(phrase: list[tuple[str, str]], comments: list[str]) -> str:
    """Make the display name from a phrase, or else from the first comment."""
    text = "".join(re.sub(r"\\(.)", r"\1", text) if kind == "quoted" else text for kind, text in phrase)
    name = " ".join(decode(text.strip(" ,")).split())
    return name or next((" ".join(decode(comment).split()) for comment in comments), "")
