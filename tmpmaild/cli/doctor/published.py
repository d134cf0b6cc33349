"""Compares the records to publish with those that are: the only part of tmpmaild that connects to other machines."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address

import dns.exception
import dns.rdatatype
import dns.resolver

from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.records import DMARC, SPF, Record

_QUERY_SECONDS = 5.0
_ALL_SECONDS = 60.0
_MAX_SILENCES = 2
_MAX_ANSWERS = 50
_NULL_MX = "."

Published = list[str] | None
"""The values of the records of a name and type: none of that type is an empty list, no such name is None."""
Ask = Callable[[str, str], Published]
"""Returns the values of the records of a name and a type. Raises ``Unknown``."""


class Unknown(Exception):
    """The DNS did not answer; the text says why."""


class Dns:
    """Asks a resolver, for a limited time in all, and no more once it has been silent twice."""

    def __init__(
        self,
        server: tuple[str, int] | None = None,
        *,
        query_seconds: float = _QUERY_SECONDS,
        all_seconds: float = _ALL_SECONDS,
    ) -> None:
        self._server = server
        self._query_seconds = query_seconds
        self._ends_at = time.monotonic() + all_seconds
        self._silences = 0

    def ask(self, name: str, kind: str) -> Published:
        """Return what is published. Raises ``Unknown``."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise Unknown("not asked, the time is up")
        if self._silences >= _MAX_SILENCES:
            raise Unknown("not asked, since the resolver does not answer")
        seconds = min(left, self._query_seconds)
        try:
            answer = self._resolver().resolve(f"{name}.", kind, lifetime=seconds, raise_on_no_answer=False)
        except dns.resolver.NXDOMAIN:
            return None
        except dns.exception.Timeout as error:
            self._silences += 1
            raise Unknown(f"no answer within {seconds:.1f} s") from error
        except dns.exception.DNSException as error:
            raise Unknown(" ".join(str(error).split()) or type(error).__name__) from error
        return [_text(one) for one in list(answer.rrset or ())[:_MAX_ANSWERS]]

    def _resolver(self) -> dns.resolver.Resolver:
        resolver = dns.resolver.Resolver(configure=self._server is None)
        if self._server is not None:
            resolver.nameservers, resolver.port = [self._server[0]], self._server[1]
        return resolver


def _text(record: object) -> str:
    strings = getattr(record, "strings", None)
    if strings is not None:
        return b"".join(strings).decode("utf-8", "replace")
    return str(record).rstrip(".") or _NULL_MX


def compare(records: Iterable[Record], hostname: str, ask: Ask, *, has_nodes: bool = False) -> Iterator[Finding]:
    """Say of each record whether it is published; those of one name and type together.

    ``has_nodes``: other machines may have daemons on the same database, and MX names of their own.
    """
    values: dict[tuple[str, str], list[str]] = {}
    for record in records:
        values.setdefault((record.name, record.type), []).append(record.value)
    values.setdefault((hostname, "AAAA"), [])
    names = [hostname]
    for (name, kind), wanted in values.items():
        check = f"DNS {kind} {name}"
        try:
            found = ask(name, kind)
        except Unknown as error:
            yield _unknown(check, error)
            continue
        if kind in ("A", "AAAA"):
            yield from _addresses(check, kind, [value for value in wanted if value], found or [])
        elif kind == "MX":
            names += [one for _, one in _exchange_pairs(found or []) if one]
            yield _exchanges(check, found, hostname)
        else:
            yield _text_records(check, wanted[0], found or [])
    yield from _mail_servers(list(dict.fromkeys(map(str.lower, names))), ask, has_nodes=has_nodes)


def _unknown(check: str, error: Unknown) -> Finding:
    return warning(check, f"cannot be told: {error}", "try again, or name a resolver by --resolver")


def _addresses(check: str, kind: str, wanted: list[str], found: list[str]) -> Iterator[Finding]:
    addresses = {str(ip_address(one)) for one in found}
    if not found and (wanted or kind == "A"):
        yield (problem if kind == "A" else warning)(check, "none", f"publish {', '.join(wanted) or 'it'}")
    elif not wanted and kind == "AAAA" and found:
        text = f"{', '.join(found)}, and SMTP listens on no IPv6 address of the internet that is known here"
        yield warning(check, text, 'add "[::]:25" to smtp.listen, or remove the record')
    elif wanted and not addresses & set(wanted):
        text = f"{', '.join(found)}, and this machine has {', '.join(wanted)}"
        yield warning(check, text, "correct the record, unless that is a machine that passes port 25 on")
    elif found:
        yield ok(check, ", ".join(found))


def _exchange_pairs(found: Iterable[str]) -> list[tuple[int, str]]:
    """Return preference and name of MX records, those that senders take first at the beginning."""
    return sorted((int(number), name.lower().rstrip(".")) for number, _, name in (one.partition(" ") for one in found))


def _exchanges(check: str, found: Published, hostname: str) -> Finding:
    if found is None:
        return problem(check, "there is no such domain", "register it, or correct domains")
    if not found:
        return problem(check, "none", f"publish 10 {hostname}.")
    pairs = _exchange_pairs(found)
    names = [name for _, name in pairs]
    if hostname.lower() not in names:
        shown = ", ".join(name or "null MX: no mail is taken" for name in names)
        return problem(check, f"{shown}: mail goes elsewhere", f"publish 10 {hostname}.")
    return ok(check, ", ".join(f"{preference} {name}" for preference, name in pairs))


def _mail_servers(names: Sequence[str], ask: Ask, *, has_nodes: bool) -> Iterator[Finding]:
    """Check the names in MX records: the first is ours, whose addresses are compared elsewhere."""
    own, *others = names
    for name in names:
        try:
            alias = ask(name, "CNAME")
        except Unknown as error:
            yield _unknown(f"DNS CNAME {name}", error)
            continue
        if alias:  # RFC 2181 §10.3
            text = f"{alias[0]}: the name in an MX record must have addresses of its own, so some senders fail"
            yield problem(f"DNS CNAME {name}", text, "publish A and AAAA records in its place")
    for name in others:
        yield _other_server(name, own, ask, has_nodes=has_nodes)


def _other_server(name: str, own: str, ask: Ask, *, has_nodes: bool) -> Finding:
    check = f"DNS A/AAAA {name}"
    try:
        theirs, ours = ({*(ask(one, "A") or ()), *(ask(one, "AAAA") or ())} for one in (name, own))
    except Unknown as error:
        return _unknown(check, error)
    if not theirs:
        return problem(check, "none, so what is sent there first arrives late", "publish them, or remove its MX record")
    shown = ", ".join(sorted(theirs))
    if theirs & ours:
        return ok(check, f"{shown}: this machine")
    if has_nodes:
        return ok(check, f"{shown}: another node")
    text = f"{shown}: another machine, and mail that is sent there is not found here"
    return warning(check, text, "remove its MX record, or let both store mail in one database by storage.url")


def _text_records(check: str, wanted: str, found: list[str]) -> Finding:
    version = wanted.partition(";")[0].partition(" ")[0]
    ours = [one for one in found if one.lower().startswith(version.lower())]
    if check.startswith("DNS TXT *._domainkey."):
        return ok(check, "published" if ours else "not published, which is usual; the other two are enough")
    if len(ours) > 1:
        return warning(check, f"{len(ours)} records {version}, so none counts", "publish one only")
    if not ours:
        return warning(check, "none, so others can send mail in this name", f'publish "{wanted}"')
    if not _is_as_strict(ours[0], wanted):
        return warning(check, f'"{ours[0]}" lets others send mail in this name', f'publish "{wanted}"')
    return ok(check, ours[0])


def _is_as_strict(found: str, wanted: str) -> bool:
    if wanted == SPF:
        return found.lower().split() == SPF.split()
    parts = {part.strip().lower().replace(" ", "") for part in found.split(";")}
    return wanted != DMARC or "p=reject" in parts
