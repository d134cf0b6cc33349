"""Host names and address literals, as they are written in mail and configuration. This module performs no DNS lookups.

Returned names are normalised: lower case, A-labels, no trailing dot. ``*.NAME`` matches every subdomain of ``NAME``, at
any depth, but not ``NAME`` itself.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

MAX_NAME_OCTETS = 255  # RFC 5321 §4.5.3.1.2

_LABEL = r"(?!-)[a-z0-9-]{1,63}+(?<!-)"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_IPV6_TAG = "[ipv6:"
WILDCARD = "*."
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# RFC 5892 §2.6 and appendix A: characters that are valid in some contexts although not letters, marks or digits.
_JOINERS = frozenset("-\u00b7\u0375\u05f3\u05f4\u200c\u200d\u30fb")


def to_ascii(name: str) -> str:
    """Return a host name in lower case with its U-labels as A-labels (RFC 5890 §2.3.2.1).

    Compatibility forms (full-width letters, the ideographic full stop) are rejected rather than mapped: normalising
    must not turn a name into a different one. Raises ValueError if the result does not consist of LDH labels.
    """
    if len(name) > MAX_NAME_OCTETS:  # checked before punycode encoding, which takes quadratic time
        raise ValueError("a host name has at most 255 bytes")
    ascii_name = name.lower() if name.isascii() else ".".join(map(_a_label, name.split(".")))
    if len(ascii_name) > MAX_NAME_OCTETS or not _NAME(ascii_name):
        raise ValueError("not a host name")
    return ascii_name


def to_ascii_or_wildcard(name: str) -> str:
    """Return the result of ``to_ascii`` for a host name, which may start with ``*.``. Raises ValueError."""
    below = name.removeprefix(WILDCARD)
    return name[: len(name) - len(below)] + to_ascii(below)


class Domains:
    """The names matched by a list of domains and wildcards.

    ``name in domains`` takes time linear in the number of labels.
    """

    __slots__ = ("_names", "_parents")

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {name for name in names if not name.startswith(WILDCARD)}
        self._parents = {name.removeprefix(WILDCARD) for name in names if name.startswith(WILDCARD)}

    def __contains__(self, name: object) -> bool:
        return name in self._names or (bool(self._parents) and self._covers(str(name)))

    def _covers(self, name: str) -> bool:
        parent = name
        while parent := parent.partition(".")[2]:
            if parent in self._parents:
                return bool(_NAME(name))  # the domain of a path may contain underscores, and need not be a host name
        return False


class _AnyDomain(Domains):
    """Matches every name, including address literals."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def __contains__(self, name: object) -> bool:
        return True


ANY_DOMAIN = _AnyDomain()
"""The domains of a service that accepts messages for any domain."""


@lru_cache(maxsize=16)
def domains(names: tuple[str, ...]) -> Domains:
    """Return a ``Domains`` object for these names.

    The result is cached, because it changes only with the configuration.
    """
    return Domains(names)


def check_address_literal(literal: str) -> str:
    """Return ``[192.0.2.1]`` or ``[IPv6:2001:db8::1]`` in lower case, with its brackets (RFC 5321 §4.1.3).

    Raises ValueError for an invalid address, and for a tag other than ``IPv6:``, the only tag that is registered.
    """
    text = literal.lower()
    if not text.endswith("]") or "%" in text:  # an IPv6 zone is meaningful only on one machine
        raise ValueError("not an address literal")
    if text.startswith(_IPV6_TAG):
        IPv6Address(text[len(_IPV6_TAG) : -1])
    else:
        IPv4Address(text[1:-1])
    return text


def _a_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    folded = unicodedata.normalize("NFC", label.lower())
    if folded.isascii() or not _is_u_label(folded):  # U+212A KELVIN SIGN would fold to "k"
        raise ValueError("not a U-label")
    # The codec "idna" is not used, because it implements IDNA 2003, which treats "straße" and "strasse" as the same
    # name.
    return "xn--" + folded.encode("punycode").decode("ascii")


def _is_u_label(label: str) -> bool:
    """Check a label against those rules of RFC 5891 §4.2.3 and RFC 5892 that require no tables."""
    stable = unicodedata.normalize("NFKC", label) == label
    hyphens = label.startswith("-") or label.endswith("-") or label[2:4] == "--"
    categories = {unicodedata.category(char)[0] for char in label if char not in _JOINERS}
    return stable and not hyphens and unicodedata.category(label[0])[0] != "M" and categories <= set("LMN")
