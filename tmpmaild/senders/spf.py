"""SPF (RFC 7208): pyspf evaluates the records and counts the terms, and ``resolver.py`` sends the queries."""

import re
from typing import Final

import spf

from tmpmaild import hostnames
from tmpmaild.model import Envelope, SpfVerdict
from tmpmaild.senders.resolver import Lookup, Unresolved, Value, printable

# Some patterns in pyspf take quadratic time.
_MAX_BYTES: Final = 4096
_MAX_TERM_BYTES: Final = 512
_NO_ADDRESS: Final = "the client's address is unknown"
_VERSION: Final = re.compile(rb"v=spf1(?: |$)", re.IGNORECASE)


class _Query(spf.query):  # type: ignore[misc]
    """One check by pyspf."""

    lookup: Lookup

    def dns(
        self,
        name: str,
        qtype: str,
        cnames: object = None,  # noqa: ARG002
        ignore_void: bool = False,  # noqa: FBT001, FBT002
    ) -> list[Value] | list[list[bytes]]:
        """Return the values of the records in the form that pyspf expects; void lookups are counted (§4.6.4)."""
        try:
            answer = self.lookup.query(name, qtype)
        except Unresolved as error:
            raise spf.TempError(str(error)) from error
        if not answer.values and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                raise spf.PermError(f"more than {spf.MAX_VOID_LOOKUPS} lookups without a result")
        return [_strings(text) for text in answer.texts] if qtype == "TXT" else list(answer.values)

    def validated_ptrs(self) -> list[str]:
        """Return the client's host names that resolve to its address; a name whose lookup fails is skipped (§5.5)."""
        try:
            names = self.dns_ptr(self.i)[: spf.MAX_PTR]
        except spf.TempError:
            return []
        return [name for name in names if self._resolves_back(name)]

    def _resolves_back(self, name: str) -> bool:
        try:
            return bool(self.cidrmatch(self.dns_a(name, self.A), self.cidrmax))
        except spf.TempError:
            return False

    def get_explanation(self, spec: object) -> None:
        """Skip the explanation, which would require an additional query for untrusted text."""


def _strings(value: bytes) -> list[bytes]:
    is_too_long = len(value) > _MAX_BYTES or any(len(term) > _MAX_TERM_BYTES for term in value.split())
    if is_too_long and _VERSION.match(value):
        raise spf.PermError(f"the record, or a term in it, is too long ({len(value)} bytes)")
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
        query.l, query.o, query.d = (
            local_part or "postmaster",
            domain,
            domain,
        )  # pyspf splits at the first @, even if it is quoted
        result, _, explanation = query.check()
    except spf.PermError:  # for example, for a client on a Unix socket
        return SpfVerdict("none", domain, _NO_ADDRESS)
    except Exception as error:  # noqa: BLE001 - pyspf dates from 2003 and was not written for hostile records
        return SpfVerdict("permerror", domain, f"the record cannot be parsed ({type(error).__name__})")
    reason = explanation if result.endswith("error") else query.mechanism or ""
    return SpfVerdict(result, domain, printable(reason))
