"""DMARC (RFC 7489, RFC 9091): checks whether SPF or DKIM authenticates the domain in the From field."""

import re
from functools import cache
from typing import Final

from dkim.util import InvalidTagValueList, parse_tag_value
from publicsuffixlist import PublicSuffixList

from tmpmaild import hostnames
from tmpmaild.mail import headers, mime
from tmpmaild.model import DkimVerdict, DmarcVerdict, SpfVerdict
from tmpmaild.senders.resolver import Answer, Lookup, Unresolved, printable

_MAX_RECORD_BYTES: Final = 4096
_VERSION: Final = re.compile(rb"v\s*=\s*DMARC1\s*(?:;|$)")
_POLICIES: Final = ("none", "quarantine", "reject")


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=True)


def organization(domain: str) -> str:
    """Return the registered domain, such as ``example.co.uk`` for ``mail.example.co.uk``."""
    return _suffixes().privatesuffix(domain) or domain


def check(raw: bytes, spf: SpfVerdict, dkim: tuple[DkimVerdict, ...], lookup: Lookup) -> DmarcVerdict:
    """Check the From field of a message. ``policy`` is the domain's policy, regardless of ``pct``."""
    header, _ = headers.of_mail(raw)
    domains, fields = authors(raw)
    domain = next(filter(None, domains), "")
    if not domain:
        return DmarcVerdict("none", reason="no From field with a domain")
    if fields > 1 or len(set(domains)) > 1:
        return DmarcVerdict(
            "fail", domain=domain, reason="several From fields, or authors at several domains or without a domain"
        )
    try:
        tags, policy = _record(domain, lookup)
    except Unresolved as error:
        return DmarcVerdict("temperror", domain=domain, reason=str(error))
    if tags is None:
        return DmarcVerdict("none", domain=domain, reason="the domain has no DMARC record")
    found = _compared(domain, tags, policy, spf, dkim)
    if found.result == "pass" and header.has_other_lines:
        return DmarcVerdict(
            "none",
            policy,
            domain,
            "the header has a line that is not a field: other programs may read a different From",
        )
    return found


def _compared(
    domain: str, tags: dict[str, str], policy: str, spf: SpfVerdict, dkim: tuple[DkimVerdict, ...]
) -> DmarcVerdict:
    server = [spf] if spf.result == "pass" else []
    signers = [one for one in dkim if one.result == "pass"]
    if any(is_aligned(domain, one.domain, tags.get("aspf", "r")) for one in server):
        return DmarcVerdict("pass", policy, domain)
    left = [one.unsigned for one in signers if is_aligned(domain, one.domain, tags.get("adkim", "r"))]
    if left:
        unsigned = tuple([name for name in left[0] if all(name in one for one in left)])
        return DmarcVerdict("pass", policy, domain, unsigned=unsigned)
    if "temperror" in [spf.result, *[one.result for one in dkim]]:
        return DmarcVerdict("temperror", policy, domain, "SPF or DKIM could not be checked")
    others = ", ".join([*[f"SPF: {one.domain}" for one in server], *[f"DKIM: {one.domain}" for one in signers]])
    reason = f"neither SPF nor DKIM passes for {domain}" + (f" ({others})" if others else "")
    return DmarcVerdict("fail", policy, domain, printable(reason))


def authors(raw: bytes) -> tuple[list[str], int]:
    """Return the domain of each author ("" if an author has no domain), and the number of From fields.

    Authors are parsed in the same way as the address that is shown for the message.
    """
    values = [value for name, value in mime.readable_header(raw) if name.lower() == "from"]
    addresses = [address for value in values for _, address in headers.mailboxes(value)]
    return [_domain(address) if _is_shown(address) else "" for address in addresses], len(values)


def _is_shown(address: str) -> bool:
    """Return whether an address is shown in full; if truncated, it may appear to be at a different domain."""
    return len(address.encode("utf-8", "replace")) <= mime.MAX_ADDRESS_BYTES


def _domain(address: str) -> str:
    _, at, domain = address.rpartition("@")
    return _ascii(domain) if at else ""


def _ascii(domain: str) -> str:
    try:
        return hostnames.to_ascii(domain)
    except ValueError:
        return ""


def _record(domain: str, lookup: Lookup) -> tuple[dict[str, str] | None, str]:
    """Return the record that applies to a domain, and its policy for that domain. Raises ``Unresolved``."""
    tags = _tags(lookup.query(f"_dmarc.{domain}", "TXT"))
    if tags is not None:
        return tags, _policy(tags, "p")
    above = organization(domain)
    tags = None if above == domain else _tags(lookup.query(f"_dmarc.{above}", "TXT"))
    if tags is None:
        return None, ""
    if "np" in tags and not lookup.query(domain, "A").exists:
        return tags, _policy(tags, "np", "sp", "p")
    return tags, _policy(tags, "sp", "p")


def _policy(tags: dict[str, str], *names: str) -> str:
    return next((tags[name] for name in names if tags.get(name) in _POLICIES), "none")


def _tags(answer: Answer) -> dict[str, str] | None:
    """Return the tags of the record if there is exactly one record; malformed tags are ignored (RFC 7489 §6.3)."""
    found = [value for value in answer.texts if len(value) <= _MAX_RECORD_BYTES and _VERSION.match(value)]
    if len(found) != 1:
        return None
    try:
        tags = parse_tag_value(b";".join([tag for tag in found[0].split(b";") if b"=" in tag]))
    except InvalidTagValueList:
        return None
    return {name.decode().lower(): value.decode("ascii", "replace").lower() for name, value in tags.items()}


def is_aligned(author: str, proven: str, mode: str) -> bool:
    """Return whether an authenticated domain is the author's or, in mode "r", has the same registered domain."""
    other = _ascii(proven)
    return other == author or (mode != "s" and organization(other) == organization(author))
