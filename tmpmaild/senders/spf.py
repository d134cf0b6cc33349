"""SPF (RFC 7208): pyspf reads the records and counts the terms; the questions are asked by ``resolver.py``."""

import re
from typing import Any, Final

import spf

from tmpmaild import hostnames
from tmpmaild.model import Envelope, SpfVerdict
from tmpmaild.senders.resolver import Lookup, Unresolved, printable

# pyspf has patterns that take the square of what they read.
_MOST_BYTES: Final = 4096
_MOST_TERM_BYTES: Final = 512
_NO_ADDRESS: Final = "the address of the client is not known"
_VERSION: Final = re.compile(rb"v=spf1(?: |$)", re.IGNORECASE)


class _Query(spf.query):  # type: ignore[misc]
    """One check by pyspf."""

    lookup: Lookup

    def dns(self, name: str, qtype: str, cnames: object = None, ignore_void: bool = False) -> list[Any]:  # noqa: ARG002, FBT001, FBT002
        """Return the values of the records, as pyspf has them; a void lookup counts (§4.6.4)."""
        try:
            values = self.lookup.ask(name, qtype).values
        except Unresolved as error:
            raise spf.TempError(str(error)) from error
        if not values and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                raise spf.PermError(f"more than {spf.MAX_VOID_LOOKUPS} lookups found nothing")
        return [_text(value) for value in values] if qtype == "TXT" else list(values)

    def validated_ptrs(self) -> list[str]:
        """Return the names of the client that lead back to it; what fails on the way does not (§5.5)."""
        try:
            names = self.dns_ptr(self.i)[: spf.MAX_PTR]
        except spf.TempError:
            return []
        return [name for name in names if self._leads_here(name)]

    def _leads_here(self, name: str) -> bool:
        try:
            return bool(self.cidrmatch(self.dns_a(name, self.A), self.cidrmax))
        except spf.TempError:
            return False

    def get_explanation(self, spec: object) -> None:
        """Ask for no explanation: it would be another question, for words that a stranger chose."""


def _text(value: bytes) -> list[bytes]:
    is_too_long = len(value) > _MOST_BYTES or any(len(term) > _MOST_TERM_BYTES for term in value.split())
    if is_too_long and _VERSION.match(value):
        raise spf.PermError(f"the record, or a term of it, is too long ({len(value)} octets)")
    return [value]


def check(envelope: Envelope, lookup: Lookup) -> SpfVerdict:
    """Check MAIL FROM, or HELO for the null path."""
    client = envelope.remote_ip.partition("%")[0]
    local_part, _, written = envelope.sender.rpartition("@")
    try:
        domain = hostnames.to_ascii(written if envelope.sender else envelope.helo)
    except ValueError:
        return SpfVerdict("none", reason="no domain in MAIL FROM or HELO")
    sender = f"{local_part}@{domain}" if envelope.sender else ""
    if not client:
        return SpfVerdict("none", domain, _NO_ADDRESS)
    try:
        query = _Query(client, sender, envelope.helo if sender else domain, querytime=0)
        query.lookup = lookup
        query.l, query.o, query.d = local_part or "postmaster", domain, domain  # it takes the first @, quoted or not
        result, _, explanation = query.check()
    except spf.PermError:  # such as by a Unix socket
        return SpfVerdict("none", domain, _NO_ADDRESS)
    except Exception as error:  # noqa: BLE001 - it is of 2003 and was not written for records that attack
        return SpfVerdict("permerror", domain, f"the record cannot be read ({type(error).__name__})")
    reason = explanation if result.endswith("error") else query.mechanism or ""
    return SpfVerdict(result, domain, printable(reason))
