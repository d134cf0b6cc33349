"""Compares the records to publish with those that the DNS has, asked by the resolver of ``senders``."""

import time
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from tmpmaild.cli.doctor.network import DMARC, SPF
from tmpmaild.cli.doctor.results import Record, Result, ok, problem, warning
from tmpmaild.senders.resolver import Answer, Resolver, Unresolved

_QUESTION_SECONDS = 5.0
_ALL_SECONDS = 10.0
_NULL_MX = "."


def compare(
    records: Iterable[Record], hostname: str, resolver: Resolver, seconds: float = _ALL_SECONDS
) -> Iterator[Result]:
    """Tell whether each record is published; those of one name and type together. After that time nothing is asked."""
    last = time.monotonic() + seconds
    values: dict[tuple[str, str], list[str]] = {}
    for record in records:
        values.setdefault((record.name, record.type), []).append(record.value)
    values.setdefault((hostname, "AAAA"), [])
    for (name, kind), wanted in values.items():
        check = f"DNS {kind} {name}"
        try:
            answer = resolver.ask(name, kind, min(time.monotonic() + _QUESTION_SECONDS, last))
        except Unresolved as error:
            yield warning(check, f"cannot be told: {error}", "try again, or name a resolver by --resolver")
            continue
        if kind == "MX":
            yield _exchanges(check, answer, hostname)
        elif kind == "TXT":
            yield _text_records(check, wanted[0], [value.decode("utf-8", "replace") for value in answer.values])
        else:
            yield from _addresses(check, kind, [value for value in wanted if value], list(answer.values))


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


def _exchanges(check: str, found: Answer, hostname: str) -> Result:
    if not found.exists:
        return problem(check, "there is no such domain", "register it, or correct domains")
    if not found.values:
        return problem(check, "none", f"publish 10 {hostname}.")
    pairs = sorted((preference, name.lower()) for preference, name in found.values)
    if hostname.lower() not in [name for _, name in pairs]:
        shown = ", ".join("null MX: no mail is taken" if name == _NULL_MX else name for _, name in pairs)
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
