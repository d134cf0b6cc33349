"""Compares the records to publish with those that are: the only part of tmpmaild that connects to other machines."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

import dns.exception
import dns.resolver

from tmpmaild.cli.doctor.reaching import DMARC, SPF
from tmpmaild.cli.doctor.results import Record, Result, ok, problem, warning

_QUERY_SECONDS = 5.0
_MAX_SILENCES = 2
_MAX_ANSWERS = 50
_NULL_MX = "."

Published = list[str] | None
"""The values of the records of a name and type: none of that type is an empty list, no such name is None."""


class Unknown(Exception):
    """The DNS did not answer; the text says why."""


class Dns:
    """Asks a resolver, and no more once it has been silent twice."""

    def __init__(self, server: tuple[str, int] | None = None, query_seconds: float = _QUERY_SECONDS) -> None:
        self._server = server
        self._query_seconds = query_seconds
        self._silences = 0

    def ask(self, name: str, kind: str) -> Published:
        """Return what is published. Raises ``Unknown``."""
        if self._silences >= _MAX_SILENCES:
            raise Unknown("not asked, since the resolver does not answer")
        try:
            resolver = self._resolver()
            answer = resolver.resolve(f"{name}.", kind, lifetime=self._query_seconds, raise_on_no_answer=False)
        except dns.resolver.NXDOMAIN:
            return None
        except dns.exception.Timeout as error:
            self._silences += 1
            raise Unknown(f"no answer within {self._query_seconds:.1f} s") from error
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


def compare(records: Iterable[Record], hostname: str, resolver: Dns) -> Iterator[Result]:
    """Tell whether each record is published; those of one name and type together."""
    values: dict[tuple[str, str], list[str]] = {}
    for record in records:
        values.setdefault((record.name, record.type), []).append(record.value)
    values.setdefault((hostname, "AAAA"), [])
    for (name, kind), wanted in values.items():
        check = f"DNS {kind} {name}"
        try:
            found = resolver.ask(name, kind)
        except Unknown as error:
            yield warning(check, f"cannot be told: {error}", "try again, or name a resolver by --resolver")
            continue
        if kind == "MX":
            yield _exchanges(check, found, hostname)
        elif kind == "TXT":
            yield _text_records(check, wanted[0], found or [])
        else:
            yield from _addresses(check, kind, [value for value in wanted if value], found or [])


def _addresses(check: str, kind: str, wanted: list[str], found: list[str]) -> Iterator[Result]:
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


def _exchanges(check: str, found: Published, hostname: str) -> Result:
    if found is None:
        return problem(check, "there is no such domain", "register it, or correct domains")
    if not found:
        return problem(check, "none", f"publish 10 {hostname}.")
    pairs = sorted((int(number), name.lower().rstrip(".")) for number, _, name in (one.partition(" ") for one in found))
    if hostname.lower() not in [name for _, name in pairs]:
        shown = ", ".join(name or "null MX: no mail is taken" for _, name in pairs)
        return problem(check, f"{shown}: mail goes elsewhere", f"publish 10 {hostname}.")
    return ok(check, ", ".join(f"{preference} {name}" for preference, name in pairs))


def _text_records(check: str, wanted: str, found: list[str]) -> Result:
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
