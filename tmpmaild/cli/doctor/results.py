"""What the checks say, one line each with what to do about it, and the records to publish; as text or as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from tmpmaild.cli.console import shown
from tmpmaild.model import counted

_LEVEL_COLUMNS = 9
_NOTE = "; The last three say that nobody sends mail from a domain: leave them out where somebody does."
NO_ADDRESS = "the public IP address of this machine"


class Result(Struct, frozen=True):
    """The result of one check. ``advice`` says what to do; a result that is ``ok`` needs none."""

    check: str
    level: Literal["ok", "warning", "problem"]
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Result:
    """Return a result that is as it should be."""
    return Result(check, "ok", text)


def warning(check: str, text: str, advice: str = "") -> Result:
    """Return a result with which the service works, but not as most operators want."""
    return Result(check, "warning", text, advice)


def problem(check: str, text: str, advice: str = "") -> Result:
    """Return a result with which the service, or a part of it, does not work or is not safe."""
    return Result(check, "problem", text, advice)


class Record(Struct, frozen=True):
    """A record to publish. An empty ``value`` of an A record cannot be known here."""

    name: str
    type: str
    value: str


def as_text(results: Sequence[Result], records: Sequence[Record]) -> str:
    """Return a line for each result, the records to publish, and a summary."""
    lines = [_line(result) for result in results]
    if records:
        lines += ["", "DNS records to publish:", *(f"  {line}" for line in zone(records)), f"  {_NOTE}", ""]
    counts = [(sum(result.level == level for result in results), level) for level in ("problem", "warning")]
    lines.append(", ".join(counted(count, level) for count, level in counts))
    return "\n".join(lines)


def as_json(results: Sequence[Result], records: Sequence[Record]) -> str:
    """Return one JSON object."""
    return json.dumps(
        {
            "ok": not has_problem(results),
            "results": [asdict(result) for result in results],
            "records": [asdict(record) for record in records],
        }
    )


def has_problem(results: Sequence[Result]) -> bool:
    """Return whether something does not work or is not safe."""
    return any(result.level == "problem" for result in results)


def _line(result: Result) -> str:
    advice = f" -> {result.advice}" if result.advice else ""
    return shown(f"{result.level:<{_LEVEL_COLUMNS}}{result.check}: {result.text}{advice}")


def zone(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of a zone file (RFC 1035 §5.1)."""
    for record in records:
        value = f'"{record.value}"' if record.type == "TXT" else record.value
        value = f"{value}." if record.type == "MX" else value
        comment = f"; {NO_ADDRESS}" if not value else ""
        yield f"{record.name}. {record.type} {value or comment}"
