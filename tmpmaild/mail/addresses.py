"""Email addresses: the path grammar of RFC 5321, and the mapping from addresses to inboxes.

The same rules apply to the arguments of ``MAIL FROM:`` and ``RCPT TO:`` (``split_path``, ``parse_path``), to an address
in the path of a URL (``canonical``), and to a local part chosen by a client (``check_local_part``).

Essential property: an accepted path never leads to a different inbox than the one it specifies. Therefore, nothing is
decoded, unescaped twice, or mapped to a lookalike.
"""

import re
import unicodedata
from collections.abc import Callable, Container
from functools import lru_cache

from msgspec import Struct

from tmpmaild import hostnames

MAX_PATH_OCTETS = 256  # RFC 5321 §4.5.3.1.3, including the angle brackets
MAX_ADDRESS_OCTETS = MAX_PATH_OCTETS - 2
MAX_LOCAL_PART_OCTETS = 64  # RFC 5321 §4.5.3.1.1

# RFC 2142; CA/Browser Forum Baseline Requirements §3.2.2.4.4; names that certificate authorities sent mail to before
# those requirements; names that mail systems use for themselves. "it" and "is" are not listed, because they are too
# short anyway.
RESERVED_LOCAL_PARTS = frozenset(
    """
    info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster www uucp ftp
    admin administrator
    root mis ssladmin ssladministrator sslwebmaster
    mailer-daemon daemon nobody no-reply noreply
    """.split(),
)

_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"  # RFC 5322 §3.2.3
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}+(?<!-)"  # host names have no underscores, but senders in test networks do
_WIDE = r"\u00a0-\u2027\u202a-\ufffc\U00010000-\U0010ffff"  # excludes C1 controls, line separators and U+FFFD
_QTEXT = rf" !#-\[\]-~{_WIDE}"

# These patterns never backtrack for long, on any input. A repetition of one character is possessive. A repeated group
# is either atomic or starts with a character that cannot end the previous repetition. (Before Python 3.11.5 a
# possessive group that fails halfway keeps the part that it has matched: "a." would be accepted as a dot-string.)
_split = re.compile(rb' *<((?>(?:[^">]++|"(?>(?:[^"\\]++|\\.)*)")*))>(?: +(.*))?', re.DOTALL).fullmatch
_plain = re.compile(
    rf"([{_ATEXT}]++(?:\.[{_ATEXT}]++)*)@({_LABEL}(?:\.{_LABEL})*)".encode("ascii"),
).fullmatch
_is_domain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*".encode("ascii")).fullmatch
_local_part = re.compile(
    rf'(?:([{_ATEXT}{_WIDE}]++(?:\.[{_ATEXT}{_WIDE}]++)*)|"((?>(?:[{_QTEXT}]|\\[ -~])*))")@',
).match
_encoded_word = re.compile(r"=\?[^?]+\?[BbQq]\?[^?]*\?=").search
_quoted_pair = re.compile(r"\\(.)")
_custom = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,62}[a-z0-9]").fullmatch

_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # i, l and o are excluded, because addresses are read aloud and typed
_LETTERS_AND_DIGITS = _LETTERS + "23456789"
RANDOM_LENGTH = 12


class PathSyntaxError(ValueError):
    """Raised if the argument of a command is not a path as defined in RFC 5321 §4.1.2."""


class NonAsciiPath(PathSyntaxError):
    """Raised for a path in UTF-8 (RFC 6531) in a transaction without SMTPUTF8."""


class LocalPartError(ValueError):
    """Raised for a local part that clients may not choose; ``str()`` is the reason, worded for the client."""


class Mailbox(Struct, frozen=True, gc=False):
    """The mailbox that a path specifies.

    ``local_part`` is unquoted, and its case is preserved. ``domain`` is in lower case with A-labels, an address literal
    in brackets, or ``""`` for ``<postmaster>`` and other names without a domain.
    """

    local_part: str
    domain: str


@lru_cache(maxsize=1024)
def plain_domain(name: bytes) -> str | None:
    """Return a domain in lower case; None if it is not an ASCII domain.

    Results are cached, because most mail is for the same few domains.
    """
    return name.decode("ascii").lower() if _is_domain(name) else None


def split_path(argument: bytes) -> tuple[bytes, bytes]:
    """Split the text after ``MAIL FROM:`` or ``RCPT TO:`` into the path and the parameters that follow the path.

    The path is returned without its angle brackets; the null path is ``b""``. A ``>`` in a quoted string does not end
    the path. Spaces before the path are tolerated, as some clients send a space there. Raises PathSyntaxError.
    """
    match = _split(argument)
    if match is None:
        raise PathSyntaxError("a path must be in angle brackets, and only a space may follow it")
    return match[1], match[2] or b""


def parse_path(path: bytes, *, utf8: bool = False, bare: bool = False) -> Mailbox:
    """Parse a path without its angle brackets (RFC 5321 §4.1.2; with ``utf8`` also RFC 6531 §3.3).

    With ``bare``, the domain may be missing from any path, as in ``<root>``; otherwise, only from ``<postmaster>``.

    A source route is checked and then ignored (appendix C). The null path is an error here; the caller must handle it.
    Raises PathSyntaxError, or NonAsciiPath for valid UTF-8 without ``utf8``.
    """
    if len(path) > MAX_ADDRESS_OCTETS:  # this limit also applies to the domain
        raise PathSyntaxError("the path is too long")
    match = _plain(path)
    if match is None:
        return _parse_rare(path, utf8=utf8, bare=bare)
    at = match.end(1)
    if at > MAX_LOCAL_PART_OCTETS:
        raise PathSyntaxError("the local part is too long")
    text = path.decode("ascii")
    return Mailbox(text[:at], text[at + 1 :].lower())


def parse_recipient(path: bytes, *, utf8: bool = False, bare: bool = False) -> Mailbox:
    """Parse the path of RCPT as ``parse_path`` does, but also reject encoded-words.

    In the path grammar, an encoded-word is an ordinary local part, but RFC 2047 §5 forbids it in an address. The reply
    must not refer to the address that the encoded-word resembles.
    """
    mailbox = parse_path(path, utf8=utf8, bare=bare)
    if "=?" in mailbox.local_part and _encoded_word(mailbox.local_part):
        raise PathSyntaxError("an encoded-word is not an address")
    return mailbox


def inbox_address(mailbox: Mailbox) -> str:
    """Return the address of a mailbox's inbox: lower case, without ``+tag``.

    A character that only a quoted string can contain (a space, an ``@``) is kept, so such an address has no inbox.
    """
    return f"{_inbox_name(mailbox.local_part)}@{mailbox.domain}"


def canonical(text: str) -> str | None:
    """Return the inbox address for an address from an external source, such as a URL; None if it is not valid.

    The rules are the same as for RCPT with SMTPUTF8, except that a source route or a missing domain is not allowed.
    """
    if len(text) > MAX_ADDRESS_OCTETS or text.startswith("@"):
        return None
    try:
        mailbox = parse_path(text.encode(), utf8=True)
    except ValueError:  # encoding a lone surrogate raises UnicodeEncodeError
        return None
    return inbox_address(mailbox) if mailbox.domain else None


def comparable(recipient: str) -> str:
    """Return the form in which recipients are compared: case-folded, with A-labels in the domain (RFC 5890 §2.3.2.1).

    Unlike ``inbox_address``, keeps the tag. Text that is not an address is only case-folded.
    """
    if recipient.isascii():
        return recipient.lower()
    local_part, at, domain = recipient.rpartition("@")
    if not at or domain.isascii() or len(recipient) > MAX_ADDRESS_OCTETS:
        return recipient.casefold()
    return f"{local_part.casefold()}{at}{_comparable_domain(domain)}"


@lru_cache(maxsize=1024)
def _comparable_domain(domain: str) -> str:
    try:
        return hostnames.to_ascii(domain)
    except ValueError:
        return domain  # no mail reaches it, and folding it might turn it into a different name


def check_local_part(text: str) -> str:
    """Return a local part chosen by a client, in lower case; raises LocalPartError.

    It has 3 to 64 characters of ``a-z 0-9 . _ -``, starts and ends with a letter or digit, contains no two consecutive
    dots, and is not reserved.
    """
    name = text.lower()
    if not text.isascii() or not _custom(name):  # the lower case of U+212A KELVIN SIGN is "k"
        raise LocalPartError(
            "expected 3 to 64 characters (a-z 0-9 . _ -) that start and end with a letter or digit, "
            "without consecutive dots",
        )
    if name in RESERVED_LOCAL_PARTS:
        raise LocalPartError("this name is reserved")
    return name


def random_local_part(choice: Callable[[str], str]) -> str:
    """Return a new local part of 12 characters with about 59 bits of entropy; ``choice`` is like ``secrets.choice``."""
    rest = [choice(_LETTERS_AND_DIGITS) for _ in range(RANDOM_LENGTH - 1)]
    return choice(_LETTERS) + "".join(rest)


def is_operator(mailbox: Mailbox, domains: Container[str]) -> bool:
    """Return whether a mailbox belongs to the operator (RFC 5321 §4.5.1, RFC 2142 §5).

    ``domains`` are the domains of this service, in lower case with A-labels.
    """
    name = _inbox_name(mailbox.local_part)
    if not mailbox.domain:
        return name == "postmaster"
    return name in {"postmaster", "abuse"} and mailbox.domain in domains


def _parse_rare(path: bytes, *, utf8: bool, bare: bool) -> Mailbox:
    try:
        text = path.decode()
    except UnicodeDecodeError as error:
        raise PathSyntaxError("not UTF-8") from error
    if text.lower() == "postmaster":
        return Mailbox(text, "")
    mailbox = _parse_mailbox(_without_route(text), bare=bare)
    if not utf8 and not text.isascii():
        raise NonAsciiPath("UTF-8 in a path requires SMTPUTF8")
    return mailbox


def _without_route(text: str) -> str:
    """Remove a source route such as ``@one.example,@two.example:``; a hop is a domain, never an address literal."""
    if not text.startswith("@"):
        return text
    route, colon, mailbox = text.partition(":")
    if not colon:
        raise PathSyntaxError("a source route must end with a colon")
    for hop in route.split(","):
        if not hop.startswith("@"):
            raise PathSyntaxError("each hop of a source route must start with @")
        _parse_domain(hop[1:])
    return mailbox


def _parse_mailbox(text: str, *, bare: bool) -> Mailbox:
    match = _local_part(text) or (_local_part(f"{text}@") if bare else None)
    if match is None:
        raise PathSyntaxError("not a local part and a domain")
    if len(text[: match.end() - 1].encode()) > MAX_LOCAL_PART_OCTETS:
        raise PathSyntaxError("the local part is too long")
    atoms, quoted = match.groups()
    local_part = _quoted_pair.sub(r"\1", quoted) if atoms is None else atoms
    domain = text[match.end() :]
    if match.end() > len(text):
        return Mailbox(local_part, "")
    if domain.startswith("["):
        return Mailbox(local_part, _parse_literal(domain))
    return Mailbox(local_part, _parse_domain(domain))


def _parse_domain(text: str) -> str:
    try:
        return hostnames.to_ascii(text)
    except ValueError as error:
        raise PathSyntaxError("not a domain") from error


def _parse_literal(text: str) -> str:
    try:
        return hostnames.check_address_literal(text)
    except ValueError as error:
        raise PathSyntaxError("not an address literal") from error


def _inbox_name(local_part: str) -> str:
    name = local_part.partition("+")[0] or local_part
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFC", name.lower())
    return name if folded.isascii() else folded  # U+212A KELVIN SIGN must not reach the inbox "k"
