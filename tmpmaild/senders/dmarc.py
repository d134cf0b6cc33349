"""DMARC (RFC 7489, RFC 9091): whether what SPF and DKIM have proven is the domain that the From field claims."""

from functools import cache
from typing import Final

from dkim.util import InvalidTagValueList, parse_tag_value
from publicsuffixlist import PublicSuffixList

from tmpmaild import hostnames
from tmpmaild.mail import addresslists, mime
from tmpmaild.senders.resolver import Answer, Lookup, Unresolved, printable
from tmpmaild.verdicts import DkimVerdict, DmarcVerdict, SpfVerdict

_MOST_RECORD_BYTES: Final = 4096


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=True)


def organization(domain: str) -> str:
    """Return the domain that somebody has registered, such as ``example.co.uk`` of ``mail.example.co.uk``."""
    return _suffixes().privatesuffix(domain) or domain


def check(raw: bytes, spf: SpfVerdict, dkim: tuple[DkimVerdict, ...], lookup: Lookup) -> DmarcVerdict:
    """Check the From field of a mail. ``policy`` is that of the domain, whatever ``pct`` says."""
    domains, fields = _authors(raw)
    if not fields or not domains:
        return DmarcVerdict("none", reason="no From field with a domain")
    domain = domains[0]
    if fields > 1 or len(set(domains)) > 1:
        return DmarcVerdict("fail", domain=domain, reason="several From fields, or authors of several domains")
    try:
        tags, policy = _record(domain, lookup)
    except Unresolved as error:
        return DmarcVerdict("temperror", domain=domain, reason=str(error))
    if tags is None:
        return DmarcVerdict("none", domain=domain, reason="the domain has no DMARC record")
    return _compared(domain, tags, policy, spf, dkim)


def _compared(
    domain: str, tags: dict[str, str], policy: str, spf: SpfVerdict, dkim: tuple[DkimVerdict, ...]
) -> DmarcVerdict:
    proven = [("aspf", spf.domain) for _ in range(spf.result == "pass")]
    proven += [("adkim", one.domain) for one in dkim if one.result == "pass"]
    if any(_is_aligned(domain, other, tags.get(mode, "r")) for mode, other in proven):
        return DmarcVerdict("pass", policy, domain)
    if "temperror" in [spf.result, *[one.result for one in dkim]]:
        return DmarcVerdict("temperror", policy, domain, "SPF or DKIM could not be checked")
    others = ", ".join(f"{mode[1:].upper()}: {other}" for mode, other in proven)
    reason = f"neither SPF nor DKIM is a pass for {domain}" + (f" ({others})" if others else "")
    return DmarcVerdict("fail", policy, domain, printable(reason))


def _authors(raw: bytes) -> tuple[list[str], int]:
    """Return the domains in the From fields, and how many such fields there are."""
    values = [value for name, value in mime.header(raw, {})[0] if name.lower() == "from"]
    addresses = [address for value in values for _, address in addresslists.all_of(value)]
    return [domain for one in addresses if (domain := _ascii(one.rpartition("@")[2]))], len(values)


def _ascii(domain: str) -> str:
    try:
        return hostnames.to_ascii(domain)
    except ValueError:
        return ""


def _record(domain: str, lookup: Lookup) -> tuple[dict[str, str] | None, str]:
    """Return the record that applies to a domain and the policy that it has for it. Raises ``Unresolved``."""
    tags = _tags(lookup.ask(f"_dmarc.{domain}", "TXT"))
    if tags is not None:
        return tags, tags.get("p", "none")
    above = organization(domain)
    tags = None if above == domain else _tags(lookup.ask(f"_dmarc.{above}", "TXT"))
    if tags is None:
        return None, ""
    policy = tags.get("sp", tags.get("p", "none"))
    if "np" in tags and not lookup.ask(domain, "A").exists:
        policy = tags["np"]
    return tags, policy


def _tags(answer: Answer) -> dict[str, str] | None:
    """Return the tags of the record, of which there must be exactly one."""
    found = [value for value in answer.values if value.startswith(b"v=DMARC1") and len(value) <= _MOST_RECORD_BYTES]
    if len(found) != 1:
        return None
    try:
        tags = parse_tag_value(found[0])
    except InvalidTagValueList:
        return None
    if tags.get(b"v") != b"DMARC1":
        return None
    return {name.decode().lower(): value.decode("ascii", "replace").lower() for name, value in tags.items()}


def _is_aligned(author: str, proven: str, mode: str) -> bool:
    other = _ascii(proven)
    return other == author or (mode != "s" and organization(other) == organization(author))
